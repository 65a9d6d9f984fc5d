"""Weights, gradients and optimizer's state of one process, whole or divided among several.

Divided, each process keeps its share of every weight. What a forward pass needs is gathered: a layer at a time, with
the next one ahead of it; the vision tower, and what stands outside the layers (embeddings, last norm, head), for the
whole pass. While the engine in this process samples, everything is gathered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from saccade.training.memory.skeleton import Skeleton
from saccade.training.optimizer import is_orthogonal
from saccade.training.parts import decoder_layers, vision_modules

_AHEAD = 2
"""Layers that are gathered at once."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Of one process."""

    weights: int
    """Kept from step to step."""
    gradients: int
    optimizer: int
    gathered_update: int
    """Of others' shares, with the gradients of what is gathered, during a training pass."""
    gathered_sampling: int
    """The same while the engine in this process samples."""


def state_bytes(skeleton: Skeleton, processes: int, *, shard: bool, muon: bool) -> StateBytes:
    """What one of `processes` holds of the model and its optimizer."""
    weights = dict(skeleton.model.named_parameters())
    trained = {name: weight for name, weight in weights.items() if weight.requires_grad}
    total = sum(weight.nbytes for weight in weights.values())
    gradients = sum(weight.numel() * 4 for weight in trained.values())
    # AdamW's two moments; Muon has one for a matrix.
    optimizer = sum(
        weight.numel() * (4 if muon and is_orthogonal(name, weight) else 8) for name, weight in trained.items()
    )
    if not shard or processes == 1:
        return StateBytes(total, gradients, optimizer, 0, 0)
    parts = total // processes, gradients // processes, optimizer // processes
    return StateBytes(*parts, *_gathered(skeleton))


def _gathered(skeleton: Skeleton) -> tuple[int, int]:
    layers = [list(layer.parameters()) for layer in decoder_layers(skeleton.model)]
    vision = [weight for module in vision_modules(skeleton.model, skeleton.family) for weight in module.parameters()]
    inside = {id(weight) for weight in (*vision, *(weight for layer in layers for weight in layer))}
    outside = [weight for weight in skeleton.model.parameters() if id(weight) not in inside]
    size = 2 if skeleton.low else 4
    largest = max((_numbers(layer) for layer in layers), default=0)
    learning = max((_numbers(_trained(layer)) for layer in layers), default=0)
    sampling = sum(weight.nbytes for weight in outside) + size * sum(map(_numbers, layers)) + size * _numbers(vision)
    update = sum(weight.nbytes for weight in outside) + size * _numbers(vision) + _AHEAD * size * largest
    # Gradients of what is gathered, and the buffer in float32 through which a layer's are added up.
    update += 4 * _numbers(_trained(outside)) + size * _numbers(_trained(vision)) + (_AHEAD * size + 4) * learning
    return update, sampling


def _trained(weights: Iterable[Any]) -> list[Any]:
    return [weight for weight in weights if weight.requires_grad]


def _numbers(weights: Iterable[Any]) -> int:
    return sum(weight.numel() for weight in weights)


def gather_in_low_precision(skeleton: Skeleton) -> None:
    """Let the skeleton's layers be what they are once gathered, so that autocast has nothing to copy."""
    import torch

    if skeleton.low:
        with skeleton.mode:
            for module in (*decoder_layers(skeleton.model), *vision_modules(skeleton.model, skeleton.family)):
                for weight in module.parameters():
                    weight.data = weight.data.to(torch.bfloat16)
