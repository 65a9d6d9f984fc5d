"""Loaded by verl in each of its processes (entry point `verl.plugins`): what its configuration names as `saccade`.

verl 0.9.1 loads entry points while it is being imported itself, so only its core is imported here.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn, register_adv_est, register_policy_loss

from saccade.errors import TrainingError
from saccade.rl.verl import mended
from saccade.rl.verl.mapping import PART

MOST_DIFFERENCE = "SACCADE_VERL_MAX_LOGPROB_DIFF"
"""Variable with the largest difference of a log-probability between sampling and training, in nats; unset: any."""

mended.install()


@register_adv_est(PART)  # type: ignore[untyped-decorator]
def advantages(token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **more: Any) -> tuple[Any, Any]:
    """Those that the recipe's rule gave, (rollouts, tokens), which the sampler wrote in the place of rewards."""
    given = token_level_rewards * response_mask
    return given, given


@register_policy_loss(PART)  # type: ignore[untyped-decorator]
def loss(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    **more: Any,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's own clipped loss; tensors are (rollouts, tokens).

    Raises:
        TrainingError: a log-probability differs too much from that of the sampling.
    """
    with torch.no_grad():
        gap = float(((log_prob - old_log_prob).abs() * response_mask).max())
    if (most := os.environ.get(MOST_DIFFERENCE)) and gap > float(most):
        raise TrainingError(
            f"a token's log-probability differs by {gap:.2g} between sampling and training, and at most "
            f"{float(most):.2g} is allowed (max_logprob_diff): the policy that learns would not be the one that "
            "sampled. Nothing was updated."
        )
    value, metrics = get_policy_loss_fn("vanilla")(
        old_log_prob=old_log_prob, log_prob=log_prob, advantages=advantages, response_mask=response_mask, **more
    )
    return value, {**metrics, "actor/logprob_gap": gap}
