"""Writes table.json: losses, gradients and advantages as numbers that verl and TRL make of fixed tensors.

    make parity-table

The default suite checks ours against the table (`test_table.py`), without either of them; `make parity` runs them
beside ours. TRL's part is `GRPOTrainer._compute_loss` itself, on a stand-in for the trainer that gives it the
log-probabilities.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from steps import SCALE, STEP_AGGREGATES, STEP_CLIP, made_step, verl_advantages, verl_config, verl_loss

TABLE = Path(__file__).with_name("table.json")
AGGREGATES = {"token-mean": "token-mean", "sequence-mean": "seq-mean-token-mean", "sequence-sum": "seq-mean-token-sum"}
TRL_LOSSES = {"sequence-mean": "grpo", "token-mean": "bnpo", "sequence-sum": "dr_grpo"}
CLIPS = ((0.2, 0.2, 3.0), (0.2, 0.28, 10.0), (0.2, 0.2, None))
"""Low, high, dual; None for none."""
ROWS, TOKENS = 4, 6
KL = 0.05


def tensors(seed: int) -> dict[str, Any]:
    """Log-probabilities so far apart that every bound is met; three decimals, so that the table can be read."""
    rng = np.random.default_rng(seed)
    mask = (rng.random((ROWS, TOKENS)) > 0.3).astype(float)
    mask[:, 0] = 1.0
    logprobs = -rng.random((ROWS, TOKENS))
    made = {
        "mask": mask,
        "logprobs": logprobs,
        "behaviour": logprobs + rng.normal(size=(ROWS, TOKENS)),
        "reference": logprobs + 0.3 * rng.normal(size=(ROWS, TOKENS)),
        # One for each rollout, as TRL has them.
        "advantages": np.repeat(rng.normal(size=(ROWS, 1)), TOKENS, axis=1),
    }
    return {name: np.round(value, 3).tolist() for name, value in made.items()}


def verl_losses(given: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Each aggregate with each clip."""
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig

    fixed = {name: torch.tensor(value) for name, value in given.items()}
    rows = []
    for (ours, theirs), (low, high, dual) in product(AGGREGATES.items(), CLIPS):
        config = ActorConfig(
            strategy="fsdp",
            rollout_n=1,
            use_dynamic_bsz=True,
            clip_ratio_low=low,
            clip_ratio_high=high,
            clip_ratio_c=1e9 if dual is None else dual,
        )
        logprobs = fixed["logprobs"].clone().requires_grad_()
        loss, metrics = core_algos.compute_policy_loss_vanilla(
            fixed["behaviour"], logprobs, fixed["advantages"], fixed["mask"], theirs, config
        )
        (gradient,) = torch.autograd.grad(loss, logprobs)
        rows.append(
            {
                "by": "verl",
                "tensors": at,
                "aggregate": ours,
                "clip": [low, high, dual],
                "kl": 0.0,
                "scale": 1.0,
                "loss": loss.item(),
                "gradient": gradient.tolist(),
                "clipped": float(metrics["actor/pg_clipfrac"] + metrics["actor/pg_clipfrac_lower"]),
            }
        )
    return rows


