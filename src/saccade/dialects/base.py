"""Define a dialect: how a family of checkpoints was trained to speak, in both directions.

A dialect holds no state and does no IO. It shows a task, reads what the model wrote, and writes what came back;
training, evaluation and `saccade ask` use the same object, so they cannot drift apart. `parse` is total: any text gives
an action, if need be a `ParseError` whose reason the model may read. Nothing here evaluates model text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, Self, cast

from saccade.core.registry import PresetRegistry, all_of, has_members, is_a
from saccade.core.seam import has_methods, seam
from saccade.dialects.boxes import SENTENCES, BoxSpace
from saccade.dialects.prompt_texts import LAST, NO_PROMPTS, SYSTEM, Prompts
from saccade.dialects.question import split_at_media
from saccade.errors import RegistryError, SettingsError
from saccade.models.base import ToolSpec
from saccade.record.content import (
    Action,
    Answer,
    Code,
    ImagePart,
    MediaPart,
    Message,
    ParseError,
    Part,
    TextPart,
    ToolCall,
)
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions

ToolList = Literal["", "short", "schema"]
"""Form in which a prompt lists the tools; empty: as the dialect, or a prompt file, has it."""

# What can be wrong with the form of a turn, as a type: the schema errors (E1) of VISTA's taxonomy.
#
# A fault tells what is wrong with tags and JSON. Whether a tool exists, and whether its arguments fit, is not looked
# at. `find_tag_faults` only reads; which faults stop a turn is decided by each dialect.


class FaultKind(StrEnum):
    """Every way in which the form of a turn can be wrong."""

    UNCLOSED_TAG = "unclosed_tag"
    UNOPENED_TAG = "unopened_tag"
    NESTED_TAG = "nested_tag"
    CLOSED_BY_OPENING_TAG = "closed_by_opening_tag"
    """A block ends with `<tag>` where `</tag>` is meant."""
    TRUNCATED = "truncated"
    """The token limit came in the middle of an action."""
    NO_ACTION = "no_action"
    CALL_AND_ANSWER = "call_and_answer"
    """A tool call and an answer in one turn."""
    SEVERAL_CALLS = "several_calls"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    NO_TOOL_NAME = "no_tool_name"
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments are no JSON object."""
    OTHER_SHAPE = "other_shape"
    """A call of a shape that is known, but not allowed here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and a sentence about it that the model may read."""

    kind: FaultKind
    reason: str
    error: ClassVar[str] = "E1"
    """Its class in VISTA's taxonomy of errors."""


def ends_inside(text: str, tags: Iterable[str]) -> str | None:
    """Return the tag of a block that `text` ends in, for a text that the token limit cut; None if it ends in none."""
    return next((tag for tag in tags if text.rfind(f"<{tag}>") > text.rfind(f"</{tag}>")), None)


