from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.dialects.cases import PHOTO, ok

from saccade.dialects.base import DIALECTS, CallFailure, failure, load_dialect, presets, recorded_dialect, with_notes
from saccade.errors import RegistryError
from saccade.guest.cell import describe
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task


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


GOLDEN = Path(__file__).parent / "golden" / "presets.txt"


def settings(at: str, value: Any, default: object = None) -> Iterator[str]:
    """A line for each plain value that is not its class's default, with the way to it.

    Texts of prompts and tools have golden files of their own.
    """
    if isinstance(value, BaseModel):
        for name, model_field in type(value).model_fields.items():
            yield from settings(f"{at}.{name}", getattr(value, name), model_field.get_default())
    elif is_dataclass(value):
        for one in fields(value):
            if one.name not in ("prompts", "tools", "toolbox"):
                yield from settings(f"{at}.{one.name}", getattr(value, one.name))
    elif value != default and isinstance(value, bool | int | float | str | tuple):
        yield f"{at} = {value!r}"


def test_presets_are_those_of_their_papers_and_repositories() -> None:
    names = [f"{name}:{preset}".rstrip(":") for name in DIALECTS.ids() for preset in presets(name) or ("",)]
    lines = [line for name in names for line in settings(name, load_dialect(name))]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("entry", DIALECTS.ids())
def test_every_preset_loads_under_its_own_id(entry: str) -> None:
    names = presets(entry)
    for preset in names or ("",):
        wanted = f"{entry}:{preset}" if preset else entry
        found = load_dialect(wanted)
        assert found.id in (wanted, entry)
        assert load_dialect(found.id) is found
    assert load_dialect(entry) is load_dialect(f"{entry}:{names[0]}" if names else entry)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("pyvison", "Did you mean 'pyvision'"),
        ("pyvision@7", "has no version '7'"),
        ("pyvision:rebo", "Did you mean 'repo'"),
        ("pyvision:", "has no preset ''"),
        ("", "has no ''"),
    ],
)
def test_misses_suggest(wanted: str, message: str) -> None:
    with pytest.raises(RegistryError) as caught:
        load_dialect(wanted)
    assert message in str(caught.value)


def test_a_dialect_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "spoken.py"
    file.write_text(
        "from dataclasses import replace\nfrom saccade.dialects.direct import PRESETS\n"
        "TAKEN = PRESETS['reason']\nMINE = replace(TAKEN, id='spoken-here')\n"
    )
    with pytest.raises(RegistryError, match=r"TAKEN has the id direct@1:reason, which is another dialect's"):
        load_dialect(f"{file}:TAKEN")
    with pytest.raises(RegistryError):
        recorded_dialect("spoken-here")
    mine = load_dialect(f"{file}:MINE")
    assert recorded_dialect("spoken-here") is mine
    assert recorded_dialect("pyvision@1:repo") is load_dialect("pyvision")


def test_dialects_are_frozen() -> None:
    dialect = load_dialect("pyvision")
    with pytest.raises(AttributeError):
        dialect.id = "other"  # type: ignore[misc]
    opening = dialect.open(Task(id="a", question="b", media=(NamedMedia(name="p", part=PHOTO),)))
    assert opening.strings == {}