def trl_losses(given: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Each loss type with each clip, with a distance to the reference."""
    import trl

    fixed = {name: torch.tensor(value) for name, value in given.items()}
    rows = []
    for (ours, theirs), (low, high, dual) in product(TRL_LOSSES.items(), CLIPS):
        logprobs = fixed["logprobs"].clone().requires_grad_()
        inputs = {
            "prompt_ids": torch.zeros(ROWS, 1, dtype=torch.long),
            "prompt_mask": torch.ones(ROWS, 1, dtype=torch.long),
            "completion_ids": torch.zeros(ROWS, TOKENS, dtype=torch.long),
            "completion_mask": fixed["mask"],
            "advantages": fixed["advantages"][:, 0],
            "old_per_token_logps": fixed["behaviour"],
            "ref_per_token_logps": fixed["reference"],
        }
        loss = trl.GRPOTrainer._compute_loss(_trainer(theirs, low, high, dual, logprobs), None, inputs)
        (gradient,) = torch.autograd.grad(loss, logprobs)
        rows.append(
            {
                "by": "trl",
                "tensors": at,
                "aggregate": ours,
                "clip": [low, high, dual],
                "kl": KL,
                "scale": float(TOKENS),
                "loss": loss.item(),
                "gradient": gradient.tolist(),
                "clipped": None,
            }
        )
    return rows


def _trainer(loss_type: str, low: float, high: float, dual: float | None, logprobs: torch.Tensor) -> Any:
    """What `_compute_loss` reads of its trainer."""
    accelerator = SimpleNamespace(gather=lambda value: value, reduce=lambda value, **_: value, num_processes=1)
    args = SimpleNamespace(use_bias_correction_kl=False, delta=dual)
    return _Stand(
        accelerator=accelerator,
        args=args,
        beta=KL,
        epsilon_low=low,
        epsilon_high=high,
        loss_type=loss_type,
        max_completion_length=TOKENS,
        logprobs=logprobs,
    )


class _Stand:
    """Attributes as given, and neutral ones for everything else that is asked for."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)
        self.model = SimpleNamespace(training=True)
        self._metrics = {"train": _Heap(), "eval": _Heap()}
        self.current_gradient_accumulation_steps = 1
        self.importance_sampling_level = "token"
        self.top_entropy_quantile = 1.0
        self.use_vllm = self.use_liger_kernel = self.vllm_importance_sampling_correction = False
        self.mask_truncated_completions = False
        self.aux_loss_enabled = self._entropy_bonus_enabled = self.use_adaptive_entropy = False
        self.off_policy_mask_threshold = None

    def _get_per_token_logps_and_entropies(self, *given: Any, **named: Any) -> Any:
        return self.logprobs, torch.zeros_like(self.logprobs), None  # type: ignore[attr-defined]


class _Heap(dict[str, list[float]]):
    def __missing__(self, key: str) -> list[float]:
        return self.setdefault(key, [])


def advantages() -> dict[str, Any]:
    """Of verl, over groups in any order."""
    from verl.trainer.ppo import core_algos

    rng = np.random.default_rng(3)
    rewards, groups = np.round(rng.normal(size=12), 3), np.repeat(np.arange(3), 4)
    order = rng.permutation(12)
    rewards, groups = rewards[order], groups[order]
    scores, mask = torch.tensor(rewards)[:, None], torch.ones(12, 1)
    plain = core_algos.compute_grpo_outcome_advantage(scores, mask, groups, norm_adv_by_std_in_grpo=False)
    made = {
        "standardised": core_algos.compute_grpo_outcome_advantage(scores, mask, groups),
        "mean_baseline": plain,
        "leave_one_out": core_algos.compute_rloo_outcome_advantage(scores, mask, groups),
    }
    return {"rewards": rewards.tolist(), "groups": groups.tolist()} | {
        name: value[0][:, 0].tolist() for name, value in made.items()
    }


def steps() -> list[dict[str, Any]]:
    """Whole steps in float32: advantages from rewards, and verl's loss of a forward pass, distance included."""
    rows = []
    for seed, (ours, theirs), kl, divide in product((5, 6), STEP_AGGREGATES.items(), (0.0, KL), (True, False)):
        step = made_step(seed)
        values = verl_advantages(step, divide=divide)
        more = {"loss_scale_factor": SCALE} if ours == "sequence-sum" else {}
        loss, _, _ = verl_loss(step, values, verl_config(theirs, STEP_CLIP, kl, **more), kl=kl > 0)
        case = {"step": step, "aggregate": ours, "kl": kl, "divide_by_std": divide, "loss": loss.item()}
        rows.append(case | {"advantages": values[:, 0].tolist()})
    return rows


def distances(given: dict[str, Any]) -> list[list[float]]:
    """verl's k3."""
    from verl.trainer.ppo import core_algos

    fixed = {name: torch.tensor(value) for name, value in given.items()}
    made: list[list[float]] = core_algos.kl_penalty_forward(
        fixed["logprobs"], fixed["reference"], "low_var_kl"
    ).tolist()
    return made


def main() -> None:
    """Write the table."""
    warnings.simplefilter("ignore")
    step_rows = steps()
    torch.set_default_dtype(torch.float64)
    given = [tensors(seed) for seed in (1, 2)]
    table = {
        "made_by": "make parity-table",
        "versions": {name: version(name) for name in ("verl", "trl")},
        "tensors": given,
        "losses": [row for at, one in enumerate(given) for row in verl_losses(one, at) + trl_losses(one, at)],
        "advantages": advantages(),
        "steps": step_rows,
        "k3": [distances(one) for one in given],
    }
    TABLE.write_text(json.dumps(_rounded(table), separators=(",", ":")) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return {name: _rounded(item) for name, item in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    sys.exit(main())
