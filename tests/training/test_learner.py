"""What a learner is made of: weights and work shared out, the optimizer, and the scores of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.training.support import allocated
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from saccade.errors import SettingsError, TrainingError
from saccade.tokens.batch import work
from saccade.training import parallel
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.launch import complete
from saccade.training.learner import MuonWithAdamW, keepers, optimizer_tensors, restore_optimizer
from saccade.training.parallel import Processes
from saccade.training.settings import KeepSettings
from saccade.training.weights import LogitRules, TokenScorer, TokenScores, token_scores


class Pretended(Processes):
    """One of several processes that never exchange anything."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


def test_every_weight_has_one_keeper_and_none_has_too_much() -> None:
    sizes = {f"w{number}": 1 + number * 37 % 101 for number in range(60)} | {"embedding": 400}
    found = keepers(sizes, 4)
    assert found.keys() == sizes.keys()
    loads = [sum(size for name, size in sizes.items() if found[name] == rank) for rank in range(4)]
    assert sum(loads) == sum(sizes.values())
    assert max(loads) - min(loads) <= max(size for name, size in sizes.items() if name != "embedding")
    assert found == keepers(dict(reversed(sizes.items())), 4)


@pytest.mark.parametrize("items", [0, 1, 5, 6])
def test_turns_are_equally_many_and_hold_every_item_once(items: int) -> None:
    turns = [Pretended(rank, 3).balanced_shares(range(items), [1.0] * items) for rank in range(3)]
    assert {len(part) for part in turns} == {-(-items // 3)}
    assert sorted(item for part in turns for item in part if item is not None) == list(range(items))


def test_turns_are_about_equally_much_work() -> None:
    sizes = [9.0, 1.0, 8.0, 1.0, 7.0, 1.0, 6.0, 1.0]
    turns = [Pretended(rank, 2).balanced_shares(sizes, sizes) for rank in range(2)]
    assert [sum(size or 0.0 for size in part) for part in turns] == [17.0, 17.0]
    assert {len(part) for part in turns} == {4}


def test_what_was_shared_out_comes_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [[item * 10 for item in Pretended(rank, 3).share(range(7))] for rank in range(3)]
    first = Pretended(0, 3)
    monkeypatch.setattr(first, "all_gather", lambda own: shares)
    assert first.gather_shares(shares[0]) == [0, 10, 20, 30, 40, 50, 60]


def test_a_checkpoint_that_several_wrote_is_read_as_one(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, KeepSettings(), Processes(cpu=True))
    kept.save(RunState(3, 0, "data"), {"a": torch.zeros(2)}, {"a/step": torch.tensor(3.0)})
    folder = kept.finish()
    assert folder is not None
    save_file({"b": torch.ones(1)}, folder / "weights-1.safetensors")
    save_file({"b/step": torch.tensor(4.0)}, folder / "optimiser-1.safetensors")
    found = kept.latest()
    assert found is not None
    _, weights, optimizer = found
    assert {name: value.tolist() for name, value in weights.items()} == {"a": [0, 0], "b": [1]}
    assert {name: float(value) for name, value in optimizer.items()} == {"a/step": 3, "b/step": 4}


Weights = dict[str, torch.nn.Parameter]


def optimized() -> tuple[Weights, MuonWithAdamW]:
    weights = {
        "matrix": torch.nn.Parameter(torch.randn((6, 4), generator=torch.Generator().manual_seed(0))),
        "bias": torch.nn.Parameter(torch.linspace(-1.0, 1.0, 7)),
    }
    groups = [
        {"params": [weight], "lr": 0.01, "weight_decay": 0.1, "orthogonal": name == "matrix"}
        for name, weight in weights.items()
    ]
    return weights, MuonWithAdamW(groups, betas=(0.9, 0.98), epsilon=1e-8)


def step(weights: Weights, optimizer: MuonWithAdamW, number: int) -> None:
    for weight in weights.values():
        weight.grad = torch.sin(weight.detach() * (number + 1))
    optimizer.step()


def test_matrices_move_by_orthogonal_updates_of_adamws_size_and_the_rest_by_adamw() -> None:
    weights, optimizer = optimized()
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    alone = torch.nn.Parameter(before["bias"].clone())
    adamw = torch.optim.AdamW([alone], lr=0.01, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
    step(weights, optimizer, 0)
    alone.grad = torch.sin(alone.detach())
    adamw.step()
    assert torch.equal(weights["bias"], alone)
    moved = before["matrix"] * (1 - 0.01 * 0.1) - weights["matrix"].detach()
    values = torch.linalg.svdvals(moved / (0.01 * 0.2 * 6**0.5))
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.4


def test_a_stored_state_goes_on_exactly() -> None:
    whole, optimizer = optimized()
    for number in range(2):
        step(whole, optimizer, number)
    again, other = optimized()
    with torch.no_grad():
        for name, weight in again.items():
            weight.copy_(whole[name])
    restore_optimizer(other, again, {key: value.clone() for key, value in optimizer_tensors(optimizer, whole).items()})
    step(whole, optimizer, 2)
    step(again, other, 2)
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())


def test_what_has_no_gradient_stays() -> None:
    weights, optimizer = optimized()
    optimizer.step()
    assert torch.equal(weights["matrix"], optimized()[0]["matrix"])


class Doubled(Processes):
    """One of two processes that have the same gradients."""

    def __init__(self) -> None:
        self.rank, self.count = 0, 2


@pytest.mark.parametrize("size", [1, 5, 12, 1000])
def test_every_gradient_is_summed_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged: list[int] = []

    def doubled(flat: torch.Tensor) -> None:
        exchanged.append(flat.numel())
        flat *= 2

    monkeypatch.setattr(parallel, "_BUNDLE", size)
    monkeypatch.setattr(torch.distributed, "all_reduce", doubled)
    single, double = torch.float32, torch.float64
    kinds = (((2, 3), single), ((4,), single), ((3,), double), ((5,), single))
    weights = [torch.nn.Parameter(torch.zeros(shape, dtype=kind)) for shape, kind in kinds]
    for number, weight in enumerate(weights[:-1], start=1):
        weight.grad = torch.full_like(weight, number)
    Doubled().sum_gradients(weights)
    assert [weight.grad.unique().tolist() for weight in weights if weight.grad is not None] == [[2], [4], [6], [0]]
    assert sum(exchanged) == 18
    assert max(exchanged) <= max(size, 10), "kinds stay apart, and a bundle has a limit"


def test_work_grows_with_rows_and_faster_than_a_row_does() -> None:
    short, several, long = work([100, 100, 1600, 1600, 3200], [[0], [0, 1], [4]])
    assert short < several < long
    assert sum(work([1600, 1600], [[0, 1]])) < long, "attention costs more in one long row than in two"


def test_a_completed_program_leaves_its_group(tmp_path: Path) -> None:
    """A group that is there when Python ends may abort the process: threads of gloo still hold tensors."""
    seen: list[bool] = []

    def program() -> None:
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
        seen.append(torch.distributed.is_initialized())

    complete(program, ())
    complete(lambda: None, ())
    assert seen == [True]
    assert not torch.distributed.is_initialized()


def test_more_processes_than_gpus_are_refused_before_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(SettingsError, match=r"2 processes .* torch sees 1\. Start as many, --processes 1"):
        Processes()


TOKENS, SIZE, VOCABULARY = 37, 24, 501


def scored(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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
    hidden, weight, targets, forbidden = scored()
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
    hidden, weight, targets, forbidden = scored()
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
    hidden, weight, targets, forbidden = scored()
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
        scored = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(scored):
            if isinstance(leaf, Tensor):
                self.elements = max(self.elements, leaf.numel())
        return scored


def test_no_tensor_is_as_large_as_all_logits() -> None:
    """Neither forward nor backward: the largest are those of a chunk, and the head itself."""
    hidden, weight, targets, forbidden = scored()
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
