"""An arm as a run of `saccade rl`: its recipe with the tiny profile, what the claim changes, and its seed."""

from __future__ import annotations

from pathlib import Path

from saccade.episode.plan import limits_with
from saccade.record.trajectory import EpisodeLimits
from saccade.reproduce.settings import Arm, Reproduction
from saccade.rl.train.settings import RlSettings, load_rl_settings

PROFILE = "tiny"
_SEEDS_APART = 1000
"""Added to the seed of an arm that continues another one, so that it draws anew."""


def arm_settings(settings: Reproduction, arm: Arm, seed: int) -> RlSettings:
    """The settings of an arm but for its checkpoint, its tasks and its steps.

    Raises:
        SettingsError: the recipe is not there, or a change of it is wrong.
        RegistryError: the recipe names a dialect or reward that does not exist.
    """
    drawn = seed + _SEEDS_APART if arm.after else seed
    changes = [*_MACHINE, *settings.every_arm, f"dialect={arm.dialect}", *arm.change]
    run = load_rl_settings(arm.recipe, PROFILE, changes)
    changed: dict[str, object] = {"seed": drawn} | ({} if arm.curriculum else {"curriculum": None})
    if settings.turns is not None:
        rollout = run.recipe.rollout
        limits = limits_with(rollout.limits or EpisodeLimits(), turns=settings.turns)
        changed["rollout"] = rollout.model_copy(update={"limits": limits})
    recipe = run.recipe.model_copy(update=changed)
    return run.model_copy(update={"recipe": recipe, "threads": settings.threads})


def complete_settings(settings: RlSettings, checkpoint: str, tasks: Path, most: int, steps: int) -> RlSettings:
    """The settings of an arm, complete."""
    return settings.model_copy(
        update={
            "recipe": settings.recipe.model_copy(update={"steps": steps}),
            "model": settings.model.model_copy(update={"source": checkpoint}),
            "tasks": settings.tasks.model_copy(update={"source": (str(tasks),), "most": most}),
        }
    )


_MACHINE = (
    "validation.every=0",
    "keep.every=5",
    "keep.checkpoints=1",
    "keep.tensorboard=false",
    "rollouts.every=0",
    "generation.max_concurrency=24",
)
"""Held-out tasks are examined afterwards, and rollouts are kept where a claim asks for them. Few programs run at
once, so that two cores finish them within their limit of time."""
