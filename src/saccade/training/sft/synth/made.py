"""Define the result of a job: a trajectory to keep, or the reason why there is none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from saccade.errors import SaccadeError
from saccade.grading.registry import scored_by_rule
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.rewards.rubric import ExactMatch


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of one job."""

    trajectory: Trajectory | None
    discarded: str = ""
    """The kind of reason for which there is nothing to keep: `invalid output`, `code failed`, a stop reason, ..."""
    detail: str = ""
    final: bool = False
    """Whether it is of no use to try again: the episode was played to its end, and what came of it is not wanted."""


class DiscardedError(SaccadeError):
    """A trajectory that must not be kept."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def graded(trajectory: Trajectory, *, exactly: bool) -> Trajectory:
    """Return the trajectory with its score `correct`: by strict equality, or by the grader that the task names."""
    if exactly:
        return trajectory.with_scores(ExactMatch()(trajectory))
    return trajectory.with_scores([scored_by_rule(trajectory.answer, trajectory.task)])


def is_right(trajectory: Trajectory) -> bool:
    """Whether the score `correct` is 1."""
    return any(score.name == CORRECT and score.value == 1.0 for score in trajectory.scores)


# Work on many items at once, results in the order of the items.


T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 8
"""How many times as many results as workers may wait for an earlier one that is slow."""


async def in_order(items: Iterable[T], work: Callable[[T], Awaitable[R]], workers: int) -> AsyncIterator[R]:
    """Yield the results, in order; at most `workers` items are worked on at once.

    What is under way is cancelled at the end.

    The first exception of `work` ends it, at its place in the order.
    """
    gate = asyncio.Semaphore(workers)
    waiting: deque[asyncio.Task[R]] = deque()

    async def guarded(item: T) -> R:
        async with gate:
            return await work(item)

    try:
        for item in items:
            waiting.append(asyncio.create_task(guarded(item)))
            if len(waiting) >= _AHEAD * workers:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
