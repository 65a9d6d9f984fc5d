"""Sampling one answer from a checkpoint, token by token.

Own loop instead of `generate`: its draws come from a generator of their own, so a seed is not disturbed by what else
runs in the process; it ignores the checkpoint's own sampling defaults; it gives the log-probability of what it drew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from transformers import DynamicCache

from saccade.errors import ContextLimitError, ModelRefusedError
from saccade.models.local_prompt import Prompt
from saccade.models.local_text import TextOfTokens
from saccade.models.local_weights import Checkpoint
from saccade.models.stops import StopWatch
from saccade.record.trajectory import Sampling
from saccade.record.turn import FinishReason


class CancelledGenerationError(Exception):
    """Whoever asked does not want the answer any more; never leaves the models package."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What was sampled."""

    text: str
    """Up to the end of the first stop string; the last token may go beyond it."""
    finish: FinishReason
    token_ids: tuple[int, ...]
    """The end-of-turn token included, if it was sampled."""
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Listening:
    """How the outside takes part while an answer is written."""

    tell: Callable[[str], None]
    """Hears each piece of the text."""
    is_cancelled: Callable[[], bool]
    """Asked before every forward pass."""

    def check(self) -> None:
        """Raises `CancelledGenerationError` if the answer is not wanted any more."""
        if self.is_cancelled():
            raise CancelledGenerationError


@contextmanager
def memory_guard(name: str) -> Iterator[None]:
    """Raises `ModelRefusedError` when the device has no memory left."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ModelRefusedError(
            f"{name} has no memory left on its device for this prompt. Show fewer or smaller pictures "
            "(LocalSettings.max_pixels), set max_tokens, or take a larger device."
        ) from error


def generate(
    checkpoint: Checkpoint,
    prompt: Prompt,
    stops: tuple[str, ...],
    sampling: Sampling,
    listening: Listening,
    context_tokens: int | None = None,
) -> Generated:
    """One answer to `prompt`; prompt and answer have at most `context_tokens`, or as many as the checkpoint reads.

    Raises:
        CancelledGenerationError: `listening` says so.
        ContextLimitError: the prompt fills the model's context.
    """
    limit = _limit(checkpoint, prompt, sampling, context_tokens)
    draw = TokenSampler(sampling, checkpoint.forbidden)
    decoder = TextOfTokens(checkpoint.tokenizer)
    watch = StopWatch(stops)
    ids: list[int] = []
    logprobs: list[float] = []
    finish = FinishReason.LENGTH
    listening.check()
    steps = _Steps(checkpoint, prompt)
    while len(ids) < limit:
        listening.check()
        token, logprob = draw(steps.logits)
        ids.append(token)
        logprobs.append(logprob)
        if token in checkpoint.end_ids:
            finish = FinishReason.STOP
            break
        listening.tell(watch.feed(decoder.add(token)))
        if watch.stopped is not None:
            finish = FinishReason.STOP_STRING
            break
        if len(ids) < limit:
            steps.take(token)
    listening.tell(watch.feed(decoder.end()))
    return Generated(watch.text, finish, tuple(ids), tuple(logprobs))


class TokenSampler:
    """Picks the next token. No temperature, or 0, is greedy; None and 0 turn `top_k` off, None and 1 `top_p`."""

    def __init__(self, sampling: Sampling, forbidden: torch.Tensor) -> None:
        self._greedy = not sampling.temperature
        self._temperature = sampling.temperature or 1.0
        self._top_k = sampling.top_k or 0
        self._top_p = 1.0 if sampling.top_p is None else sampling.top_p
        self._forbidden = forbidden
        self._random = torch.Generator(device=forbidden.device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed % 2**64)

    def __call__(self, logits: torch.Tensor) -> tuple[int, float]:
        """A token and its natural log-probability.

        That is under the softmax of `logits / temperature` (1 if greedy) over the tokens that may be sampled, before
        `top_k` and `top_p` cut it: what a trainer can compute again, and with both off the distribution drawn from.

        Args:
            logits: (vocabulary,), on the device of the checkpoint.

        Raises:
            ModelRefusedError: they are no numbers.
        """
        values = logits.float().masked_fill(self._forbidden, -torch.inf)
        best = values.max()
        if not torch.isfinite(best):
            raise ModelRefusedError(
                "the model's arithmetic overflowed. Load it in bfloat16 or float32 (LocalSettings.dtype)."
            )
        logprobs = torch.log_softmax((values - best) / self._temperature, dim=-1)
        token = int(logprobs.argmax()) if self._greedy else self._drawn(logprobs)
        return token, float(logprobs[token])

    def _drawn(self, logprobs: torch.Tensor) -> int:
        kept = logprobs
        if 0 < self._top_k < len(kept):
            kept = kept.masked_fill(kept < kept.topk(self._top_k).values[-1], -torch.inf)
        if self._top_p < 1.0:
            probs, order = kept.softmax(-1).sort(descending=True, stable=True)
            beyond = order[probs.cumsum(-1) - probs >= self._top_p]  # the token that reaches top_p stays
            beyond = beyond[beyond != order[0]]
            kept = kept.index_fill(0, beyond, -torch.inf)
        return int(torch.multinomial(kept.softmax(-1), 1, generator=self._random))


class _Steps:
    """The forward passes: the whole prompt first, then one token at a time over the cached keys and values."""

    def __init__(self, checkpoint: Checkpoint, prompt: Prompt) -> None:
        self._model = checkpoint.model
        self._shape = (*prompt.positions.shape[:-1], 1)
        self._position = prompt.next_position
        self._cache = DynamicCache(config=self._model.config.get_text_config())
        self.logits = self._forward(prompt.ids, prompt.positions, **prompt.pictures)

    def take(self, token: int) -> None:
        """`logits` become those of what follows `token`."""
        device = self.logits.device
        ids = torch.tensor([[token]], device=device)
        positions = torch.full(self._shape, self._position, device=device)
        self._position += 1
        self.logits = self._forward(ids, positions)

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor, **pictures: torch.Tensor) -> torch.Tensor:
        """(vocabulary,)."""
        with torch.inference_mode():
            out = self._model(
                input_ids=ids,
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
                **pictures,
            )
        logits: torch.Tensor = out.logits[0, -1]
        return logits


def _limit(checkpoint: Checkpoint, prompt: Prompt, sampling: Sampling, most: int | None) -> int:
    most = min(checkpoint.context_tokens, most or checkpoint.context_tokens)
    room: int = most - prompt.ids.shape[1]
    if room < 1:
        raise ContextLimitError(
            f"the messages take {prompt.ids.shape[1]} tokens ({prompt.visual} of them visual), and {checkpoint.name} "
            f"reads at most {most}. Show fewer or smaller pictures."
        )
    return min(room, sampling.max_tokens or room)
