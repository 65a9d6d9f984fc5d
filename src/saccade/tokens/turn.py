"""The interface of an engine, and a turn while it is sampled: where it ends, whatever samples its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from saccade.models.base import StopWatch
from saccade.models.local_text import TextOfTokens
from saccade.record.trajectory import FinishReason
from saccade.tokens.batch import PromptDelta


class ContextFullError(Exception):
    """The prompt leaves no room for a token; the episode ends at its context limit. Never leaves Saccade."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The tokens that a slot reads, and how it samples."""

    delta: PromptDelta
    stop: tuple[str, ...] = ()
    temperature: float = 1.0
    """0 is greedy."""
    max_tokens: int | None = None
    """Most tokens of the turn; None for what the context leaves."""
    context_tokens: int | None = None
    """Most tokens of context and turn together; None for the checkpoint's limit."""


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """A sampled turn."""

    ids: tuple[int, ...]
    """The end-of-turn token included, if it was sampled."""
    logprobs: tuple[float, ...]
    """Natural, of each id, under the softmax of logits / temperature (1 if greedy) over ids that may be sampled."""
    text: str
    """Up to the end of the first stop string; the last token may go beyond it."""
    finish: FinishReason
    context: int
    """Tokens read before the turn, text and visual."""


class Slot(Protocol):
    """One episode at an engine."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Everything read and sampled so far."""

    async def generate(self, request: TurnRequest) -> SampledTurn:
        """Sample the next turn. Raises `ContextFullError` if the context is full, `ModelError` if the engine failed."""

    def release(self) -> None:
        """End the episode; idempotent."""


class Engine(Protocol):
    """Samples for any number of episodes, token ids in and out: nothing is tokenised twice.

    Slots that were taken together decode together: one whose episode is over must be released, or the others wait.
    """

    name: str
    """Name in records."""

    @property
    def in_process(self) -> bool:
        """Whether it samples from the weights that are trained."""

    @property
    def busy_seconds(self) -> float:
        """Seconds spent sampling since the engine was made, 0 where it cannot tell."""

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        """Make a slot for each seed, decoding together. The same seeds and requests give the same tokens."""

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Take the policy's new weights; `save` writes them into a folder, as a checkpoint. Raises `ModelError` if the
        engine cannot sample with them.
        """

    async def close(self) -> None:
        """Release all resources; idempotent."""


class TurnCheckpoint(Protocol):
    """The parts of a checkpoint that decide where a turn ends."""

    @property
    def tokenizer(self) -> Any:
        """A fast one of transformers."""

    @property
    def end_ids(self) -> Set[int]:
        """Ids that end a turn."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of prompt and turn together."""


class TurnPolicy(Protocol):
    """A policy whose weights may be elsewhere."""

    @property
    def checkpoint(self) -> TurnCheckpoint:
        """Its tokens."""


@dataclass
class TurnState:
    """A turn while it is sampled."""

    watch: StopWatch
    text: TextOfTokens
    ends: Set[int]
    """Ids that end a turn."""
    left: int
    """Tokens that may still be sampled."""
    temperature: float
    context: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    tell: Callable[[str], object] = len
    """Called with each piece of the text."""

    def take(self, token: int, logprob: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.left -= 1
        if token in self.ends:
            self.finish = FinishReason.STOP
            return
        self.tell(self.watch.feed(self.text.add(token)))
        if self.watch.stopped is not None:
            self.finish = FinishReason.STOP_STRING
        elif self.left < 1:
            self.finish = FinishReason.LENGTH

    def done(self) -> SampledTurn:
        self.tell(self.watch.feed(self.text.end()))
        finish = self.finish or FinishReason.LENGTH
        return SampledTurn(tuple(self.ids), tuple(self.logprobs), self.watch.text, finish, self.context)


def start_turn(policy: TurnPolicy, request: TurnRequest, context: int, most: int | None = None) -> TurnState:
    """Begin the turn that answers `request` after `context` tokens, text and visual.

    `most` is the limit of a server on context and turn together; None for the checkpoint's.

    Raises `ContextFullError`: no room is left.
    """
    limits = (policy.checkpoint.context_tokens, most, request.context_tokens)
    most = min(limit for limit in limits if limit is not None)
    if context >= most:
        raise ContextFullError(f"{context} tokens are to be read, and at most {most} can be")
    room = most - context
    return TurnState(
        StopWatch(request.stop),
        TextOfTokens(policy.checkpoint.tokenizer),
        policy.checkpoint.end_ids,
        min(room, request.max_tokens or room),
        request.temperature,
        context,
    )
