"""The mean over benchmarks, as papers print it: each counts once, however many tasks it has.

A benchmark gives the number by which it is known: the card's own where that stands for the average over tasks (the mean
over types of VSI-Bench), else avg@k. It promises nothing about sources of which no sample is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

_BESIDE_THE_AVERAGE: Final = frozenset({"worst case"})
"""Numbers that a benchmark prints beside its average and not in its place: DynaMath's."""


@dataclass(frozen=True, slots=True)
class SourceScore:
    """What one source gives."""

    number: str
    """Its name: `avg@k`, or as the card's metric calls it."""
    value: float | None
    """From 0 to 1; None where no task could be graded."""


@dataclass(frozen=True, slots=True)
class Macro:
    """The plain mean over the sources of a run."""

    mean: float | None
    """None where a source has no number."""
    parts: Mapping[str, SourceScore]
    """By the name of the source."""


def macro_average(
    averages: Mapping[str, float | None], card_numbers: Mapping[str, Mapping[str, float]], k: int
) -> Macro | None:
    """The mean over the sources of `averages`, which are their avg@k; None where there are fewer than two."""
    if len(averages) < 2:
        return None
    parts = {name: _part(average, card_numbers.get(name, {}), k) for name, average in averages.items()}
    values = [part.value for part in parts.values() if part.value is not None]
    return Macro(fmean(values) if len(values) == len(parts) else None, parts)


def macro_text(macro: Macro | None) -> list[str]:
    """A line for a terminal: the mean and which number of each source is in it, or why there is none."""
    if macro is None:
        return []
    lost = [name or "tasks without a source" for name, part in macro.parts.items() if part.value is None]
    if macro.mean is None:
        return [f"mean over benchmarks: none; there is no graded task of {', '.join(lost)}"]
    given = ", ".join(
        f"{name or 'tasks without a source'} {100 * part.value:.1f} ({part.number})"
        for name, part in macro.parts.items()
        if part.value is not None
    )
    return [f"mean over benchmarks: {100 * macro.mean:.1f}, each counted once: {given}"]


def _part(average: float | None, numbers: Mapping[str, float], k: int) -> SourceScore:
    own = next(((name, value) for name, value in numbers.items() if name not in _BESIDE_THE_AVERAGE), None)
    return SourceScore(*own) if own is not None else SourceScore(f"avg@{k}", average)
