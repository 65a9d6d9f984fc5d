"""Calls that come one by one and belong together: verl asks for each rollout alone, and ours are played in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from saccade.errors import TrainingError

T = TypeVar("T")


@dataclass
class _Group(Generic[T]):
    numbers: set[int] = field(default_factory=set)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    played: asyncio.Task[Sequence[T]] | None = None


class GroupTable(Generic[T]):
    """Groups that are not over, by their uid. Of one event loop."""

    def __init__(self, seconds: float) -> None:
        """A group may take `seconds` until all of its calls are there."""
        self._seconds = seconds
        self._groups: dict[str, _Group[T]] = {}

    def __len__(self) -> int:
        """Groups that are not over."""
        return len(self._groups)

    async def join(self, uid: str, number: int, count: int, play: Callable[[], Awaitable[Sequence[T]]]) -> T:
        """What `play` gives for call `number` (from 0) of the `count` calls of the group `uid`.

        `play` of the last call is awaited, once for all of them.

        Raises:
            TrainingError: a call came twice, too many came, or the others did not come in time.
            Exception: what `play` raises, for each call of the group.
        """
        group = self._groups.setdefault(uid, _Group())
        if number in group.numbers or not 0 <= number < count:
            raise TrainingError(f"verl asked for rollout {number} of {count} of a group twice, or for one too many")
        group.numbers.add(number)
        if len(group.numbers) == count:
            del self._groups[uid]
            group.played = asyncio.ensure_future(_run(play))
            group.complete.set()
        try:
            async with asyncio.timeout(self._seconds):
                await group.complete.wait()
        except TimeoutError as error:
            self._groups.pop(uid, None)
            raise TrainingError(
                f"of a group's {count} rollouts verl asked for {len(group.numbers)} within {self._seconds:g} s; it "
                "must give all of them to one worker"
            ) from error
        if group.played is None:
            raise TrainingError("a group is whole and was not played. A fault of Saccade; report it.")
        return (await asyncio.shield(group.played))[number]


async def _run(play: Callable[[], Awaitable[Sequence[T]]]) -> Sequence[T]:
    return await play()
