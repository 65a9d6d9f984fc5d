from __future__ import annotations

import pytest

from saccade.dialects.direct import DirectDialect
from saccade.dialects.registry import DIALECTS, load_dialect
from saccade.plugins.worlds.experts.plays import observed, read
from saccade.record.content import ImagePart
from saccade.record.execution import Execution, ExecutionPicture, Status

PICTURE = ExecutionPicture(image=ImagePart(sha256="a" * 64, width=9, height=9), source="figure")
ACTING = [name for name in DIALECTS.ids() if not isinstance(load_dialect(name), DirectDialect)]
CODE = [name for name in ACTING if not name.startswith(("vista", "deepeyes"))]


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("pictures", [0, 2])
def test_what_was_printed_is_read_back(name: str, pictures: int) -> None:
    dialect = load_dialect(name)
    execution = Execution(status=Status.OK, stdout="width 7\n12\n", pictures=(PICTURE,) * pictures)
    seen = read(dialect, dialect.observe(execution, 1).message.text, pictures, 1)
    assert (seen.last, seen.error, seen.pictures) == ("12", None, pictures)


@pytest.mark.parametrize("name", ACTING)
def test_a_failure_is_read_as_one(name: str) -> None:
    dialect = load_dialect(name)
    trace = "Traceback (most recent call last):\n  line 1\nNameError: name 'img' is not defined"
    seen = read(dialect, dialect.observe(Execution(status=Status.ERROR, traceback=trace), 1).message.text, 0, 1)
    assert seen.error is not None
    assert "name 'img' is not defined" in seen.error


@pytest.mark.parametrize("name", ACTING)
def test_a_request_for_the_answer_is_no_observation(name: str) -> None:
    dialect = load_dialect(name)
    shown = dialect.observe(Execution(status=Status.OK, stdout="12\n"), 1).message
    request = dialect.ask_for_answer()
    assert observed(dialect, [shown, *([] if request is None else [request])]) == shown


@pytest.mark.parametrize("name", CODE)
def test_a_call_that_says_nothing_is_no_failure(name: str) -> None:
    dialect = load_dialect(name)
    seen = read(dialect, dialect.observe(Execution(status=Status.OK), 1).message.text, 0, 1)
    assert seen.error is None


def test_the_newest_observation_of_a_joined_message_counts() -> None:
    dialect = load_dialect("thyme")
    first, second = (
        dialect.observe(Execution(status=Status.OK, stdout=f"{number}\n"), 1).message.text for number in (3, 4)
    )
    assert read(dialect, f"<think>a{first}b{second}", 0, 1).last == "4"
