"""Muon (Jordan et al., 2024): the momentum of a matrix is made orthogonal before it is applied; AdamW for the rest.

For models trained from nothing, which learn in fewer steps so. Updates of matrices are scaled to the size of AdamW's
(Liu et al., 2025, `0.2 sqrt(max(rows, columns))`), so one learning rate serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """One optimiser over groups; those with `orthogonal` true hold matrices alone."""

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(list(groups), {"betas": betas, "eps": epsilon, "orthogonal": False})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One update of every weight that has a gradient; `closure` is not asked."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
                change = self._orthogonal(weight) if group["orthogonal"] else self._adam(weight, group)
                weight.sub_(change, alpha=group["lr"])

    def _orthogonal(self, weight: torch.Tensor) -> torch.Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1.0 - _MOMENTUM)
        ahead = weight.grad.lerp(state["momentum"], _MOMENTUM)  # Nesterov
        return orthogonalised(ahead) * 0.2 * max(weight.shape) ** 0.5

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


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """About the orthogonal matrix next to `matrix` (all singular values near 1), by a Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    found = wide / (wide.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        square = found @ found.T
        found = a * found + (b * square + c * square @ square) @ found
    return found if matrix.shape[0] <= matrix.shape[1] else found.T
