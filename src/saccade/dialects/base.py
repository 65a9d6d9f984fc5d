"""Define a dialect: how a family of checkpoints was trained to speak, in both directions.

A dialect holds no state and does no IO. It shows a task, reads what the model wrote, and writes what came back;
training, evaluation and `saccade ask` use the same object, so they cannot drift apart. `parse` is total: any text gives
an action, if need be a `ParseError` whose reason the model may read. Nothing here evaluates model text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

from saccade.dialects.faults import Fault
from saccade.dialects.prompt_texts import NO_PROMPTS, Prompts
from saccade.errors import SettingsError
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


class Dialect(ABC):
    """One way of speaking, usually a frozen dataclass whose fields are the first five attributes and `prompts`.

    What only some dialects can do has a default here that says so: a dialect that can overrides it.
    """

    id: str
    """`name@version`, with `:preset` where the family has presets: `pyvision@1`."""
    stop: tuple[str, ...]
    """Strings at which the model must be stopped; they belong to the text."""
    session: SessionOptions
    """State policy, repairs and preloaded names of the sandbox."""
    sandbox: Limits
    """Limits of a call."""
    limits: EpisodeLimits
    """Limits of an episode that the dialect's checkpoints were trained with."""

    prompts: Prompts = NO_PROMPTS
    """The texts that a user may replace; without any of its own, the dialect takes none."""
    offers_tools: ClassVar[bool] = False
    """Whether typed tools can be offered by name."""
    tools: tuple[ToolSpec, ...] = ()
    """The typed tools that are offered."""
    shows_videos: bool = False
    """Whether messages hold videos as such; others name frames of them, or have code open the files."""
    provider_runs: ClassVar[bool] = False
    """Whether the provider of the model runs its code, in the provider's own sandbox."""

    @property
    def functions(self) -> tuple[ToolSpec, ...]:
        """Functions that the model calls through its API's own function calling; empty for a dialect of text."""
        return ()

    @abstractmethod
    def open(self, task: Task) -> Opening:
        """Write the first messages for `task`. Never shows its gold answer or evidence."""

    @abstractmethod
    def parse(self, text: str, finish: FinishReason) -> Action:
        """Read what the model asks for. Code that was cut off by the token limit is not code."""

    @abstractmethod
    def write(self, action: Action, thought: str = "") -> str:
        """Write the canonical text of a turn that thinks `thought` and does `action`; `parse` gives `action` back.

        Raises ValueError for an action that cannot be said in this dialect.
        """

    @abstractmethod
    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Write what the model is shown of an execution, after `pictures` pictures so far."""

    def correct(self, reason: str, pictures: int) -> Observation | None:
        """Write what the model is told when its text held no action; None if the episode ends there."""
        return None

    def ask_for_answer(self) -> Message | None:
        """Write a last request for the answer when a limit is reached; None if the dialect has none."""
        return None

    def transcribe(self, text: str, calls: Sequence[ToolCall]) -> str:
        """Return the text that `parse` reads of a turn in which the model wrote `text` and called functions."""
        return text

    def call_shape(self, text: str) -> str:
        """Return the shape in which the typed call was written that `parse` reads from `text`; empty for only one."""
        return ""

    def faults(self, text: str, finish: FinishReason = FinishReason.STOP) -> tuple[Fault, ...] | None:
        """List all that is wrong with the form of a turn; None for a dialect that knows no such list."""
        return None

    def with_prompts(self, prompts: Prompts) -> Self:
        """Return the same dialect with the texts of `prompts` in place of its own.

        Raises:
            SettingsError: it has none.
            PromptFileError: as `Prompts.replaced_by`.
        """
        if not self.prompts.templates:
            raise SettingsError(f"dialect {self.id} has no prompt that a file could replace. Leave it out.")
        return self._with(prompts=self.prompts.replaced_by(prompts))

    def with_text(self, name: str, text: str) -> Self:
        """Return the same dialect with `text` in the place `name` of its prompts."""
        return self._with(prompts=Prompts({**self.prompts.templates, name: text}, self.prompts.source))

    def with_tools(self, tools: tuple[ToolSpec, ...]) -> Self:
        """Return the same dialect, offering `tools`. Raises `SettingsError` if it offers none."""
        if not self.offers_tools:
            raise SettingsError(
                f"dialect {self.id} offers no typed tools. Leave them out, or use vista, deepeyes or native."
            )
        return self._with(tools=tools)

    def _with(self, **fields: object) -> Self:
        changed: Any = self
        return cast(Self, replace(changed, **fields))
