"""Which trajectories a run will hold: one job for each, with the id that its trajectory will have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from saccade.sft.synth.settings import SynthSettings
from saccade.tasks.worlds.base import Knobs, Split
from saccade.tasks.worlds.registry import chosen_knobs, load_world


@dataclass(frozen=True, slots=True)
class Job:
    """One trajectory to be made."""

    world: str
    """Id with its version."""
    split: Split
    index: int
    sample: int
    """Number among the trajectories of one task."""

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return f"{self.world}/{self.split}/{self.index}"

    @property
    def id(self) -> str:
        """The id of the trajectory."""
        return f"{self.task_id}#{self.sample}"

    def seed(self, settings: SynthSettings) -> int:
        """A seed of its own for the expert, from the run's seed and the dialect."""
        digest = sha256(json.dumps([settings.seed, settings.dialect, self.id]).encode()).digest()
        return int.from_bytes(digest[:8], "little")


def jobs(settings: SynthSettings) -> Iterator[Job]:
    """All jobs: the worlds take turns, so that a run that is broken off holds some of each.

    Raises:
        RegistryError: there is no such world.
    """
    names = tuple(dict.fromkeys(load_world(name).id for name in settings.worlds))
    for index in range(settings.start, settings.start + settings.n):
        for sample in range(settings.samples):
            for name in names:
                yield Job(name, settings.split, index, sample)


def job_count(settings: SynthSettings) -> int:
    """How many jobs there are."""
    return settings.n * settings.samples * len({load_world(name).id for name in settings.worlds})


def knobs_by_world(settings: SynthSettings) -> dict[str, Knobs]:
    """The knobs of every world, by its id. Raises `SettingsError` as `chosen_knobs` does."""
    return chosen_knobs(map(load_world, settings.worlds), settings.knobs)
