"""Rows that hold their task as a whole: those that `saccade convert` wrote for trainers of reinforcement learning.

    extra_info {id, question, answer, record}, reward_model {ground_truth}

`record` is the task as JSON: choices, boxes, grader and tags too, for which such rows have no other place. Question and
gold answer are those of the row, so whoever edits them there has edited the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from saccade.record.base import clean_text
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import Task
from saccade.tasks.benchmarks.problem import FieldError

_FIELD = "extra_info.record"


def recorded_task(row: Mapping[str, Any]) -> Task | None:
    """The task that a row holds, with the row's own question and answer; None for a row that holds none.

    Raises:
        FieldError: its record is no task, or is none with that question and answer.
    """
    extra = row.get("extra_info")
    record = extra.get("record") if isinstance(extra, Mapping) else None
    if not isinstance(record, str) or not record or not isinstance(extra, Mapping):
        return None
    reward = row.get("reward_model")
    answer = extra.get("answer")
    if isinstance(reward, Mapping):
        answer = reward.get("ground_truth", answer)
    question = extra.get("question")
    return edited(
        record,
        clean_text(question) if isinstance(question, str) else None,
        None if answer is None else clean_text(str(answer)),
    )


def edited(record: str, question: str | None, answer: str | None) -> Task:
    """The task of a record with that question, its own if it is None, and that answer. Raises `FieldError`."""
    try:
        task = Task.model_validate_json(record)
        changes = {"question": task.question if question is None else question, "answer": answer}
        if any(getattr(task, name) != value for name, value in changes.items()):
            task = Task.model_validate({**task.model_dump(), **changes})
    except ValidationError as error:
        raise FieldError(_FIELD, "; ".join(str(item["msg"]) for item in error.errors())) from error
    return task


def check_media(task: Task, parts: tuple[ImagePart | VideoPart, ...]) -> None:
    """Refuse a record whose media are not among those of its row. Raises `FieldError`."""
    if lost := [item.name for item in task.media if item.part not in parts]:
        raise FieldError(_FIELD, f"it names media that the row does not hold: {', '.join(lost)}")
