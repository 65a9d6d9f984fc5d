"""The same tensors through verl's functions and ours. `make parity` installs verl and runs these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.training.rl.parity.steps import (
    SCALE,
    STEP_AGGREGATES,
    made_step,
    padded,
    verl_advantages,
    verl_config,
    verl_loss,
)

from saccade.training.rl.kl import K3
from saccade.training.rl.recipe import RlLossSettings
from saccade.training.rl.rollout import leave_one_out, mean_baseline, standardised
from saccade.training.rl.step import LossInputs, policy_loss
from saccade.training.token_scores import LogitRules, token_scores

# verl and what it imports warn on the way in.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

AGGREGATES = {
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "sequence-sum": "seq-mean-token-sum",
}


@pytest.fixture(scope="module")
def core() -> Any:
    pytest.importorskip("verl", reason="make parity installs it")
    from verl.trainer.ppo import core_algos

    return core_algos


@pytest.fixture
def tensors() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)
    mask = (torch.rand(6, 9, generator=generator) > 0.3).float()
    mask[:, 0] = 1
    logprobs = -torch.rand(6, 9, generator=generator)
    return {
        "mask": mask,
        "logprobs": logprobs,
        # Wide enough that every bound is met.
        "behaviour": logprobs + torch.randn(6, 9, generator=generator),
        "reference": logprobs + 0.3 * torch.randn(6, 9, generator=generator),
        "advantages": torch.randn(6, 9, generator=generator),
    }


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("clip", [(0.2, 0.2, 3.0), (0.2, 0.28, 10.0)])
def test_policy_loss_and_gradient(
    core: Any, tensors: dict[str, Any], aggregate: str, clip: tuple[float, float, float]
) -> None:
    from verl.workers.config import ActorConfig

    low, high, dual = clip
    config = ActorConfig(
        strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=dual
    )
    theirs = tensors["logprobs"].clone().requires_grad_()
    ours = tensors["logprobs"].clone().requires_grad_()
    expected, metrics = core.compute_policy_loss_vanilla(
        tensors["behaviour"], theirs, tensors["advantages"], tensors["mask"], AGGREGATES[aggregate], config
    )
    settings = RlLossSettings.model_validate(
        {"clip_low": low, "clip_high": high, "dual_clip": dual, "aggregate": aggregate}
    )
    loss, sums = policy_loss(LossInputs(ours, tensors["behaviour"], tensors["advantages"], tensors["mask"]), settings)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    (expected_gradient,) = torch.autograd.grad(expected, theirs)
    (gradient,) = torch.autograd.grad(loss, ours)
    assert torch.allclose(gradient, expected_gradient, atol=1e-6)
    share = metrics["actor/pg_clipfrac"] + metrics["actor/pg_clipfrac_lower"]
    assert sums.clipped / sums.tokens == pytest.approx(share, abs=1e-6)


def test_k3(core: Any, tensors: dict[str, Any]) -> None:
    expected = core.kl_penalty_forward(tensors["logprobs"], tensors["reference"], "low_var_kl")
    assert torch.allclose(K3(tensors["logprobs"], tensors["reference"]), expected, atol=1e-6)


def test_entropy(core: Any, tensors: dict[str, Any]) -> None:
    logits = torch.randn(6, 9, 11, generator=torch.Generator().manual_seed(2))
    expected = core.compute_entropy_loss(logits, tensors["mask"])
    rules = LogitRules(torch.zeros(11, dtype=torch.bool), torch.ones(1), chunk=5)
    found = token_scores(logits.flatten(0, 1), torch.eye(11), torch.zeros(54, dtype=torch.int64), rules).entropy
    mine = (found.view(6, 9) * tensors["mask"]).sum() / tensors["mask"].sum()
    assert mine.item() == pytest.approx(expected.item(), abs=1e-5)


def test_group_advantages(core: Any) -> None:
    rng = np.random.default_rng(0)
    rewards, groups = rng.normal(size=24), np.repeat(np.arange(3), 8)
    order = rng.permutation(24)
    rewards, groups = rewards[order], groups[order]
    scores, mask = torch.tensor(rewards)[:, None], torch.ones(24, 1)
    expected = {
        standardised: core.compute_grpo_outcome_advantage(scores, mask, groups)[0],
        mean_baseline: core.compute_grpo_outcome_advantage(scores, mask, groups, norm_adv_by_std_in_grpo=False)[0],
        leave_one_out: core.compute_rloo_outcome_advantage(scores, mask, groups)[0],
    }
    for estimate, theirs in expected.items():
        assert estimate(rewards, groups) == pytest.approx(theirs[:, 0].numpy(), abs=1e-6), estimate.__name__


@pytest.mark.parametrize("aggregate", STEP_AGGREGATES)
@pytest.mark.parametrize("kl", [0.0, 0.05])
def test_a_step_of_verl_s_trainer_with_our_plug_in(core: Any, aggregate: str, kl: float) -> None:
    """Advantages that our sampler writes pass verl's estimator, and its loss of a forward pass is ours, in float32."""
    from verl.workers.config import PolicyLossConfig

    import saccade.plugins.verl.plugin  # noqa: F401  # registers both

    step, clip = made_step(9), (0.2, 0.28, 3.0)
    mask = padded(step["mask"])
    ours = standardised(np.array(step["rewards"]), np.array(step["groups"]))
    written = torch.tensor(ours, dtype=torch.float32)[:, None].expand_as(mask)
    passed, _ = core.get_adv_estimator_fn("saccade")(token_level_rewards=written, response_mask=mask, index=None)
    assert torch.allclose(passed, verl_advantages(step, divide=True), atol=1e-5)
    more = {"loss_scale_factor": SCALE} if aggregate == "sequence-sum" else {}
    config = verl_config(
        STEP_AGGREGATES[aggregate], clip, kl, policy_loss=PolicyLossConfig(loss_mode="saccade"), **more
    )
    expected, given, metrics = verl_loss(step, passed, config, kl=kl > 0)
    (theirs,) = torch.autograd.grad(expected, given)
    low, high, dual = clip
    settings = RlLossSettings.model_validate(
        {"clip_low": low, "clip_high": high, "dual_clip": dual, "aggregate": aggregate, "scale": SCALE, "kl_weight": kl}
    )
    logprobs = padded(step["logprobs"]).requires_grad_()
    inputs = LossInputs(logprobs, padded(step["behaviour"]), passed, mask, padded(step["reference"]))
    loss, sums = policy_loss(inputs, settings)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    lengths = [len(row) for row in step["mask"]]
    split = theirs.split([prompt + length for prompt, length in zip(step["prompts"], lengths, strict=True)])
    for mine, row, prompt, length in zip(gradient, split, step["prompts"], lengths, strict=True):
        assert torch.allclose(mine[:length], row[prompt - 1 : prompt - 1 + length], atol=1e-6)
    assert float(metrics["actor/logprob_gap"].aggregate()) == pytest.approx(sums.max_logprob_diff, abs=1e-6)


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5,), (3, 6, 4), (4, 4), (12, 4)])
def test_positions_of_rows_of_one_length_can_be_taken_apart(core: Any, lengths: tuple[int, ...]) -> None:
    from tensordict import TensorDict
    from verl.utils import tensordict_utils

    import saccade.plugins.verl.plugin  # noqa: F401

    rows = [torch.arange(4 * length).reshape(4, length) + 100 * length for length in lengths]
    equal = len(set(lengths)) == 1
    joined = (
        torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        if equal
        else tensordict_utils.nested_tensor_from_tensor_list(rows, ragged_idx=2)
    )
    data = TensorDict({"position_ids": joined}, batch_size=len(rows))
    for _ in range(2):  # verl calls it again and again
        tensordict_utils.maybe_fix_3d_position_ids(data)
        apart = data["position_ids"].unbind()
        assert all(torch.equal(one, other) for one, other in zip(apart, rows, strict=True))
