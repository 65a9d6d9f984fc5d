"""What a step trains on: rounds of rollouts until a selection has enough, and their advantages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from saccade.dialects.base import Dialect
from saccade.episode.plan import Plan, limits_with
from saccade.errors import TrainingError
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits
from saccade.rewards.judges.verdict import NoVerdict
from saccade.rl.advantages.rules import Advantage
from saccade.rl.generation.rollouts import GenerationSettings, RolloutResources, generate_rollouts
from saccade.rl.groups import RolloutGroup, group_of
from saccade.rl.recipe import Recipe
from saccade.rl.select.curriculum import pass_rates
from saccade.rl.select.rounds import Generate, Rounds, decide
from saccade.rl.select.selection import Selection
from saccade.rl.train.scoring import ScoredRollout, Scorer
from saccade.rl.train.tasks import TaskList
from saccade.training.parallel import Processes


@dataclass
class StepSeconds:
    """Where the time of a step went."""

    decoding: float = 0.0
    sandbox: float = 0.0
    """No decoding: sandboxes and tools were waited for."""
    scoring: float = 0.0
    update: float = 0.0
    others: float = 0.0
    """Other processes were waited for."""


@dataclass
class RolloutBatch:
    """The rollouts of a step."""

    selection: Selection = field(default_factory=lambda: Selection(()))
    advantages: list[Advantage] = field(default_factory=list)
    scored: dict[str, ScoredRollout] = field(default_factory=dict)
    """Every rollout, by its id."""
    groups: tuple[RolloutGroup, ...] = ()
    cursor: int = 0
    """Of the next task in the row of epochs."""
    replayed: int = 0
    seconds: StepSeconds = field(default_factory=StepSeconds)


@dataclass(frozen=True)
class Collector:
    """Collects the rollouts of a step.

    Each process plays its share of the tasks, and all see everything that was played.
    """

    recipe: Recipe
    dialect: Dialect
    resources: RolloutResources
    generation: GenerationSettings
    scorer: Scorer
    processes: Processes

    async def collect(self, tasks: TaskList, cursor: int) -> RolloutBatch:
        """The rollouts of a step whose first task is at `cursor`.

        Raises:
            TrainingError: every rollout was lost, or no question to a judge had a verdict.
        """
        batch = RolloutBatch(cursor=cursor)
        state = Rounds(self.recipe.rounds)
        while isinstance(decision := decide(state, self.recipe.selection), Generate):
            places = range(batch.cursor, batch.cursor + decision.tasks)
            batch.cursor = places.stop
            round_tasks = await asyncio.to_thread(self._make_tasks, tasks, self.processes.share(places))
            state = state.with_groups(await self.collect_round(round_tasks, batch))
            _check_judged(batch)
        _check_lost(batch)
        batch.groups = state.groups
        batch.selection = decision.selection
        rewards = {name: item.reward for name, item in batch.scored.items()}
        batch.advantages = self.recipe.advantage(decision.selection, rewards)
        return batch

    async def collect_round(
        self, tasks: dict[int, Task], batch: RolloutBatch, *, trained_on: bool = True
    ) -> list[RolloutGroup]:
        """One round over `tasks`, this process's share by their places; what it takes and gives is added to `batch`.

        Rollouts that are not `trained_on` are worth their accuracy alone.
        """
        size = self.recipe.rollout.group_size
        plans = [
            self.plan(task, place * size + number, f"{task.id}@{place}")
            for place, task in tasks.items()
            for number in range(size)
        ]
        played, timing = await generate_rollouts(plans, self.resources, self.generation, self.recipe.seed)
        batch.seconds.decoding += timing.decoding
        batch.seconds.sandbox += timing.waiting
        began = time.perf_counter()
        parts = [played[start : start + size] for start in range(0, len(played), size)]
        own: Sequence[list[ScoredRollout]] = await asyncio.gather(
            *(self.scorer(part, trained_on=trained_on) for part in parts)
        )
        ended = time.perf_counter()
        batch.seconds.scoring += ended - began
        scored = await asyncio.to_thread(self.processes.gather_shares, own)
        batch.replayed += int(self.processes.all_sum([timing.replayed])[0])
        batch.seconds.others += time.perf_counter() - ended
        batch.scored |= {item.trajectory.id: item for part in scored for item in part}
        return [
            group_of(
                [item.trajectory for item in part],
                [item.reward if trained_on else item.accuracy_alone for item in part],
            )
            for part in scored
        ]

    async def pass_rates(self, tasks: TaskList, places: Sequence[int]) -> dict[str, tuple[float | None, int]]:
        """Of the tasks at `places` in their list the share of right rollouts, None where none is usable, and the number
        of usable ones, from one group of rollouts each.

        Raises:
            TrainingError: every rollout was lost.
        """
        own, batch = self.processes.share(places), RolloutBatch()
        tasks_of = {place: tasks.make(tasks.ids[place], self.resources.store) for place in own}
        groups = await self.collect_round(tasks_of, batch, trained_on=False)
        _check_lost(batch)
        measured = pass_rates(groups)
        names = [tasks.ids[place] for place in places]
        return {name: measured.get(f"{name}@{place}", (None, 0)) for name, place in zip(names, places, strict=True)}

    def _make_tasks(self, tasks: TaskList, places: Sequence[int]) -> dict[int, Task]:
        return {place: tasks.make(tasks.at(place, self.recipe.seed), self.resources.store) for place in places}

    def plan(self, task: Task, rollout: int, group: str, *, greedy: bool = False) -> Plan:
        """One episode; a `rollout` number is used once in a run."""
        sampling, limits = self.recipe.rollout.sampling, self.recipe.rollout.limits or EpisodeLimits()
        return Plan(
            task,
            self.dialect,
            sampling.model_copy(update={"temperature": 0.0}) if greedy else sampling,
            limits_with(self.dialect.limits, **limits.model_dump()),
            group,
            rollout,
        )


def _check_lost(batch: RolloutBatch) -> None:
    if all(item.trajectory.lost for item in batch.scored.values()):
        detail = next(iter(batch.scored.values())).trajectory.stop_detail
        raise TrainingError(f"every rollout of a step was lost to outages, the first to this one: {detail}")


def _check_judged(batch: RolloutBatch) -> None:
    """Raise `TrainingError` if a judge was asked about the rollouts of a step, and gave no verdict on any."""
    details = [part.detail for item in batch.scored.values() for part in item.reward.parts if part.value is None]
    failed = {NoVerdict.OUTAGE.value, NoVerdict.REFUSED.value, NoVerdict.MALFORMED.value} & set(details)
    if failed and all(item.reward.total is None for item in batch.scored.values()):
        raise TrainingError(
            f"no rollout of a step has a reward, for the judge gave no verdict ({', '.join(sorted(failed))}); the "
            "warnings above say why. Correct the cause, and continue with --resume."
        )
