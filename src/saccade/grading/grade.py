"""A verdict on an answer as the score `correct`.

A score's detail is JSON: `{"grader": "number@1", "extracted": "7", "reason": "..."}`; of a judge without a verdict also
`"invalid"`, the reason as a word. A task that cannot be graded has the score without a value, and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from saccade.errors import GradingError
from saccade.grading.registry import DEFAULTS, check_recorded, full_spec, load_grader
from saccade.record.base import clean_text
from saccade.record.score import CORRECT, Score
from saccade.record.task import Task


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


def grader_id(task: Task, grader: str = "") -> str:
    """The full id of the grader of a task: that one, else the one that the task names, else the one for its type.

    Raises:
        RegistryError: there is no such grader, or the task names code that was not loaded: a record runs none.
    """
    named = task.rule
    if named and not grader:
        check_recorded(named)
    return full_spec(grader or named or DEFAULTS[task.answer_type])


def scored_by_rule(answer: str | None, task: Task, grader: str = "") -> Score:
    """The verdict of the grader of that id, or else of the task's, see `grader_id`.

    Raises:
        RegistryError: there is no such grader.
        SettingsError: it has no such parameters.
    """
    name = grader_id(task, grader)
    try:
        verdict = load_grader(name).grade(answer, task)
    except GradingError as error:
        return grade_score(None, Grade(name, reason=str(error)))
    return grade_score(verdict.correct, Grade(name, verdict.extracted, verdict.reason))


def grade_score(value: float | None, grade: Grade) -> Score:
    """A score `correct` with that value, which came about so."""
    fields = {name: clean_text(text) for name, text in asdict(grade).items() if text or name != "invalid"}
    return Score(name=CORRECT, value=value, detail=json.dumps(fields, ensure_ascii=False))


def grade_of(detail: str) -> Grade:
    """What the detail of a score says; all of it is the reason where it is not ours."""
    try:
        data = json.loads(detail)
    except ValueError:
        data = None
    if not isinstance(data, Mapping) or not data.keys() >= {"grader", "extracted", "reason"}:
        return Grade("", reason=detail)
    return Grade(str(data["grader"]), str(data["extracted"]), str(data["reason"]), str(data.get("invalid", "")))
