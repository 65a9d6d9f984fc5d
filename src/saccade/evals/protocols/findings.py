"""What all findings have in common: whose run it was, rates with their intervals, a row for each sample.

Intervals are 95%, by bootstrap over tasks: samples of one task are never taken for several; see
`saccade.evals.protocols.rates`. A rate without a denominator has no value; it is never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field, FiniteFloat, NonNegativeInt

from saccade.record.base import SCHEMA_VERSION, Name, Record, SchemaVersion, Text


class Rate(Record):
    """`count` of `of` samples, calls or pictures."""

    count: NonNegativeInt
    of: NonNegativeInt
    low: FiniteFloat | None = None
    """Of the interval, 0 to 1; None where none was asked for or `of` is 0."""
    high: FiniteFloat | None = None

    @property
    def value(self) -> float | None:
        """The share, 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None


class Mean(Record):
    """A mean over samples that have the number."""

    value: FiniteFloat
    samples: NonNegativeInt
    low: FiniteFloat
    high: FiniteFloat


class StudiedRun(Record):
    """The run that was looked at."""

    run: Text
    """Name of its folder."""
    models: tuple[Text, ...] = ()
    dialects: tuple[Text, ...] = ()
    samples: NonNegativeInt = 0
    """Looked at."""
    lost: NonNegativeInt = 0
    """Ended by an outage of ours, or not ended; left out of everything."""
    judge: Text = ""
    """Name of the model that judged pictures; empty if none was asked."""
    budget: Name = "qwen2.5-vl"
    """Name of the pixel budget by which visual tokens were estimated."""
    frames: Text = ""
    """How frames of videos were sampled before the episodes, e.g. `1 fps`; empty if they were not."""


class SampleRow(Record):
    """What every row says of its sample."""

    id: Name
    task: Name
    rollout: NonNegativeInt
    source: Text
    correct: FiniteFloat | None
    """Credit from 0 to 1; None if the sample was not graded."""

    @property
    def right(self) -> bool:
        """Full credit."""
        return self.correct == 1

    @property
    def wrong(self) -> bool:
        """Graded, and not full credit."""
        return self.correct is not None and self.correct < 1


class Findings(Record):
    """What a protocol found in a run."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    about: StudiedRun


class SampleExamples(Record):
    """A few samples of one kind, to be looked at."""

    kind: Name
    ids: tuple[Name, ...] = Field(max_length=10)
    """The first ones in the order of the tasks."""


MOST_EXAMPLES: Final = 10


def examples(named: Iterable[tuple[str, str]]) -> tuple[SampleExamples, ...]:
    """Kinds and ids of samples as examples, by kind."""
    by_kind: dict[str, list[str]] = {}
    for kind, name in named:
        ids = by_kind.setdefault(kind, [])
        if len(ids) < MOST_EXAMPLES:
            ids.append(name)
    return tuple(SampleExamples(kind=kind, ids=tuple(by_kind[kind])) for kind in sorted(by_kind))
