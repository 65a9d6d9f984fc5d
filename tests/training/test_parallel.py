"""What is exchanged at once, and that a gradient becomes the sum whatever the bundles are."""

from pathlib import Path

import pytest
import torch

from saccade.errors import SettingsError
from saccade.tokens.batch import work
from saccade.training import parallel
from saccade.training.launch import complete
from saccade.training.parallel import Processes


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
