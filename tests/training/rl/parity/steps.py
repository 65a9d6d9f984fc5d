"""A step's rollouts as ragged arrays, and verl's loss of them: its own function of a forward pass, `ppo_loss`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

STEP_AGGREGATES = {
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "sequence-sum": "seq-mean-token-sum-norm",
}
STEP_CLIP = (0.2, 0.28, 3.0)
"""Low, high, dual."""
SCALE = 7
GROUPS, SIZE = 2, 3
Arrays = dict[str, Any]


def made_step(seed: int) -> Arrays:
    """Rewards (rollouts,), and for each rollout arrays (tokens of the response,); three decimals."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 9, GROUPS * SIZE).tolist()
    rows: dict[str, list[list[float]]] = {"mask": [], "logprobs": [], "behaviour": [], "reference": []}
    for length in lengths:
        mask = (rng.random(length) > 0.4).astype(float)
        mask[0] = 1.0
        logprobs = -2 * rng.random(length)
        rows["mask"].append(mask.tolist())
        rows["logprobs"].append(np.round(logprobs, 3).tolist())
        rows["behaviour"].append(np.round(logprobs + 0.3 * rng.normal(size=length), 3).tolist())
        rows["reference"].append(np.round(logprobs + 0.2 * rng.normal(size=length), 3).tolist())
    rewards = np.round(rng.normal(size=GROUPS * SIZE), 3).tolist()
    groups = np.repeat(np.arange(GROUPS), SIZE).tolist()
    return {**rows, "rewards": rewards, "groups": groups, "prompts": rng.integers(1, 5, GROUPS * SIZE).tolist()}


def padded(rows: list[list[float]]) -> torch.Tensor:
    """(rollouts, longest), float32, 0 behind the end."""
    tensors = [torch.tensor(row, dtype=torch.float32) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def verl_advantages(step: Arrays, *, divide: bool) -> torch.Tensor:
    """verl's estimator of GRPO, (rollouts, longest)."""
    from verl.trainer.ppo import core_algos

    mask = padded(step["mask"])
    rewards = torch.zeros_like(mask)
    rewards[:, 0] = torch.tensor(step["rewards"], dtype=torch.float32)
    values, _ = core_algos.compute_grpo_outcome_advantage(
        rewards, mask, np.array(step["groups"]), norm_adv_by_std_in_grpo=divide
    )
    return torch.as_tensor(values)


def verl_loss(
    step: Arrays, advantages: torch.Tensor, config: Any, *, kl: bool
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """The loss of all rollouts as one forward pass, the log-probabilities that it goes back to, and its numbers."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils
    from verl.workers.utils.losses import ppo_loss

    def nested(rows: list[list[float]], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.nested.as_nested_tensor([torch.tensor(row, dtype=dtype) for row in rows], layout=torch.jagged)

    count, prompts = len(step["rewards"]), step["prompts"]
    # A model gives the log-probability of a token at the place before it, over prompt and response.
    full = [
        torch.tensor([*([0.0] * (prompt - 1)), *row, 0.0], dtype=torch.float32)
        for prompt, row in zip(prompts, step["logprobs"], strict=True)
    ]
    given = torch.cat(full).requires_grad_()
    data = {
        "prompts": nested([[1] * prompt for prompt in prompts], torch.int64),
        "responses": nested([[1] * len(row) for row in step["mask"]], torch.int64),
        "response_mask": nested(step["mask"], torch.int64),
        "old_log_probs": nested(step["behaviour"]),
        "advantages": nested([row[: len(m)].tolist() for row, m in zip(advantages, step["mask"], strict=True)]),
    }
    if kl:
        data["ref_log_prob"] = nested(step["reference"])
    batch = TensorDict(data, batch_size=count)
    tokens = sum(map(sum, step["mask"]))
    tensordict_utils.assign_non_tensor(batch, dp_size=1, batch_num_tokens=tokens, global_batch_size=count)
    loss, metrics = ppo_loss(config, {"log_probs": given}, batch)
    return loss, given, metrics


def verl_config(aggregate: str, clip: tuple[float, float, float | None], kl: float, **more: Any) -> Any:
    """verl's settings of an actor for ours."""
    from verl.workers.config import FSDPActorConfig

    low, high, dual = clip
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio_low=low,
        clip_ratio_high=high,
        clip_ratio_c=1e9 if dual is None else dual,
        loss_agg_mode=aggregate,
        use_kl_loss=kl > 0,
        kl_loss_coef=kl,
        kl_loss_type="low_var_kl",
        **more,
    )
