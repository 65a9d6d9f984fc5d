"""Muon for matrices and AdamW for the rest: who updates which weight, and a stored state goes on exactly."""

import torch

from saccade.training.optimizer import MuonWithAdamW, optimizer_tensors, restore_optimizer

Weights = dict[str, torch.nn.Parameter]


def made() -> tuple[Weights, MuonWithAdamW]:
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
    weights, optimizer = made()
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
    whole, optimizer = made()
    for number in range(2):
        step(whole, optimizer, number)
    again, other = made()
    with torch.no_grad():
        for name, weight in again.items():
            weight.copy_(whole[name])
    restore_optimizer(other, again, {key: value.clone() for key, value in optimizer_tensors(optimizer, whole).items()})
    step(whole, optimizer, 2)
    step(again, other, 2)
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())


def test_what_has_no_gradient_stays() -> None:
    weights, optimizer = made()
    optimizer.step()
    assert torch.equal(weights["matrix"], made()[0]["matrix"])
