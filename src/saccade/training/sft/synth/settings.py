"""Define the settings of `saccade synth`, and experts: programs that play a task without a teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Self, TypeVar

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from saccade.core.registry import Registry, is_a
from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import Settings, load_settings
from saccade.dialects.base import Dialect
from saccade.dialects.thyme import ThymeDialect
from saccade.episode.flow import Plan
from saccade.episode.settings import SpeechSettings
from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Completion, Model
from saccade.record.content import Action, Code, ToolCall
from saccade.record.trajectory import EpisodeLimits, FinishReason, Sampling
from saccade.rewards.judges.prompt import ScoreRules
from saccade.tasks.sources.settings import MOST_BROKEN, Share
from saccade.training.sft.synth.prompts import TEXTS_OF, RecipeText

# A package registers an expert by an entry point of the group `saccade.experts`:
#     EXPERT = ExpertFactory(description="Knows world red-patch.", settings=PatchExpertSettings, make=make_expert)
# Named as a world is (`red-patch`), it plays the tasks of that world; all others are played by `general`, which runs
# the program that comes with every generated task. `saccade synth --expert NAME` names one for all worlds, also of the
# user's code (`my_expert.py:EXPERT`).


S = TypeVar("S", bound=Settings)
GENERAL: Final = "general"
NAME: Final = "name"
"""The key of the table `expert` that names the expert; every other one is a setting of it."""


class ExpertStopped(ModelRefusedError):  # noqa: N818 - it is no fault of a backend
    """An expert cannot continue with what came back; its trajectory is not used."""


class UnfitSampleError(SettingsError):
    """An expert has no way to play this task in this dialect, as its settings are."""


@dataclass(frozen=True, kw_only=True)
class ExpertFactory(Generic[S]):
    """Makes a model for every task."""

    description: str
    """One line for `saccade list experts`."""
    settings: type[S]
    """Settings for `--set expert.NAME=VALUE`."""
    make: Callable[[Plan, Mapping[str, str], S, int], Model]
    """Make the model that plays a plan, given the notes of the world's sample, the settings and a seed.

    Raises `UnfitSampleError` or `ExpertStopped` if there is nothing to show. The model raises `ExpertStopped` where
    what came back is not what it needs.
    """


EXPERTS: Final = Registry[ExpertFactory[Any]](
    "experts", {}, is_a(ExpertFactory, "a saccade.training.sft.synth.settings.ExpertFactory")
)


class ExpertChoice:
    """The experts of a run, each with its settings."""

    def __init__(self, worlds: Iterable[str], table: Mapping[str, Any]) -> None:
        """Load the experts.

        Args:
            worlds: ids of the worlds that are played, in the order of the sources.
            table: settings of the experts; `name` names one for all worlds.

        Raises:
            RegistryError: there is no such expert.
            UnavailableError: it is in a plug-in that is not installed.
            SettingsError: an expert has no such setting.
        """
        given = dict(table)
        name = given.pop(NAME, "")
        self._experts: list[tuple[ExpertFactory[Any], Settings]] = []
        for world in worlds:
            bare = world.partition("@")[0]
            factory = EXPERTS.load(name or (bare if EXPERTS.has(bare) else GENERAL))
            try:
                self._experts.append((factory, load_settings(factory.settings, given=given)))
            except SettingsError as error:
                raise SettingsError(f"in the table expert, {error}") from error

    def make(self, source: int, plan: Plan, notes: Mapping[str, str], seed: int) -> Model:
        """Make the model that plays a plan of the world with that number; raises as `ExpertFactory.make`."""
        factory, settings = self._experts[source]
        return factory.make(plan, notes, settings, seed)


def completion(dialect: Dialect, action: Action, thought: str, *, first: bool, model: str) -> Completion:
    """Write the turn that thinks `thought` and does `action`; `first` tells whether it is the episode's first.

    Raises `ValueError`: the dialect cannot say this.
    """
    if dialect.functions and isinstance(action, Code | ToolCall):
        call = ToolCall(name="python", arguments={"code": action.code}) if isinstance(action, Code) else action
        return Completion(thought, FinishReason.TOOL_CALL, (call,), model=model)
    # Only in Thyme's dialect a later turn continues a message that is open already.
    text = (
        dialect.write(action, thought, first=first)
        if isinstance(dialect, ThymeDialect)
        else dialect.write(action, thought)
    )
    ended = any(text.endswith(mark) for mark in dialect.stop)
    return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=model)


SynthRecipe = Literal["solve", "reason", "codify", "densify", "rewrite", "question"]
AtomicCategory = Literal["transform", "compute", "edit"]

_ALONE = ("solve", "reason", "question")
"""Recipes of one model."""


class TeacherSettings(Settings):
    """Models that solve the tasks in place of experts."""

    model: str = ""
    """As `saccade ask --model` takes it; empty: experts."""
    recipe: SynthRecipe = "solve"
    """`solve`: the teacher plays the dialect (PyVision-RL). `reason`: it reasons in words and answers at once.
    `codify`: it reasons in words, and a writer turns its calculations into code, which is run (CodeDance). `densify`:
    it plays, then a writer rewrites its thoughts (VISTA). `rewrite`: the same for the trajectories of stored runs;
    nothing is played. `question`: it makes questions about pictures; what comes out are tasks."""
    writer: str = ""
    """The second model of `densify` and `codify`; empty: the teacher itself."""
    prompt_files: dict[RecipeText, str] = Field(default_factory=dict)
    """Text of a recipe (`reason`, `codify`, `conclude`, `densify`, `question`) -> a file in its place; the form of the
    reply is added. `solve` asks in the dialect's prompt: `prompt_file`."""
    sampling: Sampling = Sampling()
    writer_sampling: Sampling = Sampling()
    tries: int = Field(2, ge=1, le=10)
    """How often a model is asked for text of a form before its output counts as invalid."""
    atomic: tuple[AtomicCategory, ...] = ()
    """Kinds of code that are asked for (CodeDance), in turn by the number of the sample: `transform` the picture,
    `compute`, `edit` (draw on it). A trajectory that holds no code of its kind is left out."""
    questions: int = Field(3, ge=1, le=20)
    """Most questions about a picture."""
    dollars: PositiveFloat | None = None
    """Most that teacher and writer may cost, from when the command starts. None: no limit."""
    expect_tokens: PositiveInt = 500
    """Length of a reply by which the price is estimated."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.model and (self.writer or self.recipe != "solve" or self.atomic or self.dollars):
            raise ValueError("a recipe, a writer, atomic or dollars needs a teacher: name one with --teacher")
        used = TEXTS_OF.get(self.recipe, ())
        if unused := [name for name in self.prompt_files if name not in used]:
            raise ValueError(
                f"recipe `{self.recipe}` has no text {', '.join(unused)} (prompt_files): it has "
                f"{', '.join(used) or 'none but those of the dialect (prompt_file)'}"
            )
        if self.writer and self.recipe in (*_ALONE, "rewrite"):
            raise ValueError(f"recipe `{self.recipe}` has no writer: choose densify or codify, or leave the writer out")
        if self.atomic and self.recipe not in ("solve", "codify", "densify"):
            raise ValueError(f"recipe `{self.recipe}` runs no code, so atomic would change nothing: leave it out")
        return self


class SynthSettings(SpeechSettings):
    """One run of synthesis."""

    sources: tuple[str, ...] = Field(min_length=1)
    """Worlds, and with a teacher any source; see `saccade.tasks.sources.settings`."""
    dialect: str = ""
    """How the turns are written; empty only for recipe `question`, which writes none."""
    n: int = Field(100, ge=1)
    """Tasks of each source; of sources with weights, of all together. A run may be continued with a larger number."""
    split: Literal["train", "validation", "test"] = "train"
    start: int = Field(0, ge=0)
    """Index of the first task."""
    samples: int = Field(1, ge=1)
    """Trajectories of each task."""
    keep: Literal["all", "right"] = "all"
    """`right`: trajectories with a wrong answer are left out, and not tried again."""
    judge: str = ""
    """A model that compares answers where only a model can; empty: the task's rule does."""
    judge_rules: ScoreRules = ScoreRules()
    """How it is asked, and its prompt."""
    seed: int = 0
    """Of the experts' choices; the tasks do not depend on it."""
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """World without its version -> knob -> value."""
    expert: dict[str, Any] = Field(default_factory=dict)
    """Settings of the experts, and the `name` of one for all worlds; see `saccade.training.sft.synth.settings`."""
    teacher: TeacherSettings = TeacherSettings()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    most_broken: Share = MOST_BROKEN
    """Share of the tasks that are left out where they cannot be made, as of a broken picture; more end the run."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a teacher or writer is tried, and for how long."""

    @model_validator(mode="after")
    def _speaks(self) -> Self:
        recipe = self.teacher.recipe
        if not self.judge and self.judge_rules != ScoreRules():
            raise ValueError("judge_rules are about a judge, and there is none: name one with judge=MODEL")
        if not self.dialect and recipe != "question":
            raise ValueError("dialect is missing: name one with --dialect")
        if recipe == "question" and (self.dialect or self.judge or self.keep != "all" or self.samples > 1):
            raise ValueError("recipe `question` plays nothing: leave out dialect, samples, keep and judge")
        return self
