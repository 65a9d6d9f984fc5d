"""What a dialect is: how a family of checkpoints was trained to speak, in both directions.

A dialect holds no state and does no IO. It shows a task, reads what the model wrote, and writes what came back;
training, evaluation and `saccade ask` use the same object, so they cannot drift apart. `parse` is total: any text gives
an action, if need be a `ParseError` whose reason the model may read. Nothing here evaluates model text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeGuard, runtime_checkable

from saccade.models.base import ToolSpec
from saccade.record.action import Action, ToolCall
from saccade.record.content import ImagePart, Message
from saccade.record.execution import Execution
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits
from saccade.record.turn import FinishReason
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.limits import Limits


@dataclass(frozen=True, slots=True)
class Opening:
    """How an episode begins: what the model sees, and what its code finds."""

    messages: tuple[Message, ...]
    bindings: Mapping[str, str]
    """Variable in the sandbox -> name of the task's media bound to it."""
    files: Mapping[str, str]
    """Path in the workspace -> name of the task's media that lies there, in its own encoding."""
    pictures: int
    """Pictures shown so far; the next one shown gets this number."""
    strings: Mapping[str, str] = field(default_factory=dict)
    """Variable in the sandbox -> text bound to it, e.g. the path of one of `files`."""
    label: str = "image_"
    """Stem of the names under which typed tools find pictures: the n-th picture shown, from 0, is label + n."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back, as the model reads it."""

    message: Message
    bindings: Mapping[str, ImagePart]
    """Variables that the shown pictures are bound to from the next call on, where the dialect does that."""
    pictures: int
    """Pictures shown so far, these included."""


@runtime_checkable
class FunctionDialect(Protocol):
    """A dialect that speaks through an API's own function calling."""

    @property
    def functions(self) -> tuple[ToolSpec, ...]:
        """What the model may call."""

    def transcribe(self, text: str, calls: Sequence[ToolCall]) -> str:
        """The canonical text of a turn in which the model wrote `text` and made `calls`; `parse` reads it."""


@runtime_checkable
class ToolDialect(Protocol):
    """A dialect that offers typed tools by name."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that it offers."""

    def with_tools(self, tools: tuple[ToolSpec, ...]) -> Self:
        """The same dialect, offering `tools`."""


@runtime_checkable
class HostedCodeDialect(Protocol):
    """A dialect in which the provider of the model runs its code, in a sandbox of its own."""

    @property
    def provider_runs(self) -> bool:
        """Always true."""


@runtime_checkable
class ShapedDialect(Protocol):
    """A dialect that reads typed calls in several shapes."""

    def call_shape(self, text: str) -> str:
        """The shape in which the call was written that `parse` reads from `text`; empty if it holds none."""


@runtime_checkable
class VideoDialect(Protocol):
    """A dialect whose messages can hold videos as such; others name frames of them, or have code open the files."""

    @property
    def shows_videos(self) -> bool:
        """Whether it does."""


def shows_videos(dialect: object) -> bool:
    """Whether videos of a task stand in the dialect's messages as such."""
    return isinstance(dialect, VideoDialect) and dialect.shows_videos


# For the way of every turn: `isinstance` with such a protocol takes many times as long.
def calls_functions(dialect: object) -> TypeGuard[FunctionDialect]:
    """Whether it is a `FunctionDialect`."""
    return hasattr(dialect, "functions") and hasattr(dialect, "transcribe")


def offers_tools(dialect: object) -> TypeGuard[ToolDialect]:
    """Whether it is a `ToolDialect`."""
    return hasattr(dialect, "tools") and hasattr(dialect, "with_tools")


def is_hosted(dialect: object) -> TypeGuard[HostedCodeDialect]:
    """Whether it is a `HostedCodeDialect`."""
    return hasattr(dialect, "provider_runs")


class Dialect(Protocol):
    """One way of speaking. Ids are versioned: `pyvision@1`."""

    @property
    def id(self) -> str:
        """`name@version`, with `:preset` where the family has presets."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings at which the model must be stopped; they belong to the text."""

    @property
    def session(self) -> SessionOptions:
        """State policy, repairs and preloaded names of the sandbox."""

    @property
    def sandbox(self) -> Limits:
        """Limits of a call."""

    @property
    def limits(self) -> EpisodeLimits:
        """Limits of an episode that the dialect's checkpoints were trained with."""

    def open(self, task: Task) -> Opening:
        """The first messages for `task`. Never shows its gold answer or evidence."""

    def parse(self, text: str, finish: FinishReason) -> Action:
        """What the model asks for. Code that was cut off by the token limit is not code."""

    def write(self, action: Action, thought: str = "") -> str:
        """The canonical text of a turn that thinks `thought` and does `action`; `parse` gives `action` back.

        Raises ValueError for an action that cannot be said in this dialect.
        """

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """What the model is shown of an execution, after `pictures` pictures so far."""

    def correct(self, reason: str, pictures: int) -> Observation | None:
        """What the model is told when its text held no action; None if the episode ends there."""

    def ask_for_answer(self) -> Message | None:
        """A last request for the answer when a limit is reached; None if the dialect has none."""
