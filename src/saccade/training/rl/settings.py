"""The settings of a run of `saccade rl`: the recipe, all that depends on the machine, and who trains.

    [project.entry-points."saccade.trainers"]
    mine = "my_package.trainer:MyTrainer"

A trainer is a class of settings, the table `trainer` of a run, with methods that plan and train: Saccade's own, or one
that another package registers (`saccade rl --on NAME`). The same recipes, tasks and rewards run on each of them.
"""

from __future__ import annotations

import os
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from saccade.core.registry import Registry, is_subclass
from saccade.core.retry import ENGINE_RETRY, RETRY_SETTINGS, RetryPolicy
from saccade.core.settings import Settings, load_settings, merged
from saccade.dialects.base import load_dialect
from saccade.episode.settings import SessionLimits
from saccade.errors import SettingsError
from saccade.grading.registry import load_grader
from saccade.record.trajectory import EpisodeLimits
from saccade.rewards.judges.client import ASK_LIMITS
from saccade.tasks.benchmarks.card import as_tuple
from saccade.tasks.sources.settings import MOST_BROKEN, Share, SourceSettings
from saccade.training.rl.engines.settings import LOCAL, EngineSettings, JudgeServerSettings, check_engine
from saccade.training.rl.recipe import Recipe, load_recipe
from saccade.training.rl.rollout import named
from saccade.training.settings import SETTINGS, KeepSettings, ModelSettings

OWN: Final = "saccade"


class GenerationSettings(Settings):
    """How episodes are spread over time; changes no more of them than last digits of log-probabilities."""

    max_concurrency: PositiveInt = 128
    """Episodes that run side by side."""
    decoding_batches: PositiveInt = 1
    """Batches that decode in turns. With 1, decoding waits for every sandbox; each more reads all weights again, and
    helps where `seconds/sandbox` of a step is longer than that."""
    cache: PositiveFloat = 8.0
    """GiB of keys and values of the engine in this process, over all batches; episodes that do not fit at once decode
    after each other. Servers have limits of their own."""
    replays: NonNegativeInt = 2
    """How often a lost rollout is played again."""


class TrainerSettings(Settings):
    """Base of all trainers; the first sentence of the docstring is what `saccade list trainers` shows."""

    name: str = ""
    """As `--on` names it."""


class OwnTrainer(TrainerSettings):
    """Saccade's own trainer (`saccade.training.rl.run`), on GPUs or the CPU, of one machine or several."""

    name: Literal["saccade"] = "saccade"


class OtherTrainer(TrainerSettings):
    """Base of the trainers of other packages; `settings` are a run's, `saccade.training.rl.settings.RlSettings`."""

    def plan(self, settings: Any, out: Path) -> Iterable[str]:
        """Check a run and give the lines that `--plan` prints. Raises `SettingsError` for what cannot be followed."""
        return ()

    def notes(self, settings: Any) -> Iterable[str]:
        """Say what this trainer does otherwise than Saccade's own, a sentence each."""
        return ()

    @abstractmethod
    def train(self, settings: Any, out: Path, *, resume: bool = False) -> Path:
        """Train in the folder `out` and return the folder of the trained checkpoint."""


TRAINERS: Final = Registry[type[TrainerSettings]](
    "trainers",
    {"saccade@1": f"{__name__}:OwnTrainer"},
    is_subclass(TrainerSettings, f"a subclass of {__name__}.OtherTrainer"),
)
"""Other packages add trainers by the entry point group `saccade.trainers`."""

NamedTrainer = Annotated[SerializeAsAny[TrainerSettings], BeforeValidator(named(TRAINERS, OWN, "name"))]
"""The table `trainer` of a run."""


