"""Parts of a model whose weights are gathered together where they are divided; and callbacks of a training run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from saccade.models.families.base import ModelFamily

if TYPE_CHECKING:
    import torch


def decoder_layers(model: Any) -> list[Any]:
    """Return the layers of the language model in order."""
    return list(model.model.language_model.layers)


def vision_modules(model: Any, family: ModelFamily) -> list[Any]:
    """Return the modules of the vision tower, without a separate projector."""
    parts = set(family.vision_parts) - set(family.projector_parts)
    return [module for name, module in model.model.named_children() if name in parts]


def swap_tensors(model: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace each weight and buffer by `make(it)`; shared tensors stay shared."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, value in tensors.items():
                if value is not None:
                    if id(value) not in made:
                        made[id(value)] = make(value)
                    tensors[name] = made[id(value)]


Metrics: TypeAlias = Mapping[str, float | int]


class TrainingCallback:
    """Follows a run in the process that writes; override what you need, each method does nothing."""

    def begins(self, done: int, total: int) -> None:
        """Hear that training begins after `done` of `total` steps."""

    def step(self, number: int, values: Metrics) -> None:
        """Hear that step `number` (from 1) is done."""

    def validated(self, number: int, values: Metrics) -> None:
        """Hear that held-out data were evaluated after `number` steps."""

    def saved(self, path: Path) -> None:
        """Hear that a checkpoint, or the trained model, was written there."""
