"""Make trajectories of tasks: by an expert, or by a teacher that plays the dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from saccade.core.settings import settings_toml
from saccade.dialects.base import Dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.shown import scaled_down
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.tools.toolbox import Toolbox
from saccade.training.sft.synth.atomic import ATOMIC_PROMPTS, HintedModel, labelled
from saccade.training.sft.synth.jobs import Job
from saccade.training.sft.synth.prompts import RecipeTexts, recipe_texts
from saccade.training.sft.synth.settings import AtomicCategory, SynthSettings


class Maker(Protocol):
    """Makes one trajectory for one task."""

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Return the trajectory as it was played, not graded.

        Raises:
            DiscardedError: something that must not be kept came of it.
            SettingsError: the dialect cannot hold the task.
        """


@dataclass(frozen=True)
class SynthResources:
    """Where episodes are played."""

    settings: SynthSettings
    dialect: Dialect
    tools: Toolbox | None
    sandbox: Sandbox
    store: MediaStore

    def plan(self, job: Job, task: Task, sampling: Sampling | None = None) -> Plan:
        """Return the plan of a job."""
        return Plan(
            task,
            self.dialect,
            sampling=sampling or Sampling(),
            given_limits=limits_with(self.dialect.limits, **self.settings.limits.model_dump()),
            group=task.id if self.settings.samples > 1 else "",
            rollout=job.sample,
            settings=self._settings_text,
            shown=scaled_down(task, self.settings.media.shown_pixels, self.store, self.dialect),
        )

    @cached_property
    def texts(self) -> RecipeTexts:
        """Return the texts in which recipes ask."""
        return recipe_texts(self.settings.teacher.prompt_files)

    @cached_property
    def _settings_text(self) -> str:
        return settings_toml(self.settings)

    def atomic_of(self, job: Job) -> AtomicCategory | None:
        """Return the category of code that a job asks for; its samples go through all of them in turn."""
        wanted = self.settings.teacher.atomic
        return wanted[job.sample % len(wanted)] if wanted else None

    async def play(self, plan: Plan, model: Model) -> Trajectory:
        """Play an episode."""
        return await run_episode(plan, model, self.sandbox, self.store, tools=self.tools)


Player = Callable[[Job, Plan, Mapping[str, str]], Model]
"""Makes the model that plays the plan of a job, given the notes of the world's sample."""
Wording = Callable[[Job, Task], Task]
"""Puts the task of a job in other words."""


@dataclass(frozen=True)
class PlayerMaker:
    """Makes trajectories by a model that is made for each task, such as an expert."""

    stage: SynthResources
    player: Player
    wording: Wording | None = None

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Play the task; raises what `player` raises too, such as `ExpertStopped` for a task that it cannot play."""
        plan = self.stage.plan(job, task if self.wording is None else self.wording(job, task))
        return await self.stage.play(plan, self.player(job, plan, notes))


@dataclass(frozen=True)
class TeacherMaker:
    """One model for all tasks, asked in the dialect's own prompt (PyVision-RL)."""

    stage: SynthResources
    model: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        sampling = self.stage.settings.teacher.sampling
        seeded = sampling if sampling.seed is None else sampling.model_copy(update={"seed": sampling.seed + job.sample})
        asked = self.stage.atomic_of(job)
        model = self.model if asked is None else HintedModel(self.model, ATOMIC_PROMPTS[asked])
        played = await self.stage.play(self.stage.plan(job, task, seeded), model)
        return played if played.lost else labelled(played, asked)
