"""Take turns among sources with shares: at every place comes the source that is furthest behind its share.

So shares hold in every stretch, and a longer sequence begins with the shorter one. Also shuffle choices by a seed.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Sequence
from string import ascii_uppercase

from saccade.record.task import Task


class Turns:
    """An endless sequence of turns."""

    def __init__(self, shares: Sequence[float]) -> None:
        """Take `shares` above 0; they are normalised."""
        total = sum(shares)
        self.shares = tuple(share / total for share in shares)
        """They sum to 1."""
        self._row: list[int] = []
        self._places: tuple[list[int], ...] = tuple([] for _ in shares)

    def at(self, place: int) -> tuple[int, int]:
        """Return whose turn it is at `place` (from 0), and how many turns it had before."""
        self._fill(place + 1)
        turn = self._row[place]
        return turn, bisect_left(self._places[turn], place)

    def counts(self, length: int) -> tuple[int, ...]:
        """Count each source's turns among the first `length`."""
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
    """Return how many tasks can be taken so that shares hold and none is taken twice."""
    total = sum(shares)
    return int(min(size * total / share for share, size in zip(shares, sizes, strict=True)) + 1e-9)


_KEPT = "choices-kept"
_SEED = "choices-seed="
# Options that speak of others by place or letter would change their meaning.
_BY_PLACE = re.compile(
    r"\b(?:above|below|these|preceding|following|previous)\b|\b(?:both|neither|either|all|only)\s+\(?[A-H]\)?(?:\W|$)"
    r"|\b[A-H]\)?\s(?:and|or|&)\s\(?[A-H]\b",
    re.IGNORECASE,
)


def rotations(choices: Sequence[str]) -> int:
    """Return in how many orders choices are shown where each is to stand in each place once; 1 where order matters.

    That is so for choices that refer to others by place, and for bare letters, whose texts stand in the picture.
    """
    bare = all(choice.strip(" ().:") == letter for choice, letter in zip(choices, ascii_uppercase, strict=False))
    by_place = any(_BY_PLACE.search(choice) for choice in choices)
    return 1 if len(choices) < 2 or len(set(choices)) < len(choices) or bare or by_place else len(choices)


def rotated(task: Task, turn: int, name: str) -> Task:
    """Return the task with its choices moved on by `turn` places; `name` tells such variants from others."""
    grouped = any(tag.startswith("group=") for tag in task.tags)
    return task.model_copy(
        update={
            "id": f"{task.id}/{name}-{turn}",
            "choices": (*task.choices[turn:], *task.choices[:turn]),
            "tags": (*task.tags, *(() if grouped else (f"group={task.id}", f"variant={name}-{turn}"))),
        }
    )


def shuffled(task: Task, seed: int) -> Task:
    """Shuffle a task's choices by `seed` and its id, for sources that always list the gold option first (V*).

    A tag records the seed. Choices that refer to others by place ("all of the above", "both A and B") keep their order,
    and the tag says so. The question is not inspected.
    """
    if len(task.choices) < 2:
        return task
    if any(_BY_PLACE.search(choice) for choice in task.choices):
        return task.model_copy(update={"tags": (*task.tags, _KEPT)})
    choices = list(task.choices)
    random.Random(f"{seed}:{task.id}").shuffle(choices)
    return task.model_copy(update={"choices": tuple(choices), "tags": (*task.tags, f"{_SEED}{seed}")})
