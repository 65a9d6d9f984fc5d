"""The interface that every model backend has: messages in, a completion out.

Stop strings mean the same on all backends: text ends at the first of them, `Completion.text` holds it, and
`finish` is `STOP_STRING`. A backend whose API swallows the stop string puts it back; one that does not know stop
strings cuts the text itself. Text that ran into `max_tokens` has `finish` `LENGTH` and is never made to look complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from saccade.errors import SettingsError
from saccade.record.content import ImagePart, Message, ToolCall
from saccade.record.execution import HostedCall
from saccade.record.trajectory import FinishReason, Sampling


class MediaReader(Protocol):
    """Where a backend finds the bytes of the pictures and videos that messages name; a `MediaStore` is one."""

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError`."""


@runtime_checkable
class MediaKeeper(MediaReader, Protocol):
    """Where a backend also puts pictures that came back next to the text; a `MediaStore` is one."""

    def put_bytes(self, data: bytes) -> ImagePart:
        """Store an encoded picture as it is. Raises `MediaError` for what is none."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function that the model may call natively: name, what it does, JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model."""

    messages: tuple[Message, ...]
    """If the last is the assistant's, its continuation is asked for; a backend that cannot refuses."""
    stop: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    tools: tuple[ToolSpec, ...] = ()
    """For dialects that use an API's own function calling; empty for all others."""
    context_tokens: int | None = None
    """Most tokens of messages and answer together, for a backend that counts them before it writes; None: its own."""
    room: int | None = None
    """Tokens that the episode's limits leave for the answer, as far as earlier answers reported it; None: unknown."""
    hosted: bool = False
    """The provider's own sandbox is to run the model's code; a backend without one refuses. What it ran comes back in
    `Completion.hosted`, so the media that `complete` gets must be a `MediaKeeper`."""

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of the answer: of the sampling and of the room that is left; None for no limit."""
        known = [most for most in (self.sampling.max_tokens, self.room) if most is not None]
        return min(known, default=None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one completion; None where the backend does not say."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Part of `prompt_tokens` that was read from the provider's cache."""
    sampled_tokens: int | None = None
    dollars: float | None = None
    reasoning_tokens: int | None = None
    """Part of `sampled_tokens` that was a thought."""
    visual_tokens: int | None = None
    """Part of `prompt_tokens` that stands for pictures and videos."""


def added(one: Usage, other: Usage) -> Usage:
    """Return both together; None where one is not known."""

    def both(name: str) -> Any:
        values = getattr(one, name), getattr(other, name)
        return None if None in values else sum(values)

    return Usage(*(both(field.name) for field in fields(Usage)))


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote."""

    text: str
    """Exactly what was written, the stop string included."""
    finish: FinishReason
    tool_calls: tuple[ToolCall, ...] = ()
    """Native function calls, in order."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each of `token_ids`."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The name and revision that the backend gives itself."""
    hosted: tuple[HostedCall, ...] = ()
    """What the provider's sandbox ran, in order."""
    notes: tuple[str, ...] = ()
    """Where the server departed from its protocol, and how that was met; for the record."""


class Model(Protocol):
    """What continues a conversation: a hosted model, a local checkpoint, a script."""

    name: str
    """As it is recorded, e.g. `openai:gpt-4.1`."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's next message; `on_text` hears the text as it comes, piece by piece.

        Raises `ModelError`: `ContextLimitError` if the messages do not fit the model's context, any other
        `ModelRefusedError` for what no retry can cure (bad key, bad request, unknown model),
        `ModelLostError` when retries are used up (rate limit, server errors, broken connection, broken answers).
        """

    async def close(self) -> None:
        """Give back connections; idempotent."""


# Stop strings, read the same way for all backends: text ends with the stop string that is complete first; among those
# complete at the same character the longest counts. A stop string cut off by the token limit is no stop. A server that
# removes the stop string and names it gets it put back; if it names none, only closing tags are inferred (`unclosed`).


_CLOSING_TAG = re.compile(r"</([A-Za-z][\w.-]*)>")


def check_stops(stops: Iterable[str]) -> tuple[str, ...]:
    """Return `stops` without repetitions, in their order. Raises `SettingsError` if one of them is empty."""
    unique = tuple(dict.fromkeys(stops))
    if "" in unique:
        raise SettingsError("a stop string is empty, and every text would end at once; leave it out")
    return unique


def first_stop(text: str, stops: Iterable[str], start: int = 0) -> tuple[int, str] | None:
    """Find where `text` ends (characters, end of the stop string) and at which of `stops`; None if none is complete.

    Args:
        text: what was written.
        stops: the stop strings, none empty.
        start: no stop string that begins before this character is looked for.
    """
    ends = [(at + len(stop), stop) for stop in stops if (at := text.find(stop, start)) >= 0]
    return min(ends, key=lambda hit: (hit[0], -len(hit[1])), default=None)


class StopWatch:
    """Finds the end of a text that comes in pieces; says the same as `first_stop` on the whole text."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = check_stops(stops)
        self._reach = max(map(len, self._stops), default=0)
        self._text = ""
        self.stopped: str | None = None
        """The stop string that ended the text."""

    @property
    def text(self) -> str:
        return self._text

    def feed(self, piece: str) -> str:
        """Return the part of `piece` that belongs to the text; empty once the text has ended."""
        if self.stopped is not None:
            return ""
        before = len(self._text)
        text = self._text + piece
        hit = first_stop(text, self._stops, max(0, before - self._reach + 1))
        if hit is not None:
            end, self.stopped = hit
            text = text[:end]
        self._text = text
        return text[before:]


def unclosed(text: str, stops: Iterable[str]) -> str | None:
    """Return the one of `stops` that closes the tag opened last and still open in `text`; None if there is none."""
    open_tags: dict[str, int] = {}
    for stop in stops:
        tag = _CLOSING_TAG.fullmatch(stop)
        if tag is None:
            continue
        opened = [match.start() for match in re.finditer(rf"<{re.escape(tag[1])}(\s[^<>]*)?>", text)]
        if len(opened) > text.count(stop):
            open_tags[stop] = opened[-1]
    return max(open_tags, key=open_tags.__getitem__, default=None)


def can_be_inferred(stops: Iterable[str]) -> bool:
    """Return whether each of `stops` is a closing tag, so that `unclosed` can tell which one a server swallowed."""
    return all(_CLOSING_TAG.fullmatch(stop) for stop in stops)


def apply_stops(
    text: str, stops: Iterable[str], finish: FinishReason, *, swallowed: str | None = None
) -> tuple[str, FinishReason]:
    """Return the text and the reason of its end as every backend gives them.

    Args:
        text: what the server sent, with or without the stop string, or beyond it.
        stops: the stop strings, none empty.
        finish: what the server gave as the reason.
        swallowed: the stop string that ended the text, as the server named it or as it was inferred; None if unknown.
    """
    stops = check_stops(stops)
    hit = first_stop(text, stops)
    if hit is None and swallowed in stops and finish in (FinishReason.STOP, FinishReason.STOP_STRING):
        text += swallowed or ""
        hit = first_stop(text, stops)
    if hit is not None:
        return text[: hit[0]], FinishReason.STOP_STRING
    return text, FinishReason.STOP if finish is FinishReason.STOP_STRING else finish
