"""How far the policy is from a reference, estimated on sampled tokens (Schulman's k3): unbiased and never negative."""

from __future__ import annotations

import torch
from torch import Tensor

from saccade.rl.losses.policy import log_ratio


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) - d - 1 with d = reference - logprob, for each token; gradients flow through `logprobs`."""
    difference = log_ratio(reference.detach(), logprobs)
    return torch.exp(difference) - difference - 1.0
