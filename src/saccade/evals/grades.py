"""Verdicts on a sample as scores of its trajectory: `correct`, which counts, and beside it each verdict by itself.

Without a judge there is `correct` alone, by the rule grader. With one there are also `correct-by-rule` and
`correct-by-judge`, and `correct` is a copy of that one which is the headline. A score's detail is JSON:
`{"grader": "number@1", "extracted": "7", "reason": "..."}`; of a judge without a verdict also `"invalid"`, the reason
as a word. A task that cannot be graded has the score without a value, and the reason; it is left out of every average
and counted apart, and so is a sample whose headline is a judge without a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from saccade.errors import GradingError
from saccade.grading.registry import DEFAULTS, full_spec, load_grader
from saccade.record.base import clean_text
from saccade.record.score import CORRECT, Score
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory

BY_RULE: Final = "correct-by-rule"
BY_JUDGE: Final = "correct-by-judge"
Headline = Literal["rule", "judge"]


@dataclass(frozen=True, slots=True)
class Grade:
    """How a score came about."""

    grader: str
    """`name@version`, or `judge:` and the model; empty if the detail is not ours."""
    extracted: str = ""
    """What was taken for the answer."""
    reason: str = ""
    invalid: str = ""
    """Of a judge: why there is no verdict."""


def graded(trajectory: Trajectory, grader: str = "", headline: Headline = "rule") -> Trajectory:
    """The trajectory with its rule's verdict, by the grader of that id, or else by the one for the type of answer.

    A judge's verdict stays as it is, and is `correct` if it is the headline.

    Raises:
        RegistryError: there is no such grader.
        SettingsError: it has no such parameters.
    """
    name = grader_id(trajectory.task, grader)
    try:
        verdict = load_grader(name).grade(trajectory.answer, trajectory.task)
    except GradingError as error:
        rule = grade_score(None, Grade(name, reason=str(error)))
    else:
        rule = grade_score(verdict.correct, Grade(name, verdict.extracted, verdict.reason))
    return headed(trajectory, rule, score_named(trajectory.scores, BY_JUDGE), headline)


def headed(trajectory: Trajectory, rule: Score, judge: Score | None, headline: Headline) -> Trajectory:
    """The trajectory with both verdicts, and the headline's as `correct`; without a judge's, the rule's alone."""
    if judge is None:
        return trajectory.with_scores([rule.model_copy(update={"name": CORRECT, "weight": 1.0})])
    correct = judge if headline == "judge" else rule
    # The single ones have no weight, so that no sum counts an answer twice.
    return trajectory.with_scores(
        [
            correct.model_copy(update={"name": CORRECT, "weight": 1.0}),
            rule.model_copy(update={"name": BY_RULE, "weight": 0.0}),
            judge.model_copy(update={"name": BY_JUDGE, "weight": 0.0}),
        ]
    )


def rule_score(scores: Iterable[Score]) -> Score:
    """The rule's verdict; without a value if there is none."""
    listed = tuple(scores)
    return score_named(listed, BY_RULE) or score_named(listed, CORRECT) or Score(name=CORRECT)


def score_named(scores: Iterable[Score], name: str) -> Score | None:
    """The score of that name."""
    return next((score for score in scores if score.name == name), None)


def grader_id(task: Task, grader: str = "") -> str:
    """The full id of the grader of a task. Raises `RegistryError`."""
    return full_spec(grader or DEFAULTS[task.answer_type])


def grade_of(detail: str) -> Grade:
    """What the detail of a score says; all of it is the reason where it is not ours."""
    try:
        data = json.loads(detail)
    except ValueError:
        data = None
    if not isinstance(data, Mapping) or not data.keys() >= {"grader", "extracted", "reason"}:
        return Grade("", reason=detail)
    return Grade(str(data["grader"]), str(data["extracted"]), str(data["reason"]), str(data.get("invalid", "")))


def grade_score(value: float | None, grade: Grade) -> Score:
    """A score `correct` with that value, which came about so."""
    told = {name: clean_text(text) for name, text in asdict(grade).items() if text or name != "invalid"}
    return Score(name=CORRECT, value=value, detail=json.dumps(told, ensure_ascii=False))
