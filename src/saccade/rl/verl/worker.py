"""What a process that plays episodes for verl holds: the run's settings, its tasks, a sandbox, rewards; no weights.

Made once in a process, when the first rollout is asked for. Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.episode.settings import sandbox_at
from saccade.media.store import MediaStore
from saccade.record.settings import load_settings
from saccade.record.task import Task
from saccade.rl.generation.plans import rollout_plan
from saccade.rl.generation.rollouts import RolloutResources, RolloutTiming, generate_rollouts
from saccade.rl.recipe import RewardSettings
from saccade.rl.rollout import Rollout
from saccade.rl.train.scoring import Scorer, load_scorer
from saccade.rl.train.settings import RlSettings
from saccade.rl.train.tasks import TaskList, as_list, validation_tasks
from saccade.rl.verl.engine import VerlClient, VerlEngine
from saccade.rl.verl.groups import GroupTable
from saccade.rl.verl.mapping import context_tokens, located
from saccade.rl.verl.policy import load_policy
from saccade.rl.verl.said import keep_warnings
from saccade.rl.verl.settings import verl_of
from saccade.sandbox.base import Sandbox
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks
from saccade.tools.toolbox import Toolbox
from saccade.training.folder import SETTINGS


@dataclass(frozen=True, slots=True)
class AskedRollout:
    """What verl asks for in one call."""

    uid: str
    """Of the group, new each time a task comes."""
    number: int
    """Of the rollout in the group, from 0."""
    place: int
    """Of the task in the sequence of epochs; in the list of held-out tasks where it is one."""
    task: str
    validation: bool


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """One rollout with its reward."""

    rollout: Rollout
    engine: VerlEngine
    """That of its group."""
    timing: RolloutTiming
    """That of its group."""


class EpisodeWorker:
    """Plays and scores whole groups."""

    def __init__(
        self, settings: RlSettings, out: Path, sandbox: Sandbox, dialect: Dialect, tools: Toolbox | None
    ) -> None:
        """Use `open_worker`."""
        self.settings, recipe = settings, settings.recipe
        self.groups: GroupTable[PlayedRollout] = GroupTable(verl_of(settings).turn_seconds)
        self.store = MediaStore(out / "rollouts" / MEDIA)
        self.policy = load_policy(located(settings.model.source))
        self._scorer = load_scorer(_shared_limits(settings), self.store, out / "judge")
        self._sandbox, self._dialect, self._tools = sandbox, dialect, tools
        self._tasks = as_list(open_tasks(settings.sources, SourceDefaults(split="train", most=settings.tasks.most)))
        self._held_out = held_out(settings)
        own = settings.generation.max_concurrency // (verl_of(settings).workers * recipe.rollout.group_size)
        self._alive = out / "verl" / "alive"  # whose time tells the command that something was played
        self._room = asyncio.Semaphore(max(1, own))

    async def play(self, asked: AskedRollout, client: VerlClient) -> PlayedRollout:
        """The rollout that is asked for, once all of its group are.

        Raises:
            TrainingError: a gate was violated, or not all of its group were asked for.
            SaccadeError: whatever ends a run with our own trainer too.
        """
        settings = self.settings
        count = settings.validation.samples if asked.validation else settings.recipe.rollout.group_size
        return await self.groups.join(asked.uid, asked.number, count, lambda: self._group(asked, client, count))

    async def _group(self, asked: AskedRollout, client: VerlClient, count: int) -> Sequence[PlayedRollout]:
        async with self._room:
            task = await asyncio.to_thread(self._make, asked)
            settings, recipe = self.settings, self.settings.recipe
            engine = VerlEngine(
                client,
                self.policy,
                self.store,
                context_tokens(recipe) or self.policy.checkpoint.context_tokens,
                verl_of(settings).turn_seconds,
            )
            resources = RolloutResources(engine, self.policy.encoder, self._sandbox, self.store, self._tools)
            group, first = (task.id, 0) if asked.validation else (f"{task.id}@{asked.place}", asked.place * count)
            heat = settings.validation.temperature if asked.validation else None
            plans = [
                rollout_plan(recipe, self._dialect, task, first + number, group, temperature=heat)
                for number in range(count)
            ]
            played, timing = await generate_rollouts(plans, resources, settings.generation, recipe.seed)
            scored = await self._scorer_of(asked)(played, trained_on=not asked.validation)
            self._alive.touch()
            return [PlayedRollout(rollout, engine, timing) for rollout in scored]

    def _make(self, asked: AskedRollout) -> Task:
        tasks = self._held_out if asked.validation else self._tasks
        assert tasks is not None  # there are no rows of held-out tasks without them
        return tasks.make(asked.task, self.store)

    def _scorer_of(self, asked: AskedRollout) -> Scorer:
        if not asked.validation:
            return self._scorer
        return replace(self._scorer, answers=replace(self._scorer.answers, grader=self.settings.validation.grader))


async def open_worker(out: Path) -> EpisodeWorker:
    """The worker of this process, for the run in `out`.

    Raises:
        SaccadeError: what the settings name cannot be had on this machine.
    """
    keep_warnings(out)
    settings = load_settings(RlSettings, out / SETTINGS)
    torch.set_num_threads(settings.threads or torch.get_num_threads())
    recipe = settings.recipe
    dialect, tools = recipe.equipped(settings.session.applied(load_dialect(recipe.dialect), settings.sandbox))
    # Open until the process ends: Ray ends it, and the sandbox's processes end with it.
    sandbox = await sandbox_at(settings.sandbox, dialect.sandbox).__aenter__()
    return await asyncio.to_thread(EpisodeWorker, settings, out, sandbox, dialect, tools)


def held_out(settings: RlSettings) -> TaskList | None:
    """The tasks that the run is watched on; None for none. Raises as `open_tasks`."""
    validation = settings.validation
    if not validation.every:
        return None
    return validation_tasks(validation.source, settings.sources, validation.tasks)


def _shared_limits(settings: RlSettings) -> RewardSettings:
    """The reward with this worker's part of what a judge may be asked and cost."""
    reward, workers = settings.recipe.reward, verl_of(settings).workers
    rules = reward.judge_rules
    own = {
        "concurrent": max(1, rules.concurrent // workers),
        "dollars": None if rules.dollars is None else rules.dollars / workers,
    }
    return reward.model_copy(update={"judge_rules": rules.model_copy(update=own)})
