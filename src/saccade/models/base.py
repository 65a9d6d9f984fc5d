"""The interface that every model backend has: messages in, a completion out.

Stop strings mean the same on all backends: text ends at the first of them, `Completion.text` holds it, and
`finish` is `STOP_STRING`. A backend whose API swallows the stop string puts it back; one that does not know stop
strings cuts the text itself. Text that ran into `max_tokens` has `finish` `LENGTH` and is never made to look complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from saccade.record.action import ToolCall
from saccade.record.content import ImagePart, Message
from saccade.record.hosted_call import HostedCall
from saccade.record.trajectory import Sampling
from saccade.record.turn import FinishReason


class MediaReader(Protocol):
    """Where a backend finds the bytes of the pictures and videos that messages name; a `MediaStore` is one."""

    def get_bytes(self, sha256: str) -> bytes:
        """The stored bytes. Raises `MissingMediaError`."""


@runtime_checkable
class MediaKeeper(MediaReader, Protocol):
    """Where a backend also puts pictures that came back beside the text; a `MediaStore` is one."""

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
    visual_tokens: int | None = None
    """Part of `prompt_tokens` that stands for pictures and videos."""


def added(one: Usage, other: Usage) -> Usage:
    """Both together; None where one is not known."""

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


class Model(Protocol):
    """What continues a conversation: a hosted model, a local checkpoint, a script."""

    name: str
    """As it is recorded, e.g. `openai:gpt-4.1`."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The model's next message; `on_text` hears the text as it comes, piece by piece.

        Raises `ModelError`: `ContextLimitError` if the messages do not fit the model's context, any other
        `ModelRefusedError` for what no retry can cure (bad key, bad request, unknown model),
        `ModelLostError` when retries are used up (rate limit, server errors, broken connection, broken answers).
        """

    async def close(self) -> None:
        """Give back connections; idempotent."""
