"""How many steps the arms get: as many as were asked for, or as fit the time. Decided once, before the first arm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from saccade.errors import SettingsError
from saccade.record.disk import write_atomic
from saccade.reproduce.settings import Reproduction
from saccade.rl.train.settings import RlSettings

PROBE_STEPS: Final = 2
_SECONDS: Final = ("seconds/decoding", "seconds/sandbox", "seconds/scoring", "seconds/update")


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What was decided."""

    steps: int
    """Of each arm."""
    asked: int
    seconds_per_rollout: float
    """Playing and learning, as the probe took them; 0 without a probe."""


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """What the plan is made from, in seconds."""

    so_far: float
    per_exam: float
    """One rollout of the examination, or of a curriculum's choice: nothing is learned from it."""
    exams: int
    """Rollouts of all examinations that are to come."""
    per_rollout: float


def read_plan(path: Path) -> TrialPlan | None:
    """The plan that was made before; None if there is none."""
    return TrialPlan(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def write_plan(path: Path, plan: TrialPlan) -> None:
    """Keep the plan."""
    write_atomic(path, json.dumps(asdict(plan)) + "\n")


def make_plan(settings: Reproduction, arms: Mapping[str, RlSettings], spent: TimeSpent) -> TrialPlan:
    """As many steps of every arm as fit.

    Raises:
        SettingsError: they are fewer than `fewest_steps`.
    """
    if not settings.minutes:
        return TrialPlan(settings.steps, settings.steps, spent.per_rollout)
    seeds = len(settings.seeds)
    per_step = seeds * spent.per_rollout * settings.growth * sum(map(_rollouts, arms.values()))
    only_played = spent.exams + seeds * sum(map(_once, arms.values()))
    left = 60 * settings.minutes - spent.so_far - only_played * spent.per_exam
    steps = min(settings.steps, int(left / per_step))
    if steps < settings.fewest_steps:
        raise SettingsError(
            f"{settings.minutes:g} minutes are enough for {max(0, steps)} steps of {len(arms)} arms with {seeds} "
            f"seed(s), and at least {settings.fewest_steps} are wanted (fewest_steps). Give more --minutes (0: no "
            "limit), fewer seeds, or smaller steps (--set)."
        )
    return TrialPlan(steps, settings.steps, spent.per_rollout)


def seconds_per_rollout(steps: Sequence[Mapping[str, float]]) -> float:
    """Of the slower of a probe's steps."""
    return max(sum(step.get(name, 0.0) for name in _SECONDS) / max(1.0, step["rollouts"]) for step in steps)


def _rollouts(settings: RlSettings) -> int:
    """Rollouts of a step, at most."""
    rounds = settings.recipe.rounds
    return rounds.tasks * rounds.rounds * settings.recipe.rollout.group_size


def _once(settings: RlSettings) -> int:
    """Rollouts by which a curriculum chooses."""
    return (
        (settings.tasks.most or 0) * settings.recipe.rollout.group_size if settings.recipe.curriculum is not None else 0
    )
