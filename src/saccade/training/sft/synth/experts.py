"""Experts: programs that play a task without a teacher, found by name.

    EXPERT = ExpertFactory(description="Knows world red-patch.", settings=PatchExpertSettings, make=make_expert)

A package registers one by an entry point of the group `saccade.experts`. Named as a world is (`red-patch`), it plays
the tasks of that world; all others are played by `general`, which runs the program that comes with every generated
task. `saccade synth --expert NAME` names one for all worlds, also of the user's code (`my_expert.py:EXPERT`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from saccade.core.registry import Registry, is_a
from saccade.core.settings import Settings, load_settings
from saccade.dialects.base import Dialect
from saccade.dialects.thyme import ThymeDialect
from saccade.episode.flow import Plan
from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Completion, Model
from saccade.record.content import Action, Code, ToolCall
from saccade.record.trajectory import FinishReason

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
    "experts", {}, is_a(ExpertFactory, "a saccade.training.sft.synth.experts.ExpertFactory")
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
