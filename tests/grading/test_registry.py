"""Verdicts as scores, the graders that records name, and the bounds of their parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.grading.rows import rows

from saccade.errors import GradingError, RegistryError, SettingsError
from saccade.grading.base import Verdict, golds_of
from saccade.grading.registry import (
    DEFAULTS,
    GRADERS,
    Grade,
    check_recorded,
    full_spec,
    grade_of,
    grade_score,
    grader_for,
    grader_id,
    load_grader,
    missing_graders,
    newest,
    scored_by_rule,
)
from saccade.record.content import ImagePart
from saccade.record.task import OPEN, AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import CORRECT

TASK = Task(id="t", question="q", answer="7", answer_type=AnswerType.NUMBER)


def test_the_grader_of_a_task() -> None:
    assert grader_id(TASK) == "number@1"
    ruled = TASK.model_copy(update={"grader": "relaxed:tolerance=0.1"})
    assert grader_id(ruled) == "relaxed@1:tolerance=0.1"
    assert grader_id(ruled, "count") == grader_id(TASK, "count@1") == "count@1"
    with pytest.raises(RegistryError, match="relaxed"):
        grader_id(TASK, "relaxd")
    with pytest.raises(RegistryError):
        grader_id(TASK.model_copy(update={"grader": "own.py:GRADER"}))


@rows(
    ("answer", "grader", "value", "detail"),
    [
        ("It is 7.0", "", 1.0, {"grader": "number@1", "extracted": "It is 7.0", "reason": "same number"}),
        ("8", "", 0.0, {"grader": "number@1", "extracted": "8", "reason": "another number or unit"}),
        (None, "count", 0.0, {"grader": "count@1", "extracted": "", "reason": "no answer was given"}),
        ("6", "mra", 0.8, {"grader": "mra@1", "extracted": "6", "reason": "mean relative accuracy 0.8"}),
    ],
)
def test_a_verdict_becomes_a_score(answer: str | None, grader: str, value: float, detail: dict[str, str]) -> None:
    score = scored_by_rule(answer, TASK, grader)
    assert (score.name, score.value, json.loads(score.detail)) == (CORRECT, value, detail)
    assert grade_of(score.detail) == Grade(detail["grader"], detail["extracted"], detail["reason"])


def test_a_task_that_cannot_be_graded_has_a_score_without_value() -> None:
    score = scored_by_rule("7", TASK.model_copy(update={"answer": "many"}))
    assert score.value is None
    grade = grade_of(score.detail)
    assert (grade.grader, grade.extracted, grade.invalid) == ("number@1", "", "")
    assert "the gold answer 'many' of task t is no number" in grade.reason


def test_details_are_read_back_and_foreign_ones_are_a_reason() -> None:
    given = Grade("judge:m", "é\ud800", "says no", "timeout")
    assert grade_of(grade_score(None, given).detail) == Grade("judge:m", "é\ufffd", "says no", "timeout")
    assert json.loads(grade_score(1.0, Grade("number@1")).detail) == {
        "grader": "number@1",
        "extracted": "",
        "reason": "",
    }
    for foreign in ("", "no JSON", "[]", '"text"', "7", '{"grader": "a", "extracted": "b"}', '{"reason": "c"}'):
        assert grade_of(foreign) == Grade("", reason=foreign)
    assert grade_of('{"grader": 1, "extracted": 2, "reason": 3, "more": 4}') == Grade("1", "2", "3")


def test_a_verdict_lies_from_0_to_1_and_has_full_credit_at_1_alone() -> None:
    assert [Verdict(value, "").accepted for value in (0, 0.999, 1)] == [False, False, True]
    for value in (-0.001, 1.001, float("nan")):
        with pytest.raises(ValueError, match="not from 0 to 1"):
            Verdict(value, "")


def test_what_a_record_names_in_its_newest_version(tmp_path: Path) -> None:
    assert [newest(name) for name in ("number@1", "relaxed@1:tolerance=0.1")] == ["number", "relaxed:tolerance=0.1"]
    assert [full_spec(name) for name in ("number", "relaxed:tolerance=0.1")] == ["number@1", "relaxed@1:tolerance=0.1"]
    with pytest.raises(RegistryError):
        newest("numbr@1")
    own = tmp_path / "own.py"
    own.write_text("from saccade.grading.number import NUMBER as MINE\n")
    with pytest.raises(RegistryError):
        check_recorded(f"{own}:MINE")
    assert load_grader(f"{own}:MINE").grade("7.0", TASK).accepted
    assert newest(f"{own}:MINE") == f"{own}:MINE"
    assert newest(f"{own}:MINE:relative=0.5") == f"{own}:MINE:relative=0.5"


BOUNDS = [
    ("number", "relative", "0", "1", ("-0.001", "1.001")),
    ("number", "absolute", "0", "9999", ("-0.001",)),
    ("number-rounded", "relative", "0", "1", ("-0.001", "1.001")),
    ("relaxed", "tolerance", "0", "1", ("-0.001", "1.001")),
    ("anls", "threshold", "0", "0.999", ("-0.001", "1")),
    ("box", "threshold", "0.001", "1", ("0", "1.001")),
]


@rows(("grader", "name", "low", "high", "beyond"), BOUNDS)
def test_bounds_of_parameters(grader: str, name: str, low: str, high: str, beyond: tuple[str, ...]) -> None:
    for text in (low, high):
        assert getattr(load_grader(f"{grader}:{name}={text}"), name) == float(text)
    for text in beyond:
        with pytest.raises(SettingsError, match=f"grader {grader}:{name}={text} cannot be: {name}: Input should be"):
            load_grader(f"{grader}:{name}={text}")


def test_every_parameter_is_what_it_is_without_being_said() -> None:
    """What a verdict depends on stands in the docs: a change of a default is a new version of the grader."""
    shown = {name: repr(load_grader(name)) for name in GRADERS.names()}
    assert shown == {
        "text": "TextGrader()",
        "choice": "ChoiceGrader(partial='none')",
        "yes-no": "YesNoGrader()",
        "number": "NumberGrader(relative=0, absolute=0)",
        "number-rounded": "RoundedGrader(relative=0, absolute=0)",
        "number-1pct": "NumberGrader(relative=0.01, absolute=0)",
        "count": "CountGrader()",
        "year": "YearGrader()",
        "math": "MathGrader()",
        "list": "ListGrader(ordered=True)",
        "set": "ListGrader(ordered=False)",
        "relaxed": "RelaxedGrader(tolerance=0.05, exact_years=True)",
        "mra": "MraGrader()",
        "anls": "AnlsGrader(strict_numbers=True, threshold=0.5)",
        "anls-published": "AnlsGrader(strict_numbers=False, threshold=0.5)",
        "vqa": "VqaGrader()",
        "box": "BoxGrader(threshold=0.5, scale=0, order='xyxy')",
        "iou": "IouGrader(threshold=0.5, scale=0, order='xyxy')",
        "point": "PointGrader(scale=0, order='xy')",
    }


@rows(
    ("wanted", "gold", "answer", "right"),
    [
        ("number:relative=0.1,absolute=5", "100", "110", True),
        ("number:absolute=5", "100", "105", True),
        ("number:absolute=5", "100", "105.01", False),
        ("number:absolute=5", "3", "8", True),
        ("number-rounded", "3.14", "3.1449", True),
        ("number-rounded", "3.14", "3.1451", False),
        ("number-rounded", "3.1e2", "310.05", False),
        ("number-rounded", "3", "3.1", False),
        ("number-rounded", "-0.5", "-0.45", True),
        ("number-rounded:absolute=1", "3.14", "4.14", True),
        ("relaxed", "2010", "2011", False),
        ("relaxed:exact_years=false", "2010", "2011", True),
        ("relaxed", "1800", "1801", False),
        ("relaxed", "1799", "1800", True),
        ("relaxed", "2100", "2101", False),
        ("relaxed", "2101", "2102", True),
        ("relaxed", "[10, 20]", "10.5, 21", True),
        ("relaxed", "[10, 20]", "10.5, 21.1", False),
        ("relaxed", "[10, 20]", "10", False),
        ("relaxed", "(x, y]", "(x and y]", False),
        ("relaxed", "[x, y)", "[x and y)", False),
        ("relaxed", "[x, y]", "x and y", True),
        ("relaxed", "Top 100", "Top 101", False),
        ("relaxed", "salt and pepper", "Salt and pepper", True),
        ("box", "0, 0, 10, 10", "0, 0, 10, 5", True),
        ("box", "0, 0, 10, 10", "0, 0, 10, 4.99", False),
        ("box:threshold=1", "0, 0, 10, 10", "0, 0, 10, 10", True),
        ("mra", "50%", "0.5", True),
        ("mra", "50%", "50", True),
        ("mra", "5 cm", "50 mm", True),
        ("mra", "5 cm", "5 kg", False),
        ("count", "7", "7.5", False),
        ("count", "7", "7%", False),
        ("count", "0", "none", True),
        ("count", '["7", "8"]', "8", True),
        ("year", "2010", "in 2010", True),
        ("year", "2010", "2010 or 2011", False),
        ("year", "2010", "2,010", False),
        ("year", "2010", "about 2010", False),
        ("year", "2010", "2010%", False),
    ],
)
def test_verdicts_at_their_bounds(wanted: str, gold: str, answer: str, right: bool) -> None:
    assert load_grader(wanted).grade(answer, Task(id="t", question="q", answer=gold)).accepted is right


@rows(
    ("gold", "answer", "right", "reason"),
    [
        ("5", "5", True, "same text"),
        ("5", "five", True, "same text"),
        ("5 cm", "0.05 m", True, "same number"),
        ("5", "6", False, "another number or unit"),
        ("x + 1", "1+x", True, "equal formulas"),
        (r"2\sqrt{2}", r"the value of x is \sqrt{8}", True, "equal formulas"),
        (r"2\sqrt{2}", r"x equals 2 is \sqrt{8}", True, "equal formulas"),
        (r"2\sqrt{2}", r"the value of x is not \sqrt{8}", False, "takes something back"),
        ("(1,2)", r"\{1,2\}", False, "other equations, inequalities or solutions"),
        ("(1,2)", "(1,3)", False, "a formula of another value or kind: a set is no point, and a matrix no number"),
        ("x>3", "3<x", True, "equal equations, inequalities or solutions"),
        ("x>3", "x>4", False, "other equations, inequalities or solutions"),
        ("x>3", "the house; 4", False, "other equations, inequalities or solutions"),
        ("the house; 4", "x>3", False, "other equations, inequalities or solutions"),
        (
            r"(-\infty,2)\cup(3,\infty)",
            r"(3,\infty)\cup(-\infty,2)",
            True,
            "equal equations, inequalities or solutions",
        ),
        ('["x>3", "y>3"]', "3<y", True, "equal equations, inequalities or solutions"),
        ('["x>3", "y>3"]', "z>3", False, "other equations, inequalities or solutions"),
    ],
)
def test_what_decides_between_formulas(gold: str, answer: str, right: bool, reason: str) -> None:
    verdict = load_grader("math").grade(answer, Task(id="t", question="q", answer=gold))
    assert (verdict.accepted, verdict.reason, verdict.extracted) == (right, reason, answer)


@rows(
    ("answer", "reason"),
    [("7", "same count"), ("8", "another count"), ("about 7", "an approximate count"), ("7.5", "is no count")],
)
def test_what_decides_between_counts(answer: str, reason: str) -> None:
    assert load_grader("count").grade(answer, TASK).reason == reason


@rows("wanted", GRADERS.ids())
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


@rows("wanted", GRADERS.ids())
def test_task_without_gold_answer_raises(wanted: str) -> None:
    with pytest.raises(GradingError):
        load_grader(wanted).grade("5", Task(id="t", question="q"))


@rows(
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


@rows(
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


@rows(
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
