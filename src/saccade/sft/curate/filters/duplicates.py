"""Trajectories that show the model the same thing again: pictures that look alike, questions in the same words."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.fingerprint import BITS, Fingerprints, NearIndex
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    each,
    task_pictures,
)
from saccade.sft.curate.wording import normal_text


class Duplicates(FilterSettings):
    """Leaves out trajectories whose question and pictures came before; the first ones stay.

    Two tasks are alike if every picture of the one has a near one among those of the other, as many on both sides, and
    the questions have the same words. Videos are compared by their bytes.
    """

    ABOUT_TASKS = True

    match: Literal["both", "pictures", "question"] = "both"
    """What must be alike; a task without pictures is compared by its question alone."""
    keep: PositiveInt = 1
    """How many that are alike stay, such as several rollouts of one task."""
    bits: int = Field(default=10, ge=0, lt=BITS)
    """Bits of 256 in which the hashes of near pictures may differ."""
    color: NonNegativeFloat = 8.0
    """Mean difference of colour, of 255, that near pictures may have."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(_Seen(self, around).decide)


class _Seen:
    """What came before."""

    def __init__(self, settings: Duplicates, around: FilterContext) -> None:
        self._settings, self._prints = settings, Fingerprints(around.media)
        self._indices: dict[tuple[str, ...], NearIndex] = {}
        """One for each wording, number of pictures, and set of videos."""
        self._counts: dict[str, int] = {}
        self._alone: dict[tuple[str, ...], str] = {}
        """The first trajectory of those without pictures to compare."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        first = self._first_like(trajectory)
        self._counts[first] = self._counts.get(first, 0) + 1
        if self._counts[first] <= self._settings.keep:
            return KEEP
        return Drop("duplicate", f"like {first}")

    def _first_like(self, trajectory: Trajectory) -> str:
        """Id of the first trajectory that this one is like; its own if there is none."""
        pictures = task_pictures(trajectory)
        others = sorted(item.part.sha256 for item in trajectory.task.media if item.part.kind == "video")
        compared = 0 if self._settings.match == "question" else len(pictures)
        wording = (normal_text(trajectory.task.question), *map(normal_text, trajectory.task.choices))
        words = () if self._settings.match == "pictures" and (pictures or others) else wording
        key = (str(compared), *(others if self._settings.match != "question" else ()), *words)
        if not compared:
            return self._alone.setdefault(key, trajectory.id)
        index = self._indices.setdefault(key, NearIndex(self._settings.bits, self._settings.color))
        prints = [self._prints.of(part) for part in pictures]
        others_near = [set(index.near(print_)) for print_ in prints[1:]]
        for first in index.near(prints[0]):
            if all(first in near for near in others_near):
                return first
        for print_ in prints:
            index.add(print_, trajectory.id)
        return trajectory.id
