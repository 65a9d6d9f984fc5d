"""Whose turn it is where several sources share what is drawn: at every place the one that is furthest behind its share.

So shares hold in every stretch and not only in the long run, and a longer row begins with a shorter one.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Sequence

from saccade.record.task import Task


class Turns:
    """An endless row of turns."""

    def __init__(self, shares: Sequence[float]) -> None:
        """`shares` are above 0; their sum does not matter."""
        total = sum(shares)
        self.shares = tuple(share / total for share in shares)
        """They sum to 1."""
        self._row: list[int] = []
        self._places: tuple[list[int], ...] = tuple([] for _ in shares)

    def at(self, place: int) -> tuple[int, int]:
        """Whose turn it is at `place` (from 0), and how many turns it had before."""
        self._fill(place + 1)
        turn = self._row[place]
        return turn, bisect_left(self._places[turn], place)

    def counts(self, length: int) -> tuple[int, ...]:
        """How many of the first `length` turns each has."""
        self._fill(length)
        return tuple(bisect_left(places, length) for places in self._places)

    def _fill(self, length: int) -> None:
        while len(self._row) < length:
            done = len(self._row) + 1
            behind = [done * share - len(had) for share, had in zip(self.shares, self._places, strict=True)]
            turn = behind.index(max(behind))
            self._places[turn].append(len(self._row))
            self._row.append(turn)


def most_in_shares(shares: Sequence[float], sizes: Sequence[int]) -> int:
    """How many tasks can be taken so that every source has its share and none is taken twice."""
    total = sum(shares)
    return int(min(size * total / share for share, size in zip(shares, sizes, strict=True)) + 1e-9)


# Choices in another order, for sources whose gold option always stands in the same place (V* lists it first).
#
# The gold answer is the text of its option, so it follows. The order depends on the seed and the task's id alone.


_KEPT = "choices-kept"
_SEED = "choices-seed="
# Options that speak of others by place or letter would change their meaning.
_BY_PLACE = re.compile(
    r"\b(?:above|below|these|preceding|following|previous)\b|\b(?:both|neither|either|all|only)\s+\(?[A-H]\)?(?:\W|$)"
    r"|\b[A-H]\)?\s(?:and|or|&)\s\(?[A-H]\b",
    re.IGNORECASE,
)


def shuffled(task: Task, seed: int) -> Task:
    """`task` with its choices in the order that `seed` gives, and a tag that records it.

    Choices that speak of others by place ("all of the above", "both A and B") keep their order; the tag says so. A task
    that was shuffled before is shuffled from the order it has now. The text of the question is not looked at.
    """
    if len(task.choices) < 2:
        return task
    if any(_BY_PLACE.search(choice) for choice in task.choices):
        return task.model_copy(update={"tags": (*task.tags, _KEPT)})
    choices = list(task.choices)
    random.Random(f"{seed}:{task.id}").shuffle(choices)
    return task.model_copy(update={"choices": tuple(choices), "tags": (*task.tags, f"{_SEED}{seed}")})
