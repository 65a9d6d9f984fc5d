"""Report what a pipeline did: counts for each filter, by reason and by category, with examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal

from pydantic import NonNegativeInt

from saccade.record.base import SCHEMA_VERSION, Name, Record, SchemaVersion, Text
from saccade.record.trajectory import Trajectory
from saccade.training.sft.curate.stage import KEEP, CategoryRule, Drop, FilterOutcome, Undecided, categories

EXAMPLES = 5
"""Ids that are kept for each reason; all of them are in `dropped.jsonl`."""


class DroppedTrajectory(Record):
    """A line of `dropped.jsonl`: a trajectory that a filter left out, or could not decide about."""

    id: Name
    task: Name
    filter: Text
    outcome: Literal["dropped", "undecided"]
    kept: bool = False
    """Whether it was kept nevertheless, because the filter keeps what it cannot decide about."""
    reason: Text
    detail: Text = ""


class ReasonCount(Record):
    """How often a filter gave one reason."""

    outcome: Literal["dropped", "undecided"]
    reason: Text
    count: NonNegativeInt
    examples: tuple[Text, ...]
    """Ids, the first ones in order."""


class CategoryCount(Record):
    """One category before a filter and after it. With tags, a trajectory counts in each of its own."""

    category: Text
    seen: NonNegativeInt
    kept: NonNegativeInt


class FilterReport(Record):
    """Counts of one filter."""

    label: Text
    filter: Text
    """`id@version`."""
    seen: NonNegativeInt
    kept: NonNegativeInt
    dropped: NonNegativeInt
    undecided: NonNegativeInt
    """Those that it could not decide about, whether they were kept or not."""
    beside: NonNegativeInt = 0
    """Those of another branch, which passed it by; among those that were seen and kept."""
    reasons: tuple[ReasonCount, ...]
    categories: tuple[CategoryCount, ...]


class CurateReport(Record):
    """`report.json` of a curated run."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    runs: tuple[Text, ...]
    category: Text
    """Meaning of the categories."""
    read: NonNegativeInt
    kept: NonNegativeInt
    renamed: NonNegativeInt
    """Trajectories whose id an earlier run had, and that therefore got their run's name before it."""
    filters: tuple[FilterReport, ...]
    broken: tuple[Text, ...] = ()
    """Why rows of sources of tasks gave none."""


class Tally:
    """Counts the outcomes of one filter while they come."""

    def __init__(self, label: str, filter_id: str, rule: CategoryRule) -> None:
        self._label, self._filter, self._rule = label, filter_id, rule
        self._seen = self._kept = self._beside = 0
        self._reasons: Counter[tuple[Literal["dropped", "undecided"], str]] = Counter()
        self._examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._category_seen: Counter[str] = Counter()
        self._category_kept: Counter[str] = Counter()

    def count(self, trajectory: Trajectory, outcome: FilterOutcome, kept: bool) -> DroppedTrajectory | None:
        """Count an outcome; the line of `dropped.jsonl` for it, None for one that simply stays."""
        among = categories(trajectory, self._rule)
        self._seen += 1
        self._kept += kept
        self._category_seen.update(among)
        if kept:
            self._category_kept.update(among)
        if not isinstance(outcome, Drop | Undecided):
            return None
        name: Literal["dropped", "undecided"] = "dropped" if isinstance(outcome, Drop) else "undecided"
        self._reasons[name, outcome.reason] += 1
        examples = self._examples[name, outcome.reason]
        if len(examples) < EXAMPLES:
            examples.append(trajectory.id)
        return DroppedTrajectory(
            id=trajectory.id,
            task=trajectory.task.id,
            filter=self._label,
            outcome=name,
            kept=kept,
            reason=outcome.reason,
            detail=outcome.detail,
        )

    def pass_by(self, trajectory: Trajectory) -> None:
        """Count one that is of another branch."""
        self._beside += 1
        self.count(trajectory, KEEP, kept=True)

    def report(self) -> FilterReport:
        """Return the counts so far; reasons by count, categories by name."""
        reasons = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
        totals = Counter[str]()
        for (outcome, _), count in reasons:
            totals[outcome] += count
        return FilterReport(
            label=self._label,
            filter=self._filter,
            seen=self._seen,
            kept=self._kept,
            dropped=totals["dropped"],
            undecided=totals["undecided"],
            beside=self._beside,
            reasons=tuple(
                ReasonCount(
                    outcome=outcome, reason=reason, count=count, examples=tuple(self._examples[outcome, reason])
                )
                for (outcome, reason), count in reasons
            ),
            categories=tuple(
                CategoryCount(category=name, seen=count, kept=self._category_kept[name])
                for name, count in sorted(self._category_seen.items())
            ),
        )
