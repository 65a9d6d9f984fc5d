"""Ratings of trajectories by people, from 1 to 5: `ratings.jsonl` in each run, and the sheets that they are given on.

A sheet has one task with the trajectory of each run, in an order that differs from rater to rater, and names no run and
no score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from saccade.errors import SettingsError
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
    rollouts of a task the first is rated. Raises `SettingsError`: a folder is no run, or the runs share no task;
    `RecordError`: a line cannot be read.
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
