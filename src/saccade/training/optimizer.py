"""The optimizer with its groups of weights, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from saccade.training.divide import like
from saccade.training.muon import Muon
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable


def make_optimizer(
    trained: Trainable, settings: OptimizerSettings, kept: Mapping[str, torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer over `kept`, which are trained weights by their names.

    Weight decay is on matrices alone; each group keeps its full rate as `base_lr`.
    """
    groups: dict[tuple[bool, bool, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in kept.items():
        orthogonal = settings.method == "muon" and is_orthogonal(name, parameter)
        groups.setdefault((trained.is_vision(name), parameter.ndim >= 2, orthogonal), []).append(parameter)
    param_groups = []
    for (vision, matrix, orthogonal), parameters in groups.items():
        rate = settings.vision_learning_rate if vision and settings.vision_learning_rate else settings.learning_rate
        decay = settings.weight_decay if matrix else 0.0
        group = {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}
        param_groups.append(group | ({"orthogonal": orthogonal} if settings.method == "muon" else {}))
    if settings.method == "muon":
        return Muon(param_groups, settings.betas, settings.epsilon)
    fused = trained.checkpoint.device.type in ("cpu", "cuda")
    return torch.optim.AdamW(param_groups, betas=settings.betas, eps=settings.epsilon, fused=fused)


def is_orthogonal(name: str, weight: torch.Tensor) -> bool:
    """Whether Muon makes updates of the weight of that name orthogonal."""
    return weight.ndim == 2 and "embed" not in name


def rate_fraction(step: int, total: int, settings: OptimizerSettings) -> float:
    """Fraction of the full learning rate at step `step` (from 0) of `total`: linear up, then a cosine down."""
    warm = math.ceil(settings.warmup * total)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    return settings.final_fraction + (1.0 - settings.final_fraction) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_rate(optimizer: torch.optim.Optimizer, fraction: float) -> None:
    """Give every group its full rate times `fraction`."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * fraction


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """The optimizer's state by the names of the weights, as plain tensors."""
    return {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave, of the weights in `parameters`."""
    for name in tensors:
        weight, _, key = name.rpartition("/")
        if weight in parameters:
            value = tensors[name].to(parameters[weight].device)
            divided = value.ndim > 0  # but for the number of steps
            optimizer.state[parameters[weight]][key] = like(parameters[weight], value) if divided else value
