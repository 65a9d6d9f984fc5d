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
from saccade.rl.play.rollouts import PlaySettings, Stage, play
from saccade.rl.recipe import Recipe
from saccade.rl.rollouts import RolloutGroup, group_of
from saccade.rl.select.curriculum import pass_rates
from saccade.rl.select.rounds import Generate, Rounds, decide
from saccade.rl.select.selection import Selection
from saccade.rl.train.scoring import Scored, Scorer
from saccade.rl.train.tasks import TaskList
from saccade.training.parallel import Processes


@dataclass
class Seconds:
    """Where the time of a step went."""

    decoding: float = 0.0
    sandbox: float = 0.0
    """No decoding: sandboxes and tools were waited for."""
    scoring: float = 0.0
    update: float = 0.0
    others: float = 0.0
    """Other processes were waited for."""


@dataclass
class Harvest:
    """The rollouts of a step."""

    selection: Selection = field(default_factory=lambda: Selection(()))
    advantages: list[Advantage] = field(default_factory=list)
    scored: dict[str, Scored] = field(default_factory=dict)
    """Every rollout, by its id."""
    groups: tuple[RolloutGroup, ...] = ()
    place: int = 0
    """Of the next task in the row of epochs."""
    replayed: int = 0
    seconds: Seconds = field(default_factory=Seconds)


@dataclass(frozen=True)
class Field:
    """Where harvests come from. Each process plays its share of the tasks, and all see everything that was played."""

    recipe: Recipe
    dialect: Dialect
    stage: Stage
    play: PlaySettings
    scorer: Scorer
    processes: Processes

    async def harvest(self, tasks: TaskList, place: int) -> Harvest:
        """The rollouts of a step whose first task is at `place`.

        Raises:
            TrainingError: every rollout was lost, or no question to a judge had a verdict.
        """
        made = Harvest(place=place)
        state = Rounds(self.recipe.rounds)
        while isinstance(following := decide(state, self.recipe.selection), Generate):
            places = range(made.place, made.place + following.tasks)
            made.place = places.stop
            drawn = await asyncio.to_thread(self._drawn, tasks, self.processes.share(places))
            state = state.with_groups(await self.round(drawn, made))
            _check_judged(made)
        _check_lost(made)
        made.groups = state.groups
        made.selection = following.selection
        rewards = {name: item.reward for name, item in made.scored.items()}
        made.advantages = self.recipe.advantage(following.selection, rewards)
        return made

    async def round(self, tasks: dict[int, Task], made: Harvest, *, trained_on: bool = True) -> list[RolloutGroup]:
        """One round over `tasks`, this process's share by their places; what it takes and gives is added to `made`.

        Rollouts that are not `trained_on` are worth their accuracy alone.
        """
        size = self.recipe.rollout.group
        plans = [
            self.plan(task, place * size + number, f"{task.id}@{place}")
            for place, task in tasks.items()
            for number in range(size)
        ]
        played, timing = await play(plans, self.stage, self.play, self.recipe.seed)
        made.seconds.decoding += timing.decoding
        made.seconds.sandbox += timing.waiting
        began = time.perf_counter()
        parts = [played[start : start + size] for start in range(0, len(played), size)]
        own: Sequence[list[Scored]] = await asyncio.gather(
            *(self.scorer(part, trained_on=trained_on) for part in parts)
        )
        ended = time.perf_counter()
        made.seconds.scoring += ended - began
        scored = await asyncio.to_thread(self.processes.together, own)
        made.replayed += int(self.processes.summed([timing.replayed])[0])
        made.seconds.others += time.perf_counter() - ended
        made.scored |= {item.trajectory.id: item for part in scored for item in part}
        return [
            group_of(
                [item.trajectory for item in part],
                [item.reward if trained_on else item.accuracy_alone for item in part],
            )
            for part in scored
        ]

    async def rates(self, tasks: TaskList, places: Sequence[int]) -> dict[str, tuple[float | None, int]]:
        """Of the tasks at `places` in their list the share of right rollouts, None where none is usable, and the number
        of usable ones, from one group of rollouts each.

        Raises:
            TrainingError: every rollout was lost.
        """
        own, made = self.processes.share(places), Harvest()
        drawn = {place: tasks.make(tasks.ids[place], self.stage.store) for place in own}
        groups = await self.round(drawn, made, trained_on=False)
        _check_lost(made)
        found = pass_rates(groups)
        names = [tasks.ids[place] for place in places]
        return {name: found.get(f"{name}@{place}", (None, 0)) for name, place in zip(names, places, strict=True)}

    def _drawn(self, tasks: TaskList, places: Sequence[int]) -> dict[int, Task]:
        return {place: tasks.make(tasks.at(place, self.recipe.seed), self.stage.store) for place in places}

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


def _check_lost(made: Harvest) -> None:
    if all(item.trajectory.lost for item in made.scored.values()):
        detail = next(iter(made.scored.values())).trajectory.stop_detail
        raise TrainingError(f"every rollout of a step was lost to outages, the first to this one: {detail}")


def _check_judged(made: Harvest) -> None:
    """Raise `TrainingError` if a judge was asked about the rollouts of a step, and gave no verdict on any."""
    details = [part.detail for item in made.scored.values() for part in item.reward.parts if part.value is None]
    failed = {NoVerdict.OUTAGE.value, NoVerdict.REFUSED.value, NoVerdict.MALFORMED.value} & set(details)
    if failed and all(item.reward.total is None for item in made.scored.values()):
        raise TrainingError(
            f"no rollout of a step has a reward, for the judge gave no verdict ({', '.join(sorted(failed))}); the "
            "warnings above say why. Correct the cause, and continue with --resume."
        )