def check_trainer(out: Path, trainer: str) -> None:
    """Raise `SettingsError` where `out` holds a run of another trainer: its checkpoints would not be found."""
    try:
        saved = tomllib.loads((out / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    begun = saved.get("trainer", {}).get("name", OWN)
    if begun == trainer:
        return
    if begun == OWN:
        raise SettingsError(
            f"the run in {out} was begun on Saccade's own trainer. Continue it without --on {trainer}, or name another "
            "folder."
        )
    raise SettingsError(f"the run in {out} was begun on {begun}. Add --on {begun}, or name another folder.")


SourceNames = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
"""One source as a text, or several."""


class TaskSettings(Settings):
    """Where training tasks come from, how many are taken, and what share of them may be broken."""

    source: SourceNames = ()
    """Worlds, benchmarks, files, folders, each with a weight or none (`maze=0.3`), as `saccade.tasks.sources.settings`
    says. Empty: the `[[source]]` tables of the recipe."""
    most: PositiveInt | None = None
    """Tasks of each source that says nothing else, drawn by its seed; None: all, and of a world, which has no end,
    `WORLD_TASKS`."""
    most_broken: Share = MOST_BROKEN
    """Share of the tasks that are left out where they cannot be made, as of a broken picture; more end the run."""


class RlValidationSettings(Settings):
    """Validation: answers to tasks that are not trained on."""

    source: SourceNames = ()
    """As `tasks.source`; empty: the validation splits of the worlds that are trained on, if there are any."""
    tasks: PositiveInt = 32
    samples: PositiveInt = 1
    """Of each task; with several `validation/pass_at_k` is the share of tasks with a right one."""
    temperature: NonNegativeFloat = 0.0
    """0: greedy. Several samples need more."""
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set, such as `turns`, count in place of the rollouts'."""
    grader: str = ""
    """One grader for all of them; empty: each task's own, as its source has it."""
    every: NonNegativeInt = 20
    """Steps; 0 for never. The last step always counts."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.samples > 1 and not self.temperature:
            raise ValueError("several samples of a task are alike at temperature 0: set validation.temperature")
        return self


class RolloutStoreSettings(Settings):
    """Which rollouts are kept in OUT/rollouts."""

    every: NonNegativeInt = 10
    """Steps between those whose rollouts are kept; 0 for none."""


class RlSettings(Settings):
    """The settings of `saccade rl`."""

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
    """Engine that samples the rollouts."""
    judge: JudgeServerSettings = JudgeServerSettings()
    """Server that the run starts for models that judge."""
    retry: RetryPolicy = ENGINE_RETRY
    """How often a request to a server that samples is tried, and for how long; those to a judge are `reward.retry`."""
    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions in place of the dialect's."""
    sandbox: str = "local"
    """`local`, or addresses of `saccade sandbox serve` with commas between them."""
    threads: NonNegativeInt = 1
    """Threads of torch on a CPU; 0: one for each core. Sandboxes need cores too."""
    trainer: NamedTrainer = OwnTrainer()
    """Trainer (`--on NAME`) and its settings."""

    @property
    def sources(self) -> tuple[str | SourceSettings, ...]:
        """The sources of tasks: the run's, else the recipe's."""
        return self.tasks.source or self.recipe.source

    def __reduce__(self) -> tuple[Callable[[dict[str, object]], RlSettings], tuple[dict[str, object]]]:
        """Pickle as plain data: another process loads rules of the user's own by their names, as this one did."""
        return RlSettings.model_validate, (self.model_dump(),)


def load_rl_settings(
    name_or_path: str | os.PathLike[str],
    profile: str | None = None,
    overrides: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
) -> RlSettings:
    """Load a recipe, by name or path, with its profile, then `given` and overrides `a.b=value` of it and of the run.

    Raises `SettingsError`: names every mistake; `RegistryError`: the recipe names a dialect or reward that does not
    exist.
    """
    own = [item for item in overrides if item.partition("=")[0].split(".")[0].strip() in _MACHINE]
    of_run = {name: value for name, value in (given or {}).items() if name in _MACHINE}
    of_recipe = {name: value for name, value in (given or {}).items() if name not in _MACHINE}
    recipe = load_recipe(name_or_path, profile, [item for item in overrides if item not in own], of_recipe)
    if unknown := recipe.machine.keys() - _MACHINE:
        raise SettingsError(f"machine.{min(unknown)} of {name_or_path} is no setting of the run; known: {_known()}")
    machine = dict(recipe.machine)
    for table in ("engine", "judge"):
        if (own_table := getattr(recipe, table)) is not None:
            machine[table] = own_table.model_dump(mode="json")
    settings = load_settings(_Machine, None, own, merged(machine, of_run))
    recipe = recipe.model_copy(update={"engine": None, "judge": None, "machine": {}})
    return RlSettings(recipe=recipe, **{name: getattr(settings, name) for name in _MACHINE})


def _known() -> str:
    return ", ".join(sorted(_MACHINE))


class _Machine(RlSettings):
    """The same without a recipe."""

    recipe: Recipe | None = None  # type: ignore[assignment]


MAY_DIFFER = (
    *RETRY_SETTINGS,
    *(f"recipe.reward.{name}" for name in RETRY_SETTINGS),
    *(f"recipe.reward.judge_rules.{name}" for name in ASK_LIMITS),
    "sandbox",
    "tasks.most_broken",
    *(f"engine.{name}" for name in ("gpus", "shared", "memory", "weights", "program", "ready_seconds")),
    *(f"judge.{name}" for name in JudgeServerSettings.model_fields),
)
"""Settings that a run may be resumed with in place of its own: they decide nothing of what is trained."""
MAY_GROW: Final = {"recipe.steps": "It ends as if it had been begun with them."}
"""Those that may be larger than they were, and what follows."""
MAY_CHANGE: Final = {"engine.source": "Turns are sampled there from here on, and tokens may be others than before."}
"""Those that may be others, and what follows."""
_MACHINE = frozenset(RlSettings.model_fields) - {"recipe"}


def check_machine(settings: RlSettings) -> None:
    """Raise `SettingsError` without a checkpoint, or for impossible settings of the engine."""
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model")
    check_engine(settings.engine)
    if settings.engine.source != LOCAL and (why := unserved(settings.recipe)):
        raise SettingsError(f"recipe.dialect: {why}, or leave --engine out")


def unserved(recipe: Recipe) -> str:
    """Say why no server can sample episodes of this recipe, and what to do; empty where one can."""
    dialect = load_dialect(recipe.dialect)
    if not dialect.shows_videos:
        return ""
    return (
        f"{dialect.id} shows videos as such, and a server cannot be given their frames: it would choose others than "
        "training sees. Take a dialect that shows frames as pictures (direct)"
    )


def check_settings(settings: RlSettings) -> None:
    """Raise `SettingsError` for missing or impossible settings, `RegistryError` for an unknown grader."""
    check_machine(settings)
    if not settings.sources:
        raise SettingsError("no tasks are named: give a world, a benchmark, a file or a folder with --tasks")
    trained, watched = settings.recipe.limits.context_tokens, settings.validation.limits.context_tokens
    if trained is not None and watched is not None and watched > trained:
        raise SettingsError(
            f"validation.limits.context_tokens = {watched} is more than the {trained} of a rollout, for which engines "
            "and memory are planned. Lower it, or raise rollout.limits.context_tokens too."
        )
    if settings.validation.grader:
        load_grader(settings.validation.grader)
