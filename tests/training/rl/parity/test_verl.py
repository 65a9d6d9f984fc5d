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

from saccade.training.rl.recipe import RlLossSettings
from saccade.training.rl.rollout import standardised
from saccade.training.rl.step import LossInputs, policy_loss
from saccade.training.weights import LogitRules, token_scores

# verl and what it imports warn on the way in.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def core() -> Any:
    pytest.importorskip("verl", reason="make parity installs it")
    from verl.trainer.ppo import core_algos

    return core_algos


def test_entropy(core: Any) -> None:
    mask = (torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) > 0.3).float()
    logits = torch.randn(6, 9, 11, generator=torch.Generator().manual_seed(2))
    expected = core.compute_entropy_loss(logits, mask)
    rules = LogitRules(torch.zeros(11, dtype=torch.bool), torch.ones(1), chunk=5)
    found = token_scores(logits.flatten(0, 1), torch.eye(11), torch.zeros(54, dtype=torch.int64), rules).entropy
    mine = (found.view(6, 9) * mask).sum() / mask.sum()
    assert mine.item() == pytest.approx(expected.item(), abs=1e-5)


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
