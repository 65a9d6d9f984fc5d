"""Entropy of the policy at each token, in nats."""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Entropy (rows, tokens) of the distributions that `logits` (rows, tokens, vocabulary) mean.

    An id that cannot be sampled has the logit -inf and adds nothing.
    """
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    # 0 · -inf is not 0 in floating point; neither the value nor its gradient may be NaN.
    finite = torch.where(torch.isinf(logprobs), torch.zeros_like(logprobs), logprobs)
    return -(logprobs.exp() * finite).sum(dim=-1)
