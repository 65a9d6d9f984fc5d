"""What reads a source: a scan that tells what tasks there are, and any of them by its place when it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from saccade.media.store import MediaStore
from saccade.record.content import VideoPart
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.problem import RowProblem

Spot = Any
"""Where a task is; what it means is the reader's own matter."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """What is known of a task without its media."""

    id: str
    tags: tuple[str, ...] = ()
    answer_type: AnswerType = AnswerType.TEXT
    answered: bool = True
    """Whether it has a gold answer."""
    media: int = 1
    """Pictures and videos; 1 where they were not counted yet."""
    grader: str = ""
    reward: tuple[tuple[str, object], ...] = ()
    videos: int | None = None
    """How many of the media are videos; None where that is not known yet."""


class SourceReader(Protocol):
    """Reads one source."""

    @property
    def label(self) -> str:
        """What the source is called where its tasks are counted."""

    def scan(self) -> Iterator[tuple[Spot, TaskSummary] | RowProblem]:
        """Every task in order, or what is wrong with its row; pictures are not opened.

        Raises:
            DataError, RecordError: the source as a whole cannot be read.
            UnavailableError: what reads it is not installed.
        """

    def make(self, spot: Spot, store: MediaStore) -> Task:
        """The task there, its media put into `store`; may be called in any thread.

        Raises:
            DataError, RecordError, MediaError: it cannot be made; the message names the row.
        """


def light_of(task: Task) -> TaskSummary:
    """What a scan says of a task that is at hand."""
    reward = tuple((parameter.name, parameter.value) for parameter in task.reward)
    videos = sum(isinstance(item.part, VideoPart) for item in task.media)
    return TaskSummary(
        task.id, task.tags, task.answer_type, task.answer is not None, len(task.media), task.grader, reward, videos
    )
