"""Who keeps which weight, what each process computes, and checkpoints of several files."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.learner import keepers
from saccade.training.parallel import Processes


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
    kept = Checkpoints(tmp_path, 2, Processes(cpu=True))
    folder = kept.save(RunState(3, 0, "data"), {"a": torch.zeros(2)}, {"a/step": torch.tensor(3.0)})
    save_file({"b": torch.ones(1)}, folder / "weights-1.safetensors")
    save_file({"b/step": torch.tensor(4.0)}, folder / "optimiser-1.safetensors")
    found = kept.latest()
    assert found is not None
    _, weights, optimizer = found
    assert {name: value.tolist() for name, value in weights.items()} == {"a": [0, 0], "b": [1]}
    assert {name: float(value) for name, value in optimizer.items()} == {"a/step": 3, "b/step": 4}
