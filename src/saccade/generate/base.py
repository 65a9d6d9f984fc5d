"""The interface of an engine: a slot for each episode, asked for the tokens of its next turn.

An engine gets ids and gives ids; nothing is tokenised twice. Slots that were taken together decode together, so a slot
whose episode is over must be released, or the others wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from saccade.record.turn import FinishReason
from saccade.tokens.stream import PromptDelta


class ContextFullError(Exception):
    """What is to be read leaves no room for a token; the episode ends at its context limit. Never leaves Saccade."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a slot reads, and how it writes."""

    delta: PromptDelta
    stop: tuple[str, ...] = ()
    temperature: float = 1.0
    """0 is greedy."""
    max_tokens: int | None = None
    """Most tokens of the turn; None for what the context leaves."""
    context_tokens: int | None = None
    """Most tokens of everything read and the turn; None for what the checkpoint reads."""


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """One turn as it was sampled."""

    ids: tuple[int, ...]
    """The end-of-turn token included, if it was sampled."""
    logprobs: tuple[float, ...]
    """Natural, of each id, under the softmax of logits / temperature (1 if greedy) over what may be sampled."""
    text: str
    """Up to the end of the first stop string; the last token may go beyond it."""
    finish: FinishReason
    context: int
    """Tokens that were read before, text and visual."""


class Slot(Protocol):
    """One episode at an engine."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Everything read and sampled so far."""

    async def generate(self, request: TurnRequest) -> SampledTurn:
        """The next turn.

        Raises:
            ContextFullError: nothing can be sampled after what is to be read.
            ModelError: the engine failed.
        """

    def release(self) -> None:
        """The episode is over; idempotent."""


class Engine(Protocol):
    """Samples for any number of episodes."""

    name: str
    """As it is recorded."""

    @property
    def in_process(self) -> bool:
        """Whether it samples from the very weights that are trained."""

    @property
    def busy_seconds(self) -> float:
        """Seconds spent sampling since the engine was made, 0 where it cannot tell."""

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        """A slot for each seed, decoding together. The same seeds and requests give the same tokens."""

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """The policy's weights have changed; `save` writes them into a folder, as a checkpoint.

        Raises:
            ModelError: the engine cannot sample with them.
        """

    async def close(self) -> None:
        """Give back what it holds; idempotent."""
