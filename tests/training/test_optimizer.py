"""Muon: matrices are orthogonalised, the rest is AdamW's, a stored state goes on exactly."""

import pytest
import torch

from saccade.training.optimizer import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5)])
def test_singular_values_come_near_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalised(matrix[None])[0])
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.4


def test_the_rest_is_adamw() -> None:
    start = torch.linspace(-1.0, 1.0, 7)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    group = {"lr": 0.01, "weight_decay": 0.1}
    muon = Muon([{"params": [ours], **group}], betas=(0.9, 0.98), epsilon=1e-8)
    adamw = torch.optim.AdamW([{"params": [theirs], **group}], betas=(0.9, 0.98), eps=1e-8)
    for step in range(5):
        for weight in (ours, theirs):
            weight.grad = torch.sin(start * (step + 1)) + weight.detach()
        muon.step()
        adamw.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_a_matrix_comes_to_the_least_of_a_bowl() -> None:
    wanted = torch.randn((6, 4), generator=torch.Generator().manual_seed(1))
    weight = torch.nn.Parameter(torch.zeros(6, 4))
    muon = Muon(
        [{"params": [weight], "lr": 0.02, "weight_decay": 0.0, "orthogonal": True}], betas=(0.9, 0.99), epsilon=1e-8
    )
    for _ in range(400):
        weight.grad = weight.detach() - wanted
        muon.step()
    assert float((weight.detach() - wanted).abs().max()) < 0.1


def test_what_has_no_gradient_stays() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    Muon([{"params": [weight], "lr": 0.1, "weight_decay": 0.5, "orthogonal": True}], (0.9, 0.99), 1e-8).step()
    assert torch.equal(weight.detach(), torch.ones(2, 2))
