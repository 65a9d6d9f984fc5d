"""The form of a claim, the evidence that the arms of a reproduction leave behind, and when a claim holds.

What is expected is written down before anything is run, and intervals decide. An expectation compares a mean of paired
differences, or of one policy's values, with a threshold. The pairs are held-out tasks, the same under both policies, or
blocks of consecutive steps of two runs. Over seeds a pair's differences are averaged; the pairs are drawn again with
replacement for the interval of 95%. The expectation

* holds if the whole interval and every seed's own mean lie beyond the threshold,
* does not hold if none of them reaches beyond it,
* is not decided otherwise, if there are fewer than four pairs, or if something that it needs was not given.

A claim holds if all its expectations do, does not hold if one does not, and is not decided otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

from examples.reproduce.exam import ExamAnswer, Places, read_exam
from examples.reproduce.settings import Arm, Reproduction
from saccade.errors import SettingsError
from saccade.evals.intervals import Interval, bootstrap
from saccade.training.rl.settings import RlSettings

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
    """False: shown next to the claim, and no part of it."""


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
    """Return the finding; see the module for the rule."""
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
    """Return the verdict on a claim."""
    verdicts = [item.verdict for item in findings if item.expectation.decides]
    if ClaimVerdict.FAILS in verdicts:
        return ClaimVerdict.FAILS
    return ClaimVerdict.HOLDS if verdicts and set(verdicts) == {ClaimVerdict.HOLDS} else ClaimVerdict.OPEN


def _verdict(expectation: Expectation, bounds: Sequence[float]) -> ClaimVerdict:
    sign = 1.0 if expectation.side == "above" else -1.0
    beyond = [sign * (value - expectation.threshold) > _ROUNDING for value in bounds]
    return ClaimVerdict.HOLDS if all(beyond) else ClaimVerdict.OPEN if any(beyond) else ClaimVerdict.FAILS


BLOCKS = 8
"""Blocks that the steps of a run are divided into: steps next to each other are alike, so they do not count singly."""
LATE_CALLS = 0.1
"""Share of the rollouts of training in which a call may be late: above it the machine is what is measured."""
Step = Mapping[str, float]
Measure = Callable[[ExamAnswer], float]


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured."""

    places: Places
    arms: Mapping[str, RlSettings]
    """The settings of each arm, by its name, as they are with the first seed."""
    _read: dict[Path, tuple[ExamAnswer, ...]] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> Reproduction:
        """Those of the reproduction."""
        return self.places.settings

    def start(self, arm: Arm) -> dict[str, ExamAnswer]:
        """Return the start's examination by the tasks of an arm, by task."""
        return self._exam(self.places.start_exam(arm))

    def exam(self, arm: Arm, seed: int) -> dict[str, ExamAnswer]:
        """Return the examination of an arm, by task; empty if the arm could not be trained."""
        return self._exam(self.places.exam(arm, seed))

    def steps(self, arm: Arm, seed: int) -> list[Step]:
        """Return what `metrics.jsonl` says of every step of training."""
        return self.read_steps(self.places.arm(arm, seed))

    @staticmethod
    def read_steps(run: Path) -> list[Step]:
        """Return the same of the run in a folder; none where nothing was trained."""
        path = run / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if "rollouts" in line]

    def _exam(self, folder: Path) -> dict[str, ExamAnswer]:
        if folder not in self._read:
            self._read[folder] = read_exam(folder)
        return {item.task: item for item in self._read[folder]}

    def busy(self) -> str:
        """Return why nothing can be decided, if too many calls were late; empty if they were not."""
        runs = [self.steps(arm, seed) for arm in self.settings.arms for seed in self.settings.seeds]
        known = [step["broken/timeout"] for run in runs for step in run if "broken/timeout" in step]
        late = fmean(known) if known else 0.0
        if late <= LATE_CALLS:
            return ""
        return f"in {late:.0%} of the rollouts a call ran into its limit of time: this machine is too slow or too busy"

    # -- Paired differences --------------------------------------------------------------------------------------

    def gained(self, arm: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """Return an arm minus the start, task by task; `within` is a task set."""
        start = self.start(arm)
        return MeasuredEffect(
            tuple(_paired(self.exam(arm, seed), start, measure, within) for seed in self.settings.seeds)
        )

    def of(self, arm: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """Return an arm by itself, task by task."""
        exams = (self.exam(arm, seed) for seed in self.settings.seeds)
        return MeasuredEffect(
            tuple(
                {name: measure(item) for name, item in exam.items() if not within or item.set == within}
                for exam in exams
            )
        )

    def between(self, left: Arm, right: Arm, measure: Measure, within: str = "") -> MeasuredEffect:
        """Return one arm minus another, task by task."""
        pairs = ((self.exam(left, seed), self.exam(right, seed)) for seed in self.settings.seeds)
        return MeasuredEffect(tuple(_paired(ours, theirs, measure, within) for ours, theirs in pairs))

    def between_steps(self, left: Arm, right: Arm, value: str, since: float = 0.0) -> MeasuredEffect:
        """Return one arm minus another, step by step from the fraction `since` of the steps on, in blocks."""
        made = []
        for seed in self.settings.seeds:
            ours, theirs = self.steps(left, seed), self.steps(right, seed)
            first = int(since * min(len(ours), len(theirs)))
            rows = zip(ours[first:], theirs[first:], strict=False)
            made.append(blocks([a[value] - b[value] if value in a and value in b else None for a, b in rows]))
        return MeasuredEffect(tuple(made))

    def later(self, arm: Arm, value: str) -> MeasuredEffect:
        """Return the last third of an arm's steps minus the mean of the third before it, in blocks."""
        made = []
        for seed in self.settings.seeds:
            values = [step.get(value) for step in self.steps(arm, seed)]
            third = len(values) // 3
            before = [item for item in values[third : 2 * third] if item is not None]
            rest = [None if item is None or not before else item - fmean(before) for item in values[2 * third :]]
            made.append(blocks(rest))
        return MeasuredEffect(tuple(made))


def blocks(values: list[float | None]) -> dict[str, float]:
    """Return means of at most `BLOCKS` runs of neighbours, by their number; a block without any value is left out."""
    size = max(1, -(-len(values) // BLOCKS))
    made: dict[str, float] = {}
    for first in range(0, len(values), size):
        known = [item for item in values[first : first + size] if item is not None]
        if known:
            made[str(first // size)] = fmean(known)
    return made


def _paired(
    left: Mapping[str, ExamAnswer], right: Mapping[str, ExamAnswer], measure: Measure, within: str
) -> dict[str, float]:
    return {
        name: measure(item) - measure(right[name])
        for name, item in left.items()
        if name in right and (not within or item.set == within)
    }


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper."""

    name: str
    says: str
    """One sentence."""
    source: str
    """Paper, figure or table."""
    expectations: Callable[[Reproduction], tuple[Expectation, ...]]
    """What is expected, before anything is run."""
    measure: Callable[[Evidence], Mapping[str, MeasuredEffect]]
    """What was measured, by the name of the expectation."""
    curves: tuple[tuple[str, str], ...]
    """Values of training that the figure shows: as metrics.jsonl names them, and what they are."""
    needs: tuple[str, ...] = ()
    """Names of arms without which it cannot be tried."""
    suits: Callable[[Reproduction, Mapping[str, RlSettings]], str] = lambda settings, arms: ""
    """What else is wrong with the settings, and those of each arm; empty if nothing is."""

    def check(self, settings: Reproduction, arms: Mapping[str, RlSettings]) -> None:
        """Raises `SettingsError` if the claim cannot be tried with these settings; `arms` are those of each arm."""
        missing = [name for name in self.needs if name not in arms]
        if missing:
            raise SettingsError(
                f"claim {self.name} needs the arm(s) {', '.join(missing)}, which its settings do not have"
            )
        wrong = self.suits(settings, arms)
        if wrong:
            raise SettingsError(f"claim {self.name} cannot be measured: {wrong}")
