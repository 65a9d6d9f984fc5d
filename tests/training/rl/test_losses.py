"""Losses: numbers worked by hand, gradients against a direct computation on a tiny model, steps cut into passes."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor

from saccade.training.rl.recipe import RlLossSettings
from saccade.training.rl.select import K3
from saccade.training.rl.step import (
    ClipBounds,
    LossInputs,
    Totals,
    clipped,
    clipped_policy_loss,
    policy_loss,
    sequence_mean,
    sequence_sum,
    token_mean,
)

MASK = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def row(*values: float) -> Tensor:
    return torch.tensor([values])


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "bounded"),
    [
        (1.0, 2.0, -2.0, False),
        (1.5, 1.0, -1.28, True),
        (1.5, -1.0, 1.5, False),
        (0.5, 1.0, -0.5, False),
        (0.5, -1.0, 0.8, True),
        (5.0, -1.0, 3.0, True),
        (5.0, 1.0, -1.28, True),
        # A small advantage is no other sign.
        (0.5, 0.5, -0.25, False),
        (1.5, 0.5, -0.64, True),
        (0.5, -0.5, 0.4, True),
    ],
)
def test_clip_by_hand(ratio: float, advantage: float, loss: float, bounded: bool) -> None:
    clip = ClipBounds(low=0.2, high=0.28, dual=3.0)
    given = (row(math.log(ratio)), row(0.0), row(advantage), clip)
    assert clipped_policy_loss(*given).item() == pytest.approx(loss)
    assert clipped(*given).item() is bounded


def test_the_dual_clip_of_the_settings_reaches_the_loss() -> None:
    # One token of ratio 5 and advantage -1: 5, or 3 with a dual clip of 3; then no gradient flows.
    for dual, expected, slope in ((0.0, 5.0, 5.0), (3.0, 3.0, 0.0), (10.0, 5.0, 5.0)):
        logprobs = row(math.log(5)).requires_grad_()
        given = LossInputs(logprobs, row(0.0), row(-1.0), row(1.0))
        loss, sums = policy_loss(given, RlLossSettings(dual_clip=dual))
        loss.backward()
        assert loss.item() == pytest.approx(expected)
        assert logprobs.grad is not None
        assert logprobs.grad.item() == pytest.approx(slope)
        assert sums.clipped == (slope == 0.0)


def test_a_pass_of_no_tokens_has_no_gap() -> None:
    nothing = torch.zeros(2, 0)
    loss, sums = policy_loss(LossInputs(nothing, nothing, nothing, nothing), RlLossSettings())
    assert (loss.item(), sums.tokens, sums.max_logprob_diff) == (0.0, 0.0, 0.0)


def test_aggregation_by_hand() -> None:
    values = torch.tensor([[1.0, 2.0, 100.0], [6.0, 100.0, 100.0]])
    assert token_mean(values, MASK).item() == pytest.approx(3)
    assert sequence_mean(values, MASK).item() == pytest.approx(3.75)
    assert sequence_sum(values, MASK, scale=3).item() == pytest.approx(1.5)
    nothing = torch.zeros_like(MASK)
    assert [f(values, nothing).item() for f in (token_mean, sequence_mean)] == [0, 0]


def test_k3_by_hand() -> None:
    assert K3(row(0.0), row(0.0)).item() == 0
    assert K3(row(0.0), row(math.log(2))).item() == pytest.approx(2 - math.log(2) - 1)
    assert (K3(torch.randn(50), torch.randn(50)) >= 0).all()


@pytest.mark.parametrize(("name", "expected"), [("k1", -0.5), ("k2", 0.125), ("k3", math.exp(0.5) - 1.5), ("abs", 0.5)])
def test_the_loss_uses_the_estimator_that_the_settings_name(name: str, expected: float) -> None:
    logprobs = row(-1.5).requires_grad_()
    inputs = LossInputs(logprobs, row(-1.5), row(0.0), row(1.0), reference=row(-1.0))
    loss, sums = policy_loss(inputs, RlLossSettings(kl_weight=2.0, kl=name))
    assert loss.item() == pytest.approx(2.0 * expected)
    assert sums.kl == pytest.approx(expected)
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.item() != 0


class Policy(torch.nn.Module):
    """A policy of 60 weights: embedding, then logits of the next token."""

    def __init__(self, vocabulary: int = 6) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = torch.nn.Parameter(torch.randn(vocabulary, 5, generator=generator))
        self.head = torch.nn.Parameter(torch.randn(5, vocabulary, generator=generator))

    def logits(self, ids: Tensor) -> Tensor:
        return torch.tanh(self.embedding[ids[:, :-1]]) @ self.head

    def logprobs(self, ids: Tensor) -> Tensor:
        every = torch.log_softmax(self.logits(ids), dim=-1)
        return every.gather(-1, ids[:, 1:, None]).squeeze(-1)

    def entropy(self, ids: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=self.logits(ids)).entropy()


IDS = torch.tensor([[0, 1, 2, 3], [0, 4, 5, 5]])
ADVANTAGES = torch.tensor([[1.0, -1.0, 5.0], [0.5, -2.0, 5.0]])
SAMPLED = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
DRIFT = torch.tensor([[0.3, -0.5, 0.0], [0.05, 0.1, 0.0]])


def gradient(policy: Policy, loss: Tensor) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(policy.parameters()))])


def inputs(policy: Policy) -> LossInputs:
    logprobs = policy.logprobs(IDS)
    return LossInputs(
        logprobs, logprobs.detach() - DRIFT, ADVANTAGES, SAMPLED, logprobs.detach() + 0.4, policy.entropy(IDS)
    )


def test_gradient_on_policy_is_reinforce() -> None:
    policy = Policy()
    made = inputs(policy)
    on_policy = LossInputs(made.logprobs, made.logprobs.detach(), ADVANTAGES, SAMPLED)
    loss, sums = policy_loss(on_policy, RlLossSettings())
    direct = -(ADVANTAGES * SAMPLED * policy.logprobs(IDS)).sum() / 4
    assert torch.allclose(gradient(policy, loss), gradient(policy, direct), atol=1e-6)
    assert (sums.tokens, sums.clipped, sums.max_logprob_diff) == (4, 0, 0)


@pytest.mark.parametrize("aggregate", ["token-mean", "sequence-mean", "sequence-sum"])
def test_gradient_is_that_of_a_direct_computation(aggregate: str) -> None:
    policy = Policy()
    settings = RlLossSettings.model_validate(
        {"clip_high": 0.28, "aggregate": aggregate, "scale": 3.0, "kl_weight": 0.1, "entropy_weight": 0.01}
    )
    loss, sums = policy_loss(inputs(policy), settings)
    expected = 0.0
    weights = {"token-mean": 1 / 4, "sequence-mean": 1 / 2 / 2, "sequence-sum": 1 / 2 / 3}
    for i in range(2):
        for t in range(2):
            probabilities = torch.softmax(policy.logits(IDS)[i, t], dim=-1)
            chosen = probabilities[IDS[i, t + 1]]
            before = chosen.detach() * math.exp(-DRIFT[i, t].item())
            reference = chosen.detach() * math.exp(0.4)
            ratio, a = chosen / before, ADVANTAGES[i, t].item()
            term = -min(ratio * a, ratio.clamp(0.8, 1.28) * a, key=lambda x: x.item())
            apart = reference / chosen
            term = term + 0.1 * (apart - torch.log(apart) - 1)
            term = term + 0.01 * (probabilities * torch.log(probabilities)).sum()
            expected = expected + weights[aggregate] * term
    assert isinstance(expected, Tensor)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient(policy, loss), gradient(policy, expected), atol=1e-5)
    # Ratios are e^0.3 with A > 0 (above 1.28) and e^-0.5 with A < 0 (below 0.8); the others lie inside.
    assert sums.clipped == 2
    assert sums.max_logprob_diff == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("aggregate", ["token-mean", "sequence-mean", "sequence-sum"])
def test_a_step_cut_into_passes_has_the_gradient_of_the_whole(aggregate: str) -> None:
    policy = Policy()
    settings = RlLossSettings.model_validate({"aggregate": aggregate, "scale": 2.0})
    full = inputs(policy)
    mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    parts = [
        LossInputs(full.logprobs[i : i + 1], full.behaviour[i : i + 1], ADVANTAGES[i : i + 1], mask[i : i + 1])
        for i in range(2)
    ]
    uncut, _ = policy_loss(LossInputs(full.logprobs, full.behaviour, ADVANTAGES, mask), settings)
    passes = [policy_loss(part, settings, Totals(tokens=4, sequences=2))[0] for part in parts]
    assert sum(passes).item() == pytest.approx(uncut.item(), abs=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("rubbish", [float("nan"), -float("inf"), 1e9])
def test_what_was_not_sampled_may_be_anything(rubbish: float) -> None:
    policy, settings = Policy(), RlLossSettings(kl_weight=0.1)
    clean = inputs(policy)
    expected, sums = policy_loss(inputs(policy), settings)
    hole = SAMPLED == 0
    dirty = [
        tensor.masked_fill(hole, rubbish)
        for tensor in (clean.logprobs, clean.behaviour, clean.advantages, clean.reference, clean.entropy)
        if tensor is not None
    ]
    loss, again = policy_loss(LossInputs(dirty[0], dirty[1], dirty[2], SAMPLED.bool(), dirty[3], dirty[4]), settings)
    assert loss.item() == expected.item()
    assert torch.equal(gradient(policy, loss), gradient(policy, expected))
    assert again == sums


@pytest.mark.parametrize("setting", ["kl_weight", "entropy_weight"])
def test_a_missing_tensor_is_named(setting: str) -> None:
    made = LossInputs(MASK, MASK, MASK, MASK)
    with pytest.raises(ValueError, match=setting):
        policy_loss(made, RlLossSettings.model_validate({setting: 0.1}))


def test_far_log_ratios_are_bounded_both_ways() -> None:
    # exp(20) is 4.85e8; half precision ends at 6.55e4 and single precision at exp(88).
    far = clipped_policy_loss(row(100.0), row(0.0), row(-1.0), ClipBounds())
    assert far.item() == pytest.approx(485165195.4, rel=1e-6)
    assert K3(row(-100.0), row(0.0)).item() == pytest.approx(485165195.4 - 21, rel=1e-6)
    assert K3(row(100.0), row(0.0)).item() == pytest.approx(19.0)  # exp(-20) + 20 - 1
    assert K3(row(-19.5), row(0.0)).item() == pytest.approx(math.exp(19.5) - 20.5, rel=1e-6)


def test_one_token_alone_weighs_its_whole_value() -> None:
    values, mask = torch.tensor([[9.0, 4.0], [9.0, 9.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    assert token_mean(values, mask).item() == 4
    assert sequence_mean(values, mask).item() == 4  # the row without a token is no rollout
    assert sequence_sum(values, mask, scale=2.0).item() == 2
    assert sequence_sum(values, torch.zeros(2, 2), scale=2.0).item() == 0


def test_what_a_run_logs_by_hand() -> None:
    given = LossInputs(
        logprobs=row(0.0, -1.0, 7.0),
        behaviour=row(math.log(2), -1.0, 0.0),  # ratios 1/2 and 1; the third token was not sampled
        advantages=row(-1.0, 1.0, 1.0),
        mask=row(1.0, 1.0, 0.0),
        reference=row(math.log(2), -1.0, 0.0),
        entropy=row(math.log(4), math.log(4), 99.0),
    )
    loss, sums = policy_loss(given, RlLossSettings(kl_weight=0.5, entropy_weight=0.25))
    kl = 1 - math.log(2)  # k3 of log 2
    assert sums.tokens == 2
    assert sums.clipped == 1
    assert sums.kl == pytest.approx(kl)
    assert sums.entropy == pytest.approx(2 * math.log(4))
    assert sums.max_logprob_diff == pytest.approx(math.log(2))
    assert loss.item() == pytest.approx((0.8 - 1.0 + 0.5 * kl - 0.25 * 2 * math.log(4)) / 2)


def test_the_policy_alone_learns() -> None:
    logprobs, others = row(0.1).requires_grad_(), [row(0.0).requires_grad_() for _ in range(3)]
    loss, _ = policy_loss(
        LossInputs(logprobs, others[0], others[1], row(1.0), others[2]), RlLossSettings(kl_weight=1.0)
    )
    loss.backward()
    assert logprobs.grad is not None
    assert [tensor.grad for tensor in others] == [None, None, None]


def test_bounds_at_their_ends_are_accepted() -> None:
    for low, high, dual in ((0.0, 0.0, None), (1.0, 0.0, 1.001), (0.0, 9.0, 3.0)):
        assert ClipBounds(low=low, high=high, dual=dual).dual == dual
    for low, high, dual in ((1.001, 0.2, None), (-0.001, 0.2, None), (0.2, -0.001, None), (0.2, 0.2, 0.5)):
        with pytest.raises(ValueError, match="clip needs"):
            ClipBounds(low=low, high=high, dual=dual)
