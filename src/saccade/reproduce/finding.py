"""When a claim holds: what is expected is written down before anything is run, and intervals decide.

An expectation compares a mean of paired differences, or of one policy's values, with a threshold. The pairs are
held-out tasks, the same under both policies, or blocks of consecutive steps of two runs. Over seeds a pair's
differences are averaged; the pairs are drawn again with replacement for the interval of 95%. The expectation

* holds if the whole interval and every seed's own mean lie beyond the threshold,
* does not hold if none of them reaches beyond it,
* is not decided otherwise, if there are fewer than four pairs, or if something that it needs was not given.

A claim holds if all its expectations do, does not hold if one does not, and is not decided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Final, Literal

from saccade.evals.intervals import Interval, bootstrap

FEWEST: Final = 4
"""Pairs with which anything can be decided."""
_ROUNDING: Final = 1e-9


class ClaimVerdict(StrEnum):
    """What came out."""

    HOLDS = "holds"
    FAILS = "does not hold at this scale"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A part of a claim that a number can decide."""

    name: str
    says: str
    """One sentence."""
    side: Literal["above", "below"]
    threshold: float
    pairs: Literal["tasks", "blocks of steps"] = "tasks"
    decides: bool = True
    """False: shown beside the claim, and no part of it."""


@dataclass(frozen=True, slots=True)
class MeasuredEffect:
    """The paired differences of an expectation, or the values of one policy."""

    by_seed: tuple[Mapping[str, float], ...]
    """For each seed, pair -> difference, or task -> value."""
    missing: str = ""
    """Why they cannot decide anything; empty if they can."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An expectation and what was measured."""

    expectation: Expectation
    estimate: float | None
    """None if there was nothing to measure."""
    interval: Interval | None
    seeds: tuple[float, ...]
    """Each seed's own mean."""
    pairs: int
    verdict: ClaimVerdict
    missing: str = ""


def judge(expectation: Expectation, measured: MeasuredEffect) -> Finding:
    """The finding; see the module for the rule."""
    by_pair: dict[str, list[float]] = {}
    for seed in measured.by_seed:
        for name, value in seed.items():
            by_pair.setdefault(name, []).append(value)
    if not by_pair:
        missing = measured.missing or "nothing was measured"
        return Finding(expectation, None, None, (), 0, ClaimVerdict.OPEN, missing)
    values = [fmean(item) for item in by_pair.values()]
    means = tuple(fmean(seed.values()) for seed in measured.by_seed if seed)
    interval = bootstrap(values)
    missing = measured.missing or (f"{len(values)} pair(s) are too few" if len(values) < FEWEST else "")
    verdict = ClaimVerdict.OPEN if missing else _verdict(expectation, (*interval, *means))
    return Finding(expectation, fmean(values), interval, means, len(values), verdict, missing)


def overall_verdict(findings: Iterable[Finding]) -> ClaimVerdict:
    """The verdict on a claim."""
    verdicts = [item.verdict for item in findings if item.expectation.decides]
    if ClaimVerdict.FAILS in verdicts:
        return ClaimVerdict.FAILS
    return ClaimVerdict.HOLDS if verdicts and set(verdicts) == {ClaimVerdict.HOLDS} else ClaimVerdict.OPEN


def _verdict(expectation: Expectation, bounds: Sequence[float]) -> ClaimVerdict:
    sign = 1.0 if expectation.side == "above" else -1.0
    beyond = [sign * (value - expectation.threshold) > _ROUNDING for value in bounds]
    return ClaimVerdict.HOLDS if all(beyond) else ClaimVerdict.OPEN if any(beyond) else ClaimVerdict.FAILS
