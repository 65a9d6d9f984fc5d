"""Scores of chunks are those of the whole, gradients too, and no tensor is as large as all logits."""

from typing import Any

import pytest
import torch
from tests.training.support import allocated
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from saccade.errors import TrainingError
from saccade.training.token_scores import LogitRules, TokenScores, token_scores
from saccade.training.weights import TokenScorer

TOKENS, SIZE, VOCABULARY = 37, 24, 501


def made(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states, the head's weight, targets, and what is forbidden."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(TOKENS, SIZE, generator=generator, requires_grad=True)
    weight = torch.randn(VOCABULARY, SIZE, generator=generator, requires_grad=True)
    forbidden = torch.zeros(VOCABULARY, dtype=torch.bool)
    forbidden[[3, 400, 500]] = True
    targets = torch.randint(4, 400, (TOKENS,), generator=generator)
    targets[5] = int((hidden @ weight.T).masked_fill(forbidden, -torch.inf)[5].argmax())
    return hidden, weight, targets, forbidden


def at_once(hidden: Tensor, weight: Tensor, targets: Tensor, forbidden: Tensor, heat: float) -> TokenScores:
    """The same from all logits."""
    logits = torch.nn.functional.linear(hidden, weight).float()[:, ~forbidden] / heat
    places = (~forbidden).cumsum(0)[targets] - 1
    logprobs = torch.log_softmax(logits, -1)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    return TokenScores(logprobs.gather(-1, places[:, None])[:, 0], entropy, logits.argmax(-1) == places)


def gradients(scores: TokenScores, *leaves: Tensor, of_entropy: float) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 2, TOKENS)
    return torch.autograd.grad((scores.logprobs * weights + of_entropy * scores.entropy * weights.abs()).sum(), leaves)


@pytest.mark.parametrize("chunk", [1, 10, 37, 1000])
@pytest.mark.parametrize(("heat", "of_entropy"), [(1.0, 0.0), (0.7, 0.3)])
def test_chunks_give_what_all_at_once_gives(chunk: int, heat: float, of_entropy: float) -> None:
    hidden, weight, targets, forbidden = made()
    found = token_scores(hidden, weight, targets, LogitRules(forbidden, torch.tensor([heat]), chunk))
    expected = at_once(hidden, weight, targets, forbidden, heat)
    torch.testing.assert_close(found.logprobs, expected.logprobs)
    torch.testing.assert_close(found.entropy, expected.entropy)
    assert found.preferred[5]
    assert torch.equal(found.preferred, expected.preferred)
    ours = gradients(found, hidden, weight, of_entropy=of_entropy)
    for mine, other in zip(ours, gradients(expected, hidden, weight, of_entropy=of_entropy), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


def test_in_bfloat16_logits_are_those_that_autocast_makes() -> None:
    hidden, weight, targets, forbidden = made()
    with torch.autocast("cpu", torch.bfloat16):
        found = token_scores(hidden, weight, targets, LogitRules(forbidden, torch.ones(1), 10))
        expected = at_once(hidden, weight, targets, forbidden, 1.0)
    assert found.logprobs.dtype == torch.float32
    torch.testing.assert_close(found.logprobs, expected.logprobs)
    ours, theirs = (gradients(scores, hidden, weight, of_entropy=0.1) for scores in (found, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert float((mine - other).norm() / other.norm()) < 0.01


def test_a_frozen_head_gets_no_gradient_and_nothing_to_score_is_no_fault() -> None:
    hidden, weight, targets, forbidden = made()
    rules = LogitRules(forbidden, torch.ones(1), 10)
    scores = token_scores(hidden, weight.detach(), targets, rules)
    (own,) = gradients(scores, hidden, of_entropy=0.0)
    (expected,) = gradients(at_once(hidden, weight, targets, forbidden, 1.0), hidden, of_entropy=0.0)
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    assert token_scores(hidden[:0], weight, targets[:0], rules).logprobs.shape == (0,)


def test_a_head_with_a_bias_is_refused() -> None:
    class Biased(torch.nn.Module):
        def get_output_embeddings(self) -> Any:
            return torch.nn.Linear(2, 3)

    with pytest.raises(TrainingError, match="bias"):
        TokenScorer(Biased(), torch.zeros(3, dtype=torch.bool), 4)


class Largest(TorchDispatchMode):
    """The largest number of elements of any tensor that an operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, Tensor):
                self.elements = max(self.elements, leaf.numel())
        return made


def test_no_tensor_is_as_large_as_all_logits() -> None:
    """Neither forward nor backward: the largest are those of a chunk, and the head itself."""
    hidden, weight, targets, forbidden = made()
    with Largest() as chunked:
        scores = token_scores(hidden, weight, targets, LogitRules(forbidden, torch.ones(1), 4))
        gradients(scores, hidden, weight, of_entropy=0.1)
    with Largest() as peak:
        gradients(at_once(hidden, weight, targets, forbidden, 1.0), hidden, weight, of_entropy=0.1)
    assert peak.elements >= TOKENS * (VOCABULARY - 3)
    assert chunked.elements == SIZE * VOCABULARY


@pytest.mark.slow
def test_the_peak_of_memory_is_that_of_a_chunk() -> None:
    """As torch's profiler measures what its allocator holds."""
    tokens, vocabulary, size = 512, 8192, 16
    hidden, targets = torch.randn(tokens, size, requires_grad=True), torch.zeros(tokens, dtype=torch.int64)
    weight, forbidden = torch.randn(vocabulary, size, requires_grad=True), torch.zeros(vocabulary, dtype=torch.bool)
    peaks = {}
    for chunk in (32, tokens):
        rules = LogitRules(forbidden, torch.ones(1), chunk)

        def update(rules: LogitRules = rules) -> None:
            scores = token_scores(hidden, weight, targets, rules)
            (scores.logprobs.sum() + scores.entropy.sum()).backward()

        peaks[chunk] = allocated(update)
        hidden.grad = weight.grad = None
    logits = tokens * vocabulary * 4
    assert peaks[tokens] > 2 * logits
    assert peaks[32] < 0.3 * logits
