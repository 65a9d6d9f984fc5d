from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import GradingError, RegistryError, SettingsError
from saccade.grading.base import Verdict, golds_of
from saccade.grading.registry import DEFAULTS, GRADERS, grader_for, load_grader, missing_graders
from saccade.record.content import ImagePart
from saccade.record.task import OPEN, AnswerType, EvidenceBox, NamedMedia, Task


@pytest.mark.parametrize("wanted", GRADERS.ids())
def test_every_grader_loads(wanted: str) -> None:
    assert load_grader(wanted) is load_grader(wanted)


def test_every_type_of_answer_has_a_grader() -> None:
    assert set(DEFAULTS) == set(AnswerType)
    task = Task(id="t", question="q", answer="7", answer_type=AnswerType.NUMBER)
    assert grader_for(task).grade("7.0", task).accepted


def test_miss_suggests() -> None:
    with pytest.raises(RegistryError, match="relaxed"):
        load_grader("relaxd")


def test_graders_that_tasks_name_and_that_cannot_be_had(tmp_path: Path) -> None:
    assert missing_graders(["", "number", OPEN, f"{OPEN}|number@1", "relaxed:tolerance=0.1"]) == {}
    missing = missing_graders(["numbr", f"{OPEN}|relaxd", "relaxed:tolerance=2", "own.py:MINE", "numbr", "number"])
    assert list(missing) == ["numbr", f"{OPEN}|relaxd", "relaxed:tolerance=2", "own.py:MINE"]
    own = tmp_path / "own.py"
    own.write_text("from saccade.grading.number import NUMBER as MINE\n")
    assert list(missing_graders([f"{own}:MINE"])) == [f"{own}:MINE"]  # its code is not run
    for reason, words in zip(missing.values(), ("number", "relaxed", "less than or equal to 1", "own.py"), strict=True):
        assert words in reason


@pytest.mark.parametrize("wanted", GRADERS.ids())
def test_task_without_gold_answer_raises(wanted: str) -> None:
    with pytest.raises(GradingError):
        load_grader(wanted).grade("5", Task(id="t", question="q"))


@pytest.mark.parametrize(
    ("wanted", "gold"),
    [
        ("number@1", "many"),
        ("number@1", "3 or 4"),
        ("count@1", "2.5"),
        ("count@1", "50%"),
        ("year@1", "99"),
        ("yes-no@1", "perhaps"),
        ("mra@1", "far"),
        ("box@1", "1, 2, 3"),
        ("box@1", "[5, 5, 5, 9]"),
        ("choice@1", "cat"),
        ("list@1", "a,, b"),
    ],
)
def test_gold_answer_of_another_form_raises_and_says_so(wanted: str, gold: str) -> None:
    with pytest.raises(GradingError, match="task t"):
        load_grader(wanted).grade("5", Task(id="t", question="q", answer=gold))


def test_box_falls_back_on_evidence() -> None:
    picture = ImagePart(sha256="0" * 64, width=100, height=100, mode="RGB")
    task = Task(
        id="t",
        question="Where is it?",
        media=(NamedMedia(name="image_0", part=picture),),
        evidence=(EvidenceBox(image="image_0", xyxy=(10, 10, 50, 50)),),
        answer_type=AnswerType.BOX,
    )
    assert grader_for(task).grade("[10, 10, 50, 48]", task).accepted


def test_several_gold_answers() -> None:
    assert golds_of(Task(id="t", question="q", answer='["a", "b"]')) == ("a", "b")
    for single in ("[1, 2]", "[]", "[a", '["a", 1]', '["a", ""]'):
        assert golds_of(Task(id="t", question="q", answer=single)) == (single,)


def test_verdict_is_checked_and_its_text_is_cut() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Verdict(1.5, "")
    verdict = Verdict(0.5, "half", "x" * 500 + "\ud800")
    assert len(verdict.extracted) == 200
    assert not verdict.accepted


@pytest.mark.parametrize(
    ("wanted", "gold", "answer", "right"),
    [
        ("number", "100", "102", False),
        ("number@1:relative=0.02", "100", "102", True),
        ("number:relative=0.02", "100", "102.1", False),
        ("number:absolute=1,relative=0", "3", "4", True),
        ("number-rounded:relative=0.05", "3.14", "3", True),
        ("number-rounded:relative=0.05", "3.14", "2.9", False),
        ("relaxed:tolerance=0.1", "100", "109", True),
        ("relaxed", "100", "109", False),
        ("relaxed:exact_years=false", "2010", "2019", True),
        ("relaxed", "2010", "2019", False),
        ("box:threshold=0.9", "0, 0, 10, 10", "0, 0, 10, 8", False),
        ("box", "0, 0, 10, 10", "0, 0, 10, 8", True),
    ],
)
def test_parameters_of_a_grader(wanted: str, gold: str, answer: str, right: bool) -> None:
    task = Task(id="t", question="q", answer=gold)
    assert load_grader(wanted).grade(answer, task).accepted is right


def test_the_threshold_of_anls() -> None:
    task = Task(id="t", question="q", answer="abcdefghij")
    credits = [load_grader(wanted).grade("abcdefgxyz", task).correct for wanted in ("anls", "anls:threshold=0.7")]
    assert credits == [pytest.approx(0.7), 0]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("relaxed:tolerence=0.1", "it has tolerance, exact_years"),
        ("text:tolerance=0.1", "it has none"),
        ("relaxed:tolerance", "no parameter"),
        ("relaxed:tolerance=2", "less than or equal to 1"),
        ("number:relative=much", "relative: Input should be a valid number, unable to parse string"),
    ],
)
def test_a_parameter_that_is_none(wanted: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_grader(wanted)


def test_a_tolerance_is_said_in_percent() -> None:
    task = Task(id="t", question="?", answer="100", answer_type=AnswerType.NUMBER)
    for spec, share in (("relaxed", "5 %"), ("relaxed:tolerance=0.025", "2.5 %")):
        assert load_grader(spec).grade("100.5", task).reason == f"same text, or within {share}"
        assert load_grader(spec).grade("120", task).reason == f"another text, or not within {share}"
