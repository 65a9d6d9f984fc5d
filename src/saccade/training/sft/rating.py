"""Ratings of trajectories by people, from 1 to 5: `ratings.jsonl` in each run, blind sheets, and the table of all.

VISTA-R1 (Lu et al., 2025, figure 8) gives mean ratings over 40 trajectories drawn for each data set. A sheet has one
task with the trajectory of each run, in an order that differs from rater to rater, and names no run and no score.
Agreement is Krippendorff's alpha for intervals (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated, Any, Final

from pydantic import AwareDatetime, Field

from saccade.errors import SettingsError
from saccade.evals.intervals import Interval, bootstrap
from saccade.evals.tables import markdown
from saccade.record.base import Name, Record, Text
from saccade.record.codec import append_line, read_lines, recover_lines
from saccade.record.trajectory import Trajectory
from saccade.training.sft.review import ReviewItems

RATINGS: Final = "ratings.jsonl"


class Rating(Record):
    """What one person gave one trajectory; of two the later one counts."""

    id: Name
    """Of the trajectory."""
    task: Name
    source: Text
    rater: Name
    rating: Annotated[int, Field(ge=1, le=5)]
    note: Text = ""
    rated: AwareDatetime


class RatingLog:
    """The ratings in a run, in memory and on the disk."""

    def __init__(self, folder: Path) -> None:
        """Reads what is there; a last line that was cut short is cut off. Raises `RecordError` for a broken line."""
        self._file = folder / RATINGS
        self._last: dict[tuple[str, str], Rating] = {}
        if self._file.exists():
            recover_lines(self._file)
            self._last = {(one.rater, one.id): one for one in read_lines(self._file, Rating)}

    def of(self, rater: str, trajectory: str) -> Rating | None:
        """Return what a rater gave; None if nothing yet."""
        return self._last.get((rater, trajectory))

    def add(self, rating: Rating) -> None:
        """Keep a rating; it is on the disk when this returns. Raises `OSError` if the disk refuses."""
        append_line(self._file, rating)
        self._last[rating.rater, rating.id] = rating

    def all(self) -> tuple[Rating, ...]:
        """Return the ratings that count."""
        return tuple(self._last.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """A trajectory on a sheet."""

    run: int
    """Which of the runs."""
    number: int
    """Which of its items."""
    id: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """One task, and the trajectory of each run in the order in which this rater sees them."""

    task: str
    source: str
    entries: tuple[Entry, ...]


def sheets(runs: Sequence[ReviewItems], rater: str, count: int, seed: int) -> list[Sheet]:
    """Return the sheets of a rater: `count` tasks of each source that every run has played, drawn by `seed`.

    Everyone with the same seed rates the same tasks; their order, and that on a sheet, are the rater's own. Of several
    rollouts of a task the first is rated.

    Raises:
        SettingsError: a folder is no run, or the runs share no task.
        RecordError: a line cannot be read.
    """
    played: list[dict[str, tuple[str, Entry]]] = []
    for run, items in enumerate(runs):
        tasks: dict[str, tuple[int, str, Entry]] = {}
        for number, name in enumerate(items.names):
            item = items.read(number)
            if not isinstance(item, Trajectory):
                raise SettingsError(f"{items.folder} holds tasks that nobody has played: name runs to rate.")
            if item.task.id not in tasks or item.rollout < tasks[item.task.id][0]:
                tasks[item.task.id] = (item.rollout, item.task.source, Entry(run, number, name))
        played.append({task: (source, entry) for task, (_, source, entry) in tasks.items()})
    by_source: dict[str, list[str]] = defaultdict(list)
    for task in sorted(set.intersection(*map(set, played))):
        by_source[played[0][task][0]].append(task)
    if not by_source:
        raise SettingsError("the runs share no task, so no pair can be rated. Name runs over the same tasks.")
    drawn = [(source, task) for source, tasks in sorted(by_source.items())
             for task in Random(f"{seed} {source}").sample(tasks, min(count, len(tasks)))]  # fmt: skip
    own = Random(f"{seed} {rater}")
    own.shuffle(drawn)
    made = []
    for source, task in drawn:
        entries = [tasks[task][1] for tasks in played]
        own.shuffle(entries)
        made.append(Sheet(task, source, tuple(entries)))
    return made


# The table: means with intervals over tasks, who was preferred, and how far raters agree.


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
