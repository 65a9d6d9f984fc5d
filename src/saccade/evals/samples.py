"""Which samples a run holds: every task `k` times, each with an id and a seed of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from saccade.evals.items import Item

_SEEDS = 2**31
"""Backends take seeds of 32 bits with a sign."""


@dataclass(frozen=True, slots=True)
class EvalSample:
    """One episode to be played."""

    item: Item
    rollout: int
    """Number among the samples of the task, from 0."""

    @property
    def id(self) -> str:
        """The id that its trajectory will have."""
        return f"{self.item.id}#{self.rollout}"

    def seed(self, base: int) -> int:
        """A seed that depends on `base`, the task's id and the rollout alone."""
        digest = sha256(f"{base}:{self.id}".encode()).digest()
        return int.from_bytes(digest[:8], "little") % _SEEDS


def samples(items: Iterable[Item], k: int) -> Iterator[EvalSample]:
    """All samples: every task once, then every task a second time, and so on."""
    listed = tuple(items)
    for rollout in range(k):
        for item in listed:
            yield EvalSample(item, rollout)
