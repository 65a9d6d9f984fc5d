"""What an episode follows: the task, how the model is spoken to, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from saccade.dialects.base import Dialect, Opening
from saccade.episode.shown import ShownAs, as_shown
from saccade.models.base import ToolSpec
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, Sampling


@dataclass(frozen=True)
class Plan:
    """One episode to be played; playing it changes nothing in it."""

    task: Task
    dialect: Dialect
    sampling: Sampling = field(default_factory=Sampling)
    given_limits: EpisodeLimits | None = None
    """None: those of the dialect."""
    group: str = ""
    """Rollouts of one task that are compared with each other share it."""
    rollout: int = 0
    """Number of this rollout in its group."""
    settings: str = ""
    """The resolved settings of the command, for the record."""
    shown: Mapping[str, ShownAs] = field(default_factory=dict)
    """Pictures that the first messages show otherwise than they are, by sha256; code and tools have the pictures."""
    notes: tuple[str, ...] = ()
    """What was done to media and limits beforehand, for a person."""
    opened: Opening | None = field(default=None, compare=False, repr=False)
    """What `dialect.open(task)` gave, where it was asked already."""

    @property
    def limits(self) -> EpisodeLimits:
        """The limits that hold."""
        return self.dialect.limits if self.given_limits is None else self.given_limits

    @cached_property
    def opening(self) -> Opening:
        """How the episode begins. Raises `SettingsError` for a task that the dialect cannot show."""
        return as_shown(self.opened or self.dialect.open(self.task), self.shown)

    @cached_property
    def functions(self) -> tuple[ToolSpec, ...]:
        """What the model may call through its API's own function calling."""
        return self.dialect.functions

    @cached_property
    def hosted(self) -> bool:
        """Whether the provider of the model runs its code."""
        return self.dialect.provider_runs

    @property
    def id(self) -> str:
        """Names the trajectory: the task and the number of the rollout."""
        return f"{self.task.id}#{self.rollout}"


@lru_cache(maxsize=256)  # a server of agents asks the same at every request
def limits_with(limits: EpisodeLimits, **overrides: float | None) -> EpisodeLimits:
    """`limits` with those of `given` that are not None in place of its own."""
    return EpisodeLimits.model_validate(
        {**limits.model_dump(), **{name: value for name, value in overrides.items() if value is not None}}
    )
