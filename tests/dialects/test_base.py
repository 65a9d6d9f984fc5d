import pytest
from tests.dialects.cases import ok

from saccade.dialects.base import CallFailure, failure, with_notes
from saccade.guest.cell import describe
from saccade.record.execution import Execution, Status


def raised(code: str) -> CallFailure:
    """The failure of code that really raises, through the traceback that the sandbox writes."""
    try:
        exec(compile(code, "<string>", "exec"), {})
    except Exception as error:
        text = describe(error, "/workspace", compiling=isinstance(error, SyntaxError))
        return failure(Execution(status=Status.ERROR, traceback=text))
    raise AssertionError("the code did not raise")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("int('x')", CallFailure("ValueError", "invalid literal for int() with base 10: 'x'")),
        ("{}['a']", CallFailure("KeyError", "'a'")),
        ("raise ValueError", CallFailure("ValueError", "ValueError")),
        ("raise ValueError('two\\n  lines: here')", CallFailure("ValueError", "two\n  lines: here")),
        ("raise ValueError('')", CallFailure("ValueError", "ValueError")),
        (
            "try:\n    1 / 0\nexcept Exception as e:\n    raise TypeError('b: c') from e",
            CallFailure("TypeError", "b: c"),
        ),
        ("import json\njson.loads('{')", None),
        ("x = (", None),
    ],
)
def test_failure_of_a_real_exception(code: str, expected: CallFailure | None) -> None:
    found = raised(code)
    if expected is None:
        assert found.kind in ("JSONDecodeError", "SyntaxError")
        assert found.message
        assert "File" not in found.message
    else:
        assert found == expected


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.OK, Status.LOST)])
@pytest.mark.parametrize("reason", [None, "", "It was ended.", "Traceback (most recent call last):"])
def test_a_failure_always_says_something(status: Status, reason: str | None) -> None:
    found = failure(Execution(status=status, traceback=reason))
    assert found.kind
    assert found.message


def test_a_traceback_without_frames() -> None:
    said = Execution(status=Status.ERROR, traceback="a.b.MyError: no\n  more")
    assert failure(said) == CallFailure("MyError", "no\n  more")
    assert failure(Execution(status=Status.ERROR, traceback="\nKeyError: 'x'\n")) == CallFailure("KeyError", "'x'")


def test_notes_come_on_their_own_lines() -> None:
    assert with_notes("a\n", ok()) == "a\n"
    assert with_notes("a\n", ok(notes=("b", "c"))) == "a\nb\nc\n"
    assert with_notes("", ok(notes=("b",))) == "b\n"
