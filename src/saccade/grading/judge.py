"""The interface of a judge: a model that is asked whether an answer is right.

Only the interface: a judge calls a model, so it lives where models may be called. A judge's verdict is data of its own
and is kept beside that of the rule grader, never in its place.
"""

from __future__ import annotations

from typing import Protocol

from saccade.grading.base import Verdict
from saccade.record.task import Task


class LlmJudge(Protocol):
    """Asks a model for a verdict."""

    async def judge(self, answer: str, task: Task) -> Verdict | None:
        """The model's verdict on `answer`; None if its reply was no verdict.

        Raises:
            GradingError: the task has no gold answer.
            ModelError: the model could not be asked. An outage is no verdict.
        """
        ...
