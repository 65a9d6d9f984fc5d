"""What a rollout of a recipe follows, whichever trainer asks for it."""

from __future__ import annotations

from saccade.dialects.base import Dialect
from saccade.episode.plan import Plan, limits_with
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.recipe import Recipe


def rollout_plan(
    recipe: Recipe, dialect: Dialect, task: Task, rollout: int, group: str, *, temperature: float | None = None
) -> Plan:
    """One episode, at the recipe's temperature or another.

    A `rollout` number is used once for a task in a run; rollouts that are compared with each other share a `group`.
    """
    sampling, limits = recipe.rollout.sampling, recipe.rollout.limits or EpisodeLimits()
    return Plan(
        task,
        dialect,
        sampling if temperature is None else sampling.model_copy(update={"temperature": temperature}),
        limits_with(dialect.limits, **limits.model_dump()),
        group,
        rollout,
    )
