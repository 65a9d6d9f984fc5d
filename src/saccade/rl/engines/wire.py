"""What is asked of a server that samples and what it gives, apart from how each kind writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.rl.engines.picture_files import PictureFile
from saccade.rl.engines.server_http import Connection


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A turn to be sampled."""

    ids: tuple[int, ...]
    """All that is read, each picture as one placeholder, which the server expands."""
    most: int
    """Tokens."""
    bias: Mapping[int, float]
    """Added to logits before they are divided by the temperature."""
    pictures: tuple[PictureFile, ...] = ()
    """In the order of their placeholders."""
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    """Ids that end a turn; sampled ones are given back too."""
    temperature: float = 1.0
    """0 is greedy."""
    seed: int = 0
    ranked: int = 0
    """How many of the likeliest ids are to be given besides, with their log-probabilities."""


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """What was sampled."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool
    """Whether an end of turn or a stop string ended it, rather than the number of tokens."""
    count: int | None
    """Tokens that the server read, pictures expanded; None where it does not tell."""
    read: tuple[int, ...] | None = None
    """Those tokens; None where it does not tell."""
    ranked: tuple[float, ...] = ()
    """Log-probabilities of the likeliest ids in place of the first token."""
    versions: frozenset[str] = frozenset()
    """Labels of the weights that sampled them; empty where the server does not tell."""


class Wire(Protocol):
    """How one kind of server is spoken to."""

    path: str
    """Where turns are sampled."""

    def body(self, request: SampleRequest) -> dict[str, Any]:
        """The request, as JSON with a picture's mark in place of its URL."""

    def read(self, answer: Any) -> SampleOutput:
        """The answer.

        Raises:
            ModelRefusedError: it is not of the format, or lacks what was asked for.
            OutageError: the turn was broken off.
        """

    async def reload(self, connection: Connection, folder: Path, version: str) -> None:
        """Sample with the weights of the checkpoint in `folder`, and forget everything computed with others.

        From then on answers are labelled with `version`.

        Raises:
            ModelError: the server cannot.
        """


def paired(ids: Sequence[int], pairs: Sequence[tuple[int, float | None]], who: str) -> tuple[float, ...]:
    """The log-probability of each of `ids`, from the `pairs` of id and log-probability of the tokens.

    Raises:
        ModelRefusedError: they are not as many, of other ids, or no numbers.
    """
    if len(ids) != len(pairs):
        raise ModelRefusedError(
            f"{who} gave {len(ids)} tokens and {len(pairs)} log-probabilities; each token needs one to be trained on."
        )
    if any(token != other for token, (other, _) in zip(ids, pairs, strict=True)):
        raise ModelRefusedError(f"{who} gave log-probabilities of other tokens than it sampled.")
    values = [value for _, value in pairs if value is not None and _MISSING < value < _ROUNDING]
    if len(values) != len(ids):
        raise ModelRefusedError(f"{who} gave a token without its log-probability.")
    return tuple(min(0.0, value) for value in values)


def stopped(reason: str | None, who: str) -> bool:
    """Whether a turn that ended for `reason` was ended by what was written. Raises OutageError if it was broken off."""
    if reason not in ("stop", "length"):
        raise OutageError(f"{who} broke a turn off ({reason}).")
    return reason == "stop"


_MISSING = -9000.0
"""vLLM writes -9999 where it has none."""
_ROUNDING = 1e-3
