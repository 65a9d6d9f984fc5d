"""One turn while it is written: where it ends, whoever samples its tokens."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from saccade.generate.base import ContextFullError, SampledTurn, TurnRequest
from saccade.models.local_text import TextOfTokens
from saccade.models.stops import StopWatch
from saccade.record.turn import FinishReason


class TurnCheckpoint(Protocol):
    """What of a checkpoint decides where a turn ends."""

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
    """A policy as far as it decides where a turn ends; its weights may be elsewhere."""

    @property
    def checkpoint(self) -> TurnCheckpoint:
        """Its tokens."""


def _unheard(piece: str) -> None:
    pass


@dataclass
class TurnState:
    """A turn while it is written."""

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
    tell: Callable[[str], None] = _unheard
    """Hears each piece of the text."""

    def take(self, token: int, logprob: float) -> None:
        """One more token."""
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
        """What came of it."""
        self.tell(self.watch.feed(self.text.end()))
        finish = self.finish or FinishReason.LENGTH
        return SampledTurn(tuple(self.ids), tuple(self.logprobs), self.watch.text, finish, self.context)


def start_turn(policy: TurnPolicy, request: TurnRequest, context: int, most: int | None = None) -> TurnState:
    """The turn that answers `request` after `context` tokens.

    Args:
        policy: what samples.
        request: what is asked.
        context: tokens that are read before the turn, text and visual.
        most: most tokens of context and turn that a server takes; None for what the checkpoint reads.

    Raises:
        ContextFullError: no room is left.
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
