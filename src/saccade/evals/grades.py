"""The verdict on a sample as the score `correct` of its trajectory.

The score's detail is JSON: `{"grader": "number@1", "extracted": "7", "reason": "..."}`. A task that cannot be graded
has the score without a value, and the reason; it is left out of every average and counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from saccade.errors import GradingError
from saccade.grading.registry import DEFAULTS, GRADERS, load_grader
from saccade.record.base import clean_text
from saccade.record.score import CORRECT, Score
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Grade:
    """How a score came about."""

    grader: str
    """`name@version`; empty if the detail is not ours."""
    extracted: str = ""
    """What was taken for the answer."""
    reason: str = ""


def graded(trajectory: Trajectory, grader: str = "") -> Trajectory:
    """The trajectory with its score `correct`, by the grader of that id, or else by the one for the type of answer.

    Raises:
        RegistryError: there is no such grader.
    """
    name = grader_id(trajectory.task, grader)
    try:
        verdict = load_grader(name).grade(trajectory.answer, trajectory.task)
    except GradingError as error:
        return trajectory.with_scores([_score(None, Grade(name, reason=str(error)))])
    return trajectory.with_scores([_score(verdict.correct, Grade(name, verdict.extracted, verdict.reason))])


def grader_id(task: Task, grader: str = "") -> str:
    """The full id of the grader of a task. Raises `RegistryError`."""
    return GRADERS.resolve(grader or DEFAULTS[task.answer_type])


def grade_of(detail: str) -> Grade:
    """What the detail of a score says; all of it is the reason where it is not ours."""
    try:
        data = json.loads(detail)
    except ValueError:
        data = None
    if not isinstance(data, Mapping) or not data.keys() >= {"grader", "extracted", "reason"}:
        return Grade("", reason=detail)
    return Grade(str(data["grader"]), str(data["extracted"]), str(data["reason"]))


def _score(value: float | None, grade: Grade) -> Score:
    detail = json.dumps({name: clean_text(text) for name, text in asdict(grade).items()}, ensure_ascii=False)
    return Score(name=CORRECT, value=value, detail=detail)
