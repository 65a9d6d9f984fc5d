"""The settings of `saccade synth`: everything that decides which trajectories a run holds."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from saccade.episode.session_limits import SessionLimits
from saccade.models.retry import DEFAULT_RETRY, RetryPolicy
from saccade.record.settings import Settings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sft.experts.settings import ExpertSettings

SynthRecipe = Literal["solve", "densify", "codify"]


class TeacherSettings(Settings):
    """Models that solve the tasks in place of experts."""

    model: str = ""
    """As `saccade ask --model` takes it; empty: experts."""
    recipe: SynthRecipe = "solve"
    """`solve`: the teacher plays the dialect (PyVision-RL). `densify`: then a writer rewrites its thoughts (VISTA).
    `codify`: the teacher reasons in text, and a writer turns its calculations into code, which is run (CodeDance)."""
    writer: str = ""
    """The second model of `densify` and `codify`; empty: the teacher itself."""
    sampling: Sampling = Sampling()
    writer_sampling: Sampling = Sampling()
    tries: int = Field(2, ge=1, le=10)
    """How often a writer is asked before its output counts as invalid."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.model and (self.writer or self.recipe != "solve"):
            raise ValueError("a recipe or a writer needs a teacher: name one with --teacher")
        if self.writer and self.recipe == "solve":
            raise ValueError("recipe `solve` has no writer: choose recipe densify or codify, or leave the writer out")
        return self


class SynthSettings(Settings):
    """One run of synthesis."""

    worlds: tuple[str, ...] = Field(min_length=1)
    """Names of worlds, with or without version."""
    dialect: str
    n: int = Field(100, ge=1)
    """Tasks of each world. A run may be continued with a larger number."""
    split: Literal["train", "validation", "test"] = "train"
    start: int = Field(0, ge=0)
    """Index of the first task."""
    samples: int = Field(1, ge=1)
    """Trajectories of each task."""
    seed: int = 0
    """Of the experts' choices; the tasks do not depend on it."""
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """World without its version -> knob -> value."""
    expert: ExpertSettings = ExpertSettings()
    teacher: TeacherSettings = TeacherSettings()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, for dialects that know them; none: see `saccade.episode.equip`."""
    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions in place of the dialect's."""
    sandbox: str = "local"
    """`local`, or the address of a `saccade sandbox serve`."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a teacher or writer is tried, and for how long."""
