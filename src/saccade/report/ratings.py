"""What people's ratings of trajectories say: means by run and source, preferences, and how far raters agree.

VISTA-R1 (Lu et al., 2025, figure 8) gives mean ratings over 40 trajectories drawn for each data set. Agreement is
Krippendorff's alpha for intervals (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from saccade.errors import SettingsError
from saccade.evals.intervals import Interval, bootstrap
from saccade.evals.summary import markdown
from saccade.record.content import Name, Record, Text
from saccade.training.sft.review import Rating, RatingLog


class RatedMean(Record):
    """Ratings of one run's trajectories from one source; source `all` for all."""

    run: Text
    source: Text
    trajectories: int
    ratings: int
    mean: float
    low: float
    high: float


class Preference(Record):
    """How often raters gave one of two runs more for the same task."""

    left: Text
    right: Text
    left_more: int
    equal: int
    right_more: int


class RatingTable(Record):
    """Everything that people's ratings of some runs say."""

    means: tuple[RatedMean, ...]
    preferences: tuple[Preference, ...]
    raters: tuple[Name, ...]
    shared: int
    """Trajectories that several raters rated."""
    alpha: float | None
    """Krippendorff's, for intervals; None where no trajectory has two ratings, or all ratings are equal."""
    exact: float | None
    """Share of pairs of raters on one trajectory that gave the same."""
    near: float | None
    """Share of those that are at most one apart."""


def rating_table(runs: Sequence[Path]) -> RatingTable:
    """Return the table of the ratings stored in some runs.

    Raises:
        SettingsError: none of them has any.
    """
    rated = {str(run): RatingLog(run).all() for run in runs}
    if not any(rated.values()):
        raise SettingsError(
            f"none of these runs was rated: {', '.join(rated)}. Rate them: saccade review ... --rate NAME"
        )
    units = _units((run, one) for run, ratings in rated.items() for one in ratings)
    pairs = [abs(a - b) for values in units for a, b in combinations(values, 2)]
    return RatingTable(
        means=tuple(mean for run, ratings in rated.items() for mean in _means(run, ratings)),
        preferences=tuple(_preference(left, right, rated) for left, right in combinations(rated, 2)),
        raters=tuple(sorted({one.rater for ratings in rated.values() for one in ratings})),
        shared=sum(len(values) > 1 for values in units),
        alpha=krippendorff(units),
        exact=fmean(gap == 0 for gap in pairs) if pairs else None,
        near=fmean(gap <= 1 for gap in pairs) if pairs else None,
    )


def krippendorff(units: Iterable[Sequence[float]]) -> float | None:
    """Return alpha for interval data: 1 is full agreement, 0 what chance gives; None where it is not defined.

    `units` are the values that each thing was given; those with fewer than two count for nothing.
    """
    paired = [tuple(values) for values in units if len(values) > 1]
    every = [value for values in paired for value in values]
    expected = sum((a - b) ** 2 for a, b in combinations(every, 2))
    if not expected:
        return None
    observed = sum(sum((a - b) ** 2 for a, b in combinations(values, 2)) / (len(values) - 1) for values in paired)
    return 1 - (len(every) - 1) * observed / expected


def table_lines(table: RatingTable) -> list[str]:
    """Write the table in Markdown."""
    rows = [(one.run, one.source or "?", f"{one.trajectories}", f"{one.ratings}", f"{one.mean:.2f}",
             f"{one.low:.2f} to {one.high:.2f}") for one in table.means]  # fmt: skip
    lines = markdown(("run", "source", "trajectories", "ratings", "mean (1-5)", "95%"), rows)
    for one in table.preferences:
        total = one.left_more + one.equal + one.right_more
        lines.append(
            f"{one.left} over {one.right}: more {one.left_more}, equal {one.equal}, less {one.right_more} of {total}."
        )
    words = "nothing was rated twice"
    if table.exact is not None and table.near is not None:
        alpha = "not defined, all are equal" if table.alpha is None else f"{table.alpha:.2f}"
        words = (
            f"{table.shared} trajectories by several; Krippendorff's alpha {alpha}; the same {table.exact:.0%}, at "
            f"most one apart {table.near:.0%}"
        )
    return [*lines, f"Raters: {', '.join(table.raters)}. Agreement: {words}."]


def _units(rated: Iterable[tuple[str, Rating]]) -> list[list[int]]:
    of: dict[tuple[str, str], list[int]] = defaultdict(list)
    for run, one in rated:
        of[run, one.id].append(one.rating)
    return list(of.values())


def _means(run: str, ratings: Sequence[Rating]) -> Iterable[RatedMean]:
    """Yield a mean for each source, and that of all; several raters of one trajectory count as one, by their mean."""
    sources = sorted({one.source for one in ratings})
    for source in [*sources, *(["all"] if len(sources) > 1 else [])]:
        chosen = [one for one in ratings if source in (one.source, "all")]
        values = [fmean(values) for values in _units((run, one) for one in chosen)]
        interval: Interval = bootstrap(values)
        yield RatedMean(
            run=run, source=source, trajectories=len(values), ratings=len(chosen), mean=fmean(values),
            low=interval.low, high=interval.high,
        )  # fmt: skip


def _preference(left: str, right: str, rated: dict[str, tuple[Rating, ...]]) -> Preference:
    given: list[dict[tuple[str, str], Any]] = [
        {(one.rater, one.task): one.rating for one in rated[run]} for run in (left, right)
    ]
    gaps = [given[0][key] - given[1][key] for key in given[0].keys() & given[1].keys()]
    return Preference(
        left=left, right=right, left_more=sum(gap > 0 for gap in gaps), equal=gaps.count(0),
        right_more=sum(gap < 0 for gap in gaps),
    )  # fmt: skip
