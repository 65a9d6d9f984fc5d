"""Everything that decides a run of `saccade rl`: the recipe, and what of it belongs to this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from saccade.episode.session_limits import SessionLimits
from saccade.errors import SettingsError
from saccade.models.retry import ENGINE_RETRY, RETRY_SETTINGS, RetryPolicy
from saccade.record.settings import Settings, load_settings
from saccade.rewards.judges.client import ASK_LIMITS
from saccade.rl.engines.settings import EngineSettings, check_engine
from saccade.rl.generation.rollouts import GenerationSettings
from saccade.rl.recipe import Recipe, load_recipe
from saccade.training.settings import KeepSettings, ModelSettings


class TaskSettings(Settings):
    """What is trained on."""

    source: str = ""
    """A generated world, a file of tasks, or a folder with `tasks.jsonl` and `media/`."""
    most: PositiveInt | None = None
    """Tasks of it, the first; None: all of a file, and `WORLD_TASKS` of a world, which has no end."""


class RlValidationSettings(Settings):
    """How the run is watched: greedy answers to tasks that are not trained on."""

    source: str = ""
    """As `tasks.source`; empty: the validation split, where that is a world, else none."""
    tasks: PositiveInt = 32
    every: NonNegativeInt = 20
    """Steps; 0 for never. The last step always counts."""


class RolloutStoreSettings(Settings):
    """Which rollouts stay on the disk, in OUT/rollouts."""

    every: NonNegativeInt = 10
    """Steps between those whose rollouts are kept; 0 for none."""


class RlSettings(Settings):
    """The settings of `saccade rl`."""

    RENAMED: ClassVar = {
        "forward_tokens": "max_tokens_per_batch",
        "largest_gap": "max_logprob_diff",
        "play": "generation",
    }
    recipe: Recipe
    model: ModelSettings = ModelSettings()
    """LoRA's dropout counts as 0: the policy that learns must be the one that sampled."""
    tasks: TaskSettings = TaskSettings()
    validation: RlValidationSettings = RlValidationSettings()
    generation: GenerationSettings = GenerationSettings()
    keep: KeepSettings = KeepSettings(every=10)
    rollouts: RolloutStoreSettings = RolloutStoreSettings()
    max_tokens_per_batch: PositiveInt = 16_384
    """Most tokens of a forward pass, padding included."""
    max_logprob_diff: NonNegativeFloat = 0.0
    """Largest difference of a token's log-probability between sampling and training, in nats, before the run fails;
    0: 1e-3 in float32, 1.0 in bfloat16 and with servers, but for one that the run starts on its CPU."""
    engine: EngineSettings = EngineSettings()
    """Who samples the rollouts."""
    retry: RetryPolicy = ENGINE_RETRY
    """How often a request to a server that samples is tried, and for how long; those to a judge are `reward.retry`."""
    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions in place of the dialect's."""
    sandbox: str = "local"
    """`local`, or the address of a `saccade sandbox serve`."""
    threads: NonNegativeInt = 1
    """Threads of torch on a CPU; 0: one for each core. Sandboxes need cores too."""

    def __reduce__(self) -> tuple[Callable[[dict[str, object]], RlSettings], tuple[dict[str, object]]]:
        """Pickled as plain data: another process loads rules of the user's own by their names, as this one did."""
        return RlSettings.model_validate, (self.model_dump(),)


def load_rl_settings(
    name_or_path: str | os.PathLike[str], profile: str | None = None, overrides: Sequence[str] = ()
) -> RlSettings:
    """A recipe, by name or path, with its profile, and overrides `a.b=value` of it and of everything else.

    Raises:
        SettingsError: names every mistake.
        RegistryError: the recipe names a dialect or reward that does not exist.
    """
    machine = _MACHINE | RlSettings.RENAMED.keys()
    own = [item for item in overrides if item.partition("=")[0].split(".")[0].strip() in machine]
    recipe = load_recipe(name_or_path, profile, [item for item in overrides if item not in own])
    given = {} if recipe.engine is None else {"engine": recipe.engine.model_dump()}
    settings = load_settings(_Machine, None, own, given)
    recipe = recipe.model_copy(update={"engine": None})
    return RlSettings(recipe=recipe, **{name: getattr(settings, name) for name in _MACHINE})


def renewed_override(override: str) -> str:
    """An override `a.b=value` of a recipe or a run as a run of before saved it, with the names of today."""
    path, equals, value = override.partition("=")
    names = [name.strip() for name in path.split(".")]
    table: dict[str, Any] = reduce(lambda inner, name: {name: inner}, reversed(names), {})
    for kind in (RlSettings, Recipe):
        table = kind.renewed(table)
    renewed = []
    while table:
        ((name, table),) = table.items()
        renewed.append(name)
    return ".".join(renewed) + equals + value


class _Machine(RlSettings):
    """The same without a recipe."""

    recipe: Recipe | None = None  # type: ignore[assignment]


MAY_DIFFER = (
    *RETRY_SETTINGS,
    *(f"recipe.reward.{name}" for name in RETRY_SETTINGS),
    *(f"recipe.reward.judge_rules.{name}" for name in ASK_LIMITS),
)
"""Settings that a run may be resumed with in place of its own: they decide nothing of what is trained."""
_MACHINE = frozenset(RlSettings.model_fields) - {"recipe"}


def check_settings(settings: RlSettings) -> None:
    """Raises `SettingsError` for what is missing, or cannot be."""
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model")
    if not settings.tasks.source:
        raise SettingsError("no tasks are named: give a world or a file with --tasks")
    check_engine(settings.engine)
