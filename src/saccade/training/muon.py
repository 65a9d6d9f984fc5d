"""Muon (Jordan et al., 2024): the momentum of a matrix is made orthogonal before it is applied; AdamW for the rest.

For models trained from nothing, which learn in fewer steps so. Updates of matrices are scaled to the size of AdamW's
(Liu et al., 2025, `0.2 sqrt(max(rows, columns))`), so one learning rate serves both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from saccade.training.divide import full_tensor, like

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """One optimizer over groups; those with `orthogonal` true hold matrices alone."""

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(list(groups), {"betas": betas, "eps": epsilon, "orthogonal": False})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One update of every weight that has a gradient; `closure` is not asked."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
            changes = self._orthogonal(weights) if group["orthogonal"] else [self._adam(w, group) for w in weights]
            for weight, change in zip(weights, changes, strict=True):
                weight.sub_(change, alpha=group["lr"])

    def _orthogonal(self, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        """Matrices of one shape go through the iteration together: many small products cost more than a large one.

        Where weights are divided, every process does it for whole matrices.
        """
        ahead = [full_tensor(self._ahead(weight)) for weight in weights]
        tensors: list[torch.Tensor] = list(ahead)
        shapes = defaultdict(list)
        for number, matrix in enumerate(ahead):
            shapes[matrix.shape].append(number)
        for shape, numbers in shapes.items():
            together = orthogonalised(torch.stack([ahead[number] for number in numbers]))
            for number, matrix in zip(numbers, together, strict=True):
                tensors[number] = like(weights[number], matrix * 0.2 * max(shape) ** 0.5)
        return tensors

    def _ahead(self, weight: torch.Tensor) -> torch.Tensor:
        """Nesterov's momentum."""
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1.0 - _MOMENTUM)
        return weight.grad.lerp(state["momentum"], _MOMENTUM)

    def _adam(self, weight: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
        first, second = group["betas"]
        state["step"] += 1
        state["mean"].lerp_(weight.grad, 1.0 - first)
        state["square"].lerp_(weight.grad.square(), 1.0 - second)
        step = float(state["step"])
        root = (state["square"] / (1.0 - second**step)).sqrt_().add_(group["eps"])
        return state["mean"] / root / (1.0 - first**step)


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """About the orthogonal matrix next to each of `matrices`, by a Newton-Schulz iteration in bfloat16.

    Args:
        matrices: (matrices, rows, columns), each by itself. All singular values of the results are near 1; the
            iteration is made for so little precision.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    matrix = (matrices.mT if tall else matrices).bfloat16()
    matrix = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = matrix @ matrix.mT
        matrix = torch.baddbmm(matrix, torch.baddbmm(square, square, square, beta=b, alpha=c), matrix, beta=a)
    return (matrix.mT if tall else matrix).to(matrices.dtype)
