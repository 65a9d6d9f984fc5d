"""Ours against numbers that verl and TRL made; `make_table.py` wrote them, and `make parity` runs both beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.training.rl.parity.steps import SCALE, STEP_CLIP, padded

from saccade.training.rl.recipe import RlLossSettings
from saccade.training.rl.rollout import leave_one_out, mean_baseline, standardised
from saccade.training.rl.select import K3
from saccade.training.rl.step import LossInputs, policy_loss

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("table.json").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = TABLE["losses"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['by']}-{row['tensors']}-{row['aggregate']}-{row['clip']}")
def test_losses_and_gradients(row: dict[str, Any]) -> None:
    fixed = {name: torch.tensor(value, dtype=torch.float64) for name, value in TABLE["tensors"][row["tensors"]].items()}
    low, high, dual = row["clip"]
    settings = RlLossSettings.model_validate(
        {
            "clip_low": low,
            "clip_high": high,
            "dual_clip": dual or 0.0,
            "aggregate": row["aggregate"],
            "scale": row["scale"],
            "kl_weight": row["kl"],
        }
    )
    logprobs = fixed["logprobs"].clone().requires_grad_()
    inputs = LossInputs(logprobs, fixed["behaviour"], fixed["advantages"], fixed["mask"], fixed["reference"])
    loss, sums = policy_loss(inputs, settings)
    assert loss.item() == pytest.approx(row["loss"], abs=1e-8)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert torch.allclose(gradient, torch.tensor(row["gradient"], dtype=torch.float64), atol=1e-8)
    if row["clipped"] is not None:
        assert sums.clipped / sums.tokens == pytest.approx(row["clipped"], abs=1e-6)


@pytest.mark.parametrize("estimate", [standardised, mean_baseline, leave_one_out])
def test_advantages(estimate: Any) -> None:
    expected = TABLE["advantages"]
    rewards, groups = np.array(expected["rewards"]), np.array(expected["groups"])
    assert estimate(rewards, groups) == pytest.approx(expected[estimate.__name__], abs=1e-6)


@pytest.mark.parametrize(
    "row", TABLE["steps"], ids=lambda row: f"{row['aggregate']}-{row['kl']}-{row['divide_by_std']}"
)
def test_whole_steps_in_float32(row: dict[str, Any]) -> None:
    """From rewards to the loss, as verl's trainer makes it."""
    step = row["step"]
    estimate = standardised if row["divide_by_std"] else mean_baseline
    advantages = estimate(np.array(step["rewards"]), np.array(step["groups"]))
    assert advantages == pytest.approx(row["advantages"], abs=1e-5)
    mask = padded(step["mask"])
    settings = RlLossSettings.model_validate(
        {
            "clip_low": STEP_CLIP[0],
            "clip_high": STEP_CLIP[1],
            "dual_clip": STEP_CLIP[2],
            "aggregate": row["aggregate"],
            "scale": SCALE,
            "kl_weight": row["kl"],
        }
    )
    inputs = LossInputs(
        padded(step["logprobs"]),
        padded(step["behaviour"]),
        torch.tensor(advantages, dtype=torch.float32)[:, None] * mask,
        mask,
        padded(step["reference"]),
    )
    loss, _ = policy_loss(inputs, settings)
    assert loss.dtype is torch.float32
    assert loss.item() == pytest.approx(row["loss"], abs=1e-5)


@pytest.mark.parametrize("at", range(len(TABLE["k3"])))
def test_distances(at: int) -> None:
    fixed = {name: torch.tensor(value, dtype=torch.float64) for name, value in TABLE["tensors"][at].items()}
    expected = torch.tensor(TABLE["k3"][at], dtype=torch.float64)
    assert torch.allclose(K3(fixed["logprobs"], fixed["reference"]), expected, atol=1e-8)