def find_tag_faults(text: str, tags: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults in pairing and nesting of `<tag>`...`</tag>` for the named `tags`, in the order of the text."""
    faults: list[Fault] = []
    inside: str | None = None
    for match in re.finditer(rf"<(/?)({'|'.join(map(re.escape, tags))})>", text):
        closing, tag = match[1] == "/", match[2]
        if closing and tag == inside:
            inside = None
        elif closing:
            reason = f"</{tag}> closes a block that is not open."
            faults.append(Fault(FaultKind.UNOPENED_TAG, reason))
        elif inside is None:
            inside = tag
        elif tag == inside:
            reason = f"<{tag}> comes twice; a block that it opened is closed with </{tag}>."
            faults.append(Fault(FaultKind.CLOSED_BY_OPENING_TAG, reason))
            inside = None
        else:
            reason = f"<{tag}> lies inside <{inside}>; close </{inside}> first."
            faults.append(Fault(FaultKind.NESTED_TAG, reason))
    if inside is not None:
        faults.append(Fault(FaultKind.UNCLOSED_TAG, f"<{inside}> is never closed with </{inside}>."))
    return tuple(faults)


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


@dataclass(frozen=True, slots=True)
class LeftInText:
    """A call that was to come apart from the text, and stands in it."""

    note: str
    """For a person: how it was read, and what makes the server take it out."""
    several: bool
    """Whether there are more than the one that is made."""


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
    boxes: BoxSpace = BoxSpace.FULL
    """What the numbers of boxes in typed calls count. Of a dialect of code: `SHOWN` gives its code the pictures as they
    are shown, so that there too both are the same."""
    shows_videos: bool = False
    """Whether messages hold videos as such; others name frames of them, or have code open the files."""
    provider_runs: ClassVar[bool] = False
    """Whether the provider of the model runs its code, in the provider's own sandbox."""

    @property
    def functions(self) -> tuple[ToolSpec, ...]:
        """Functions that the model calls through its API's own function calling; empty for a dialect of text."""
        return ()

    @property
    def code_sees_shown(self) -> bool:
        """Whether code finds the pictures as they are shown, and not at full size."""
        return self.boxes is BoxSpace.SHOWN and not self.offers_tools

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
        """Write the text `last` of the prompts, a request for the answer when a limit is reached; None without one."""
        if LAST not in self.prompts.templates:
            return None
        return Message(role="user", parts=(TextPart(text=self.prompts.fill(LAST)),))

    def transcribe(self, text: str, calls: Sequence[ToolCall]) -> str:
        """Return the text that `parse` reads of a turn in which the model wrote `text` and called functions."""
        return text

    def left_in_text(self, text: str) -> LeftInText | None:
        """Return what there is to say of a call that the model's server left in `text`; None if it left none."""
        return None

    def call_shape(self, text: str) -> str:
        """Return the shape in which the typed call was written that `parse` reads from `text`; empty for only one."""
        return ""

    def faults(self, text: str, finish: FinishReason = FinishReason.STOP) -> tuple[Fault, ...] | None:
        """List all that is wrong with the form of a turn; None for a dialect that knows no such list."""
        return None

    def with_prompts(self, prompts: Prompts) -> Self:
        """Return the same dialect with the texts of `prompts` in place of its own. Raises `SettingsError` if it has
        none, `PromptFileError` as `Prompts.replaced_by`.
        """
        if not self.prompts.templates:
            raise SettingsError(f"dialect {self.id} has no prompt that a file could replace. Leave it out.")
        return self._with(prompts=self.prompts.replaced_by(prompts))

    def with_text(self, name: str, text: str) -> Self:
        """Return the same dialect with `text` in the place `name` of its prompts."""
        return self._with(prompts=Prompts({**self.prompts.templates, name: text}, self.prompts.source))

    def with_boxes(self, boxes: BoxSpace) -> Self:
        """Return the same dialect for a model whose boxes count that; its own system message says so. Raises
        `SettingsError` if it cannot be told so.
        """
        if "boxes" not in getattr(self, "__dataclass_fields__", {}):
            raise SettingsError(f"dialect {self.id} fixes what boxes count ({self.boxes}). Leave boxes out.")
        if boxes is BoxSpace.THOUSAND and not self.offers_tools:
            raise SettingsError(
                f"dialect {self.id} has code and no typed calls, and what numbers in code count is the code's own. "
                "Use boxes=full or boxes=shown."
            )
        changed = self._with(boxes=boxes)
        if boxes is self.boxes or not self.offers_tools or not self.prompts.templates.get(SYSTEM):
            return changed
        return changed.with_text(SYSTEM, f"{self.prompts.templates[SYSTEM].rstrip()}\n{SENTENCES[boxes]}\n")

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


def parsed(dialect: Dialect, text: str, finish: FinishReason) -> Action:
    """Return what `dialect.parse` reads. Raises `OwnCodeError` where a dialect of a user's own gives no action."""
    return seam(dialect.parse, Code, ToolCall, Answer, ParseError)(text, finish)


def opened(dialect: Dialect, task: Task) -> Opening:
    """Return what `dialect.open` writes. Raises `OwnCodeError` where a dialect of a user's own gives something else."""
    return seam(dialect.open, Opening)(task)


# How questions, pictures and observations are in the parts of a message, for dialects without numbered tags.


def system_message(prompts: Prompts, tools: str = "") -> tuple[Message, ...]:
    """Return the system message with the list of `tools` in it; none where its text is empty."""
    text = prompts.fill(SYSTEM, {"tools": tools}) if SYSTEM in prompts.templates else ""
    return (Message(role="system", parts=(TextPart(text=text),)),) if text else ()


def question_parts(text: str, media: Sequence[MediaPart], label: str = "") -> tuple[Part, ...]:
    """Put media without a placeholder in `text` first, each with a line break after it; the others where theirs stand.

    With a `label` such as `image_` its number and a colon come before each.
    """
    pieces = split_at_media(text, media)
    placed = {piece for piece in pieces if isinstance(piece, int)}
    parts: list[Part] = []
    for index, part in enumerate(media):
        if index not in placed:
            parts += [*_label(label, index), part, TextPart(text="\n")]
    for piece in pieces:
        parts += [TextPart(text=piece)] if isinstance(piece, str) else [*_label(label, piece), media[piece]]
    return join_texts(parts)


def labelled(pictures: Sequence[ImagePart], label: str, first: int) -> tuple[Part, ...]:
    """Return a line for each picture: its label and number (`image_3: `), counted from `first`, and the picture."""
    parts: list[Part] = []
    for number, picture in enumerate(pictures, first):
        parts += [*_label(label, number), picture, TextPart(text="\n")]
    return tuple(parts)


def join_texts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return `parts` with texts that follow each other joined and empty ones left out."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(text=last.text + part.text)
        elif not isinstance(part, TextPart) or part.text:
            joined.append(part)
    return tuple(joined)


def _label(label: str, number: int) -> tuple[Part, ...]:
    return (TextPart(text=f"{label}{number}: "),) if label else ()


# What dialects read from an execution: the pictures they show, and why a call failed.
#
# A lost execution is an outage of ours; no dialect may show it, and `reject_lost` holds that line.


_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.DOTALL)
_TIMEOUT = "TimeoutError"


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Why a call did not end well."""

    kind: str
    """Class of the exception, e.g. `ValueError`; for a call that was ended from outside, the name of such a class."""
    message: str
    """What the exception says, as `str` gives it; the class where it says nothing. Never empty."""


def reject_lost(execution: Execution) -> None:
    """Raise ValueError for a lost execution."""
    if execution.status is Status.LOST:
        raise ValueError("a lost execution is an outage of ours and is never shown to a model: end the episode instead")


def shown(execution: Execution, sources: Collection[str]) -> tuple[ImagePart, ...]:
    """Return the pictures that came from one of `sources`, in the order in which they were shown."""
    return tuple(picture.image for picture in execution.pictures if picture.source in sources)


def with_notes(text: str, execution: Execution) -> str:
    """Return `text` and, on lines of their own, what the sandbox says was cut or dropped."""
    if not execution.notes:
        return text
    return "\n".join([*([text.removesuffix("\n")] if text else []), *execution.notes]) + "\n"


def failure(execution: Execution) -> CallFailure:
    """Return the failure of an execution whose status is not ok."""
    reason = (execution.traceback or "").strip("\n")
    if execution.status is not Status.ERROR:
        kind = {Status.TIMEOUT: _TIMEOUT, Status.OUT_OF_MEMORY: "MemoryError"}.get(execution.status, "RuntimeError")
        return CallFailure(kind, reason or f"the call ended as {execution.status.value}")
    match = _EXCEPTION.fullmatch(_last_exception(reason))
    if match is None:
        return CallFailure("Exception", reason or "the code failed")
    return CallFailure(match["name"].rpartition(".")[2], match["message"] or match["name"])


def _last_exception(traceback: str) -> str:
    """Find the last exception of a traceback: its first line after the last frame, and all that follows."""
    lines = traceback.split("\n")
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    start = frames[-1] + 1 if frames else 0
    while start < len(lines) and (lines[start].startswith((" ", "Traceback ")) or not lines[start]):
        start += 1
    return "\n".join(lines[start:])


# The dialects by id: `name`, `name@version` or either with `:preset`, as in `pyvision-rl-image@1:repo`. An entry's
# target maps preset names to ready dialects, as `PresetRegistry` says. Presets exist where a paper and its released
# code differ. Further packages add entries by the entry point group `saccade.dialects`. Nothing is imported before it
# is asked for.


DIALECTS: Final = PresetRegistry[Dialect](
    "dialects",
    {
        "pyvision@1": "saccade.dialects.pyvision:PRESETS",
        "pyvision-rl-image@1": "saccade.dialects.pyvision_rl:IMAGE",
        "pyvision-rl-image-no-hint@1": "saccade.dialects.pyvision_rl:IMAGE_NO_HINT",
        "pyvision-rl-video@1": "saccade.dialects.pyvision_rl:VIDEO_PRESETS",
        "codedance@1": "saccade.dialects.codedance:PRESETS",
        "codev@1": "saccade.dialects.codev:PRESETS",
        "thyme@1": "saccade.dialects.thyme:PRESETS",
        "deepeyes@1": "saccade.dialects.deepeyes:PRESETS",
        "vista@1": "saccade.dialects.vista:PRESETS",
        "native@1": "saccade.dialects.native:PRESETS",
        "direct@1": "saccade.dialects.direct:PRESETS",
        "hosted@1": "saccade.dialects.direct:HOSTED_PRESETS",
    },
    all_of(
        has_members(("id", "stop", "session", "sandbox", "limits")),
        is_a(Dialect, "an object of a subclass of saccade.dialects.base.Dialect"),
        has_methods(Dialect),
    ),
)

_named: dict[str, Dialect] = {}


def load_dialect(name: str) -> Dialect:
    """Return the dialect that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that id or preset (suggests the nearest), it cannot be imported, it is no
    dialect, or a dialect of the user's own has an id that is taken.
    """
    dialect = DIALECTS.load(name)
    if DIALECTS.code(name) is not None:
        if DIALECTS.has(dialect.id.partition(":")[0]):
            raise RegistryError(f"{name} has the id {dialect.id}, which is another dialect's. Give it one of its own.")
        _rehearse(dialect)
        _named[dialect.id] = dialect
    return dialect


def _rehearse(dialect: Dialect) -> None:
    """Have a dialect of a user's own read and write once, so that what is wrong with it shows before an episode."""
    for text in ("", "The answer is 1."):
        parsed(dialect, text, FinishReason.STOP)
    with suppress(ValueError):  # it has nothing to observe
        seam(dialect.observe, Observation)(Execution(status=Status.OK), 1)
    seam(dialect.correct, Observation, type(None))("?", 1)
    seam(dialect.ask_for_answer, Message, type(None))()


def recorded_dialect(recorded: str) -> Dialect:
    """Return the dialect of the id that a stored record names.

    Of the user's own, one that this process has loaded before.

    Raises:
        RegistryError: there is none. A record runs no code, so a file that it names is not loaded.
    """
    return _named[recorded] if recorded in _named else DIALECTS.load_recorded(recorded)


def presets(name: str) -> tuple[str, ...]:
    """Return the names of the presets of a family, its default first; empty if it has none. Raises `RegistryError` if
    nothing has that id, or it cannot be imported.
    """
    return DIALECTS.presets(name)
