"""Compute log-probability and entropy of tokens from hidden states, a chunk of positions at a time.

With 152 thousand ids a position takes 0.6 MB in float32; logits of a whole forward pass, their softmax and gradient
would be the largest tensors of a step. Only those of a chunk exist at once, and the backward pass recomputes them. The
gradient of the head's weight is summed in float32. No second derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.models.local_weights import capped

_IMPOSSIBLE = -1e4
"""A log-probability whose probability is 0 in float32, and finite: 0 · -inf would be no number."""


class TokenScores(NamedTuple):
    """Scores of tokens, each predicted from one hidden state; tensors (tokens,)."""

    logprobs: Tensor
    """Natural, of the target under the softmax over what may be sampled; gradients flow."""
    entropy: Tensor
    """Of that distribution, in nats; gradients flow."""
    preferred: Tensor
    """bool: no other id has a higher logit."""


@dataclass(frozen=True, slots=True)
class LogitRules:
    """How logits become a distribution, and how many are held at once."""

    forbidden: Tensor
    """bool (vocabulary,): never sampled."""
    heat: Tensor
    """(1,): the temperature. A tensor, since torch divides by a plain number in another way on some devices."""
    chunk: int
    """Positions whose logits exist at once."""
    cap: float | None = None
    """Bounds logits softly, before all else; None where they are not bounded."""


def token_scores(hidden: Tensor, weight: Tensor, targets: Tensor, rules: LogitRules) -> TokenScores:
    """Score `targets`.

    Args:
        hidden: (tokens, size), what the head reads.
        weight: (vocabulary, size) of the head, which has no bias.
        targets: int64 (tokens,).
        rules: of the logits.
    """
    logprobs, entropy, preferred = _Chunked.apply(hidden, weight, targets, rules, _dtype(hidden, weight))
    return TokenScores(logprobs, entropy, preferred)


def _dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """Return the type of the multiplication: what autocast says, else the weight's."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


class _Chunked(torch.autograd.Function):  # type: ignore[misc]
    """Keeps nothing of a chunk but its scores."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rules: LogitRules, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, targets)
        ctx.set_materialize_grads(False)
        ctx.rules, ctx.dtype = rules, dtype
        found = [torch.empty(len(targets), device=hidden.device) for _ in range(2)]
        preferred = torch.empty(len(targets), dtype=torch.bool, device=hidden.device)
        with torch.autocast(hidden.device.type, enabled=False):
            multiplied = weight.to(dtype)
            for part in _parts(len(targets), rules.chunk):
                logprobs = _log_softmax(_logits(hidden[part].to(dtype), multiplied, rules), rules)
                found[0][part] = logprobs.gather(-1, targets[part, None])[:, 0]
                preferred[part] = logprobs.argmax(-1) == targets[part]
                found[1][part] = torch.special.entr(logprobs.exp_()).sum(-1)
        ctx.mark_non_differentiable(preferred)
        return found[0], found[1], preferred

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, of_logprobs: Tensor | None, of_entropy: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        hidden, weight, targets = ctx.saved_tensors
        of_logprobs = hidden.new_zeros(len(targets), dtype=torch.float32) if of_logprobs is None else of_logprobs
        rules, dtype = ctx.rules, ctx.dtype
        of_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        with torch.autocast(hidden.device.type, enabled=False):
            multiplied = weight.to(dtype)
            for part in _parts(len(targets), rules.chunk):
                read = hidden[part].to(dtype)
                logits = _logits(read, multiplied, rules)
                gain = None if rules.cap is None else 1 - (logits / rules.cap) ** 2
                logprobs = _log_softmax(logits, rules)
                del logits
                slope = _slope(
                    logprobs, targets[part], of_logprobs[part], None if of_entropy is None else of_entropy[part]
                )
                del logprobs
                slope = slope.div_(rules.heat)
                slope = (slope if gain is None else slope.mul_(gain)).to(dtype)
                if of_hidden is not None:
                    of_hidden[part] = (slope @ multiplied).to(hidden.dtype)
                if of_weight is not None and dtype == torch.float32:
                    of_weight.addmm_(slope.mT, read)
                elif of_weight is not None:
                    of_weight += slope.mT @ read
        return of_hidden, None if of_weight is None else of_weight.to(weight.dtype), None, None, None


def _parts(tokens: int, chunk: int) -> Iterator[slice]:
    return (slice(start, start + chunk) for start in range(0, tokens, chunk))


def _logits(hidden: Tensor, weight: Tensor, rules: LogitRules) -> Tensor:
    """Return float32 (tokens, vocabulary)."""
    return capped((hidden @ weight.mT).float(), rules.cap)


def _log_softmax(logits: Tensor, rules: LogitRules) -> Tensor:
    """Return the log-softmax, -inf where forbidden; overwrites `logits`."""
    return torch.log_softmax(logits.masked_fill_(rules.forbidden, -torch.inf).div_(rules.heat), dim=-1)


def _slope(logprobs: Tensor, targets: Tensor, of_logprobs: Tensor, of_entropy: Tensor | None) -> Tensor:
    """Return the gradient of logits / temperature: g (1_t - p) - h p (log p + H)."""
    probabilities = logprobs.exp()
    if of_entropy is not None:
        entropy = torch.special.entr(probabilities).sum(-1)
        inner = logprobs.clamp_(min=_IMPOSSIBLE).add_(entropy[:, None]).mul_(of_entropy[:, None])
        slope = inner.add_(of_logprobs[:, None]).mul_(probabilities).neg_()
    else:
        slope = probabilities.mul_(-of_logprobs[:, None])
    return slope.scatter_add_(-1, targets[:, None], of_logprobs[:, None])
