"""A checkpoint's model without data: every tensor has its shape and type, none has memory.

Forward and backward passes of it allocate nothing, and make the tensors that those of the real one make.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from saccade.models.families.base import ModelFamily
from saccade.models.families.known import FAMILIES
from saccade.training.memory.shapes import read_config
from saccade.training.parts import swap_tensors
from saccade.training.settings import ModelSettings
from saccade.training.weights import checkpoint_activations, choose_weights, stored_dtype


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A model as a run would have it, on a CPU that holds nothing."""

    model: Any
    config: Any
    family: ModelFamily
    low: bool
    """Whether forward passes run in bfloat16."""
    mode: FakeTensorMode

    def autocast(self) -> torch.autocast:
        """The context of a forward pass, in the precision of the run."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.low)


def make_skeleton(settings: ModelSettings, *, low: bool) -> Skeleton:
    """The model that `settings` name, with the same weights frozen and trained, in the types that they are kept in.

    Raises:
        SettingsError: its shape is not known, or LoRA finds no layer.
    """
    from transformers import AutoModelForImageTextToText

    config = read_config(settings.source)
    family = FAMILIES[config.model_type]
    dtype = getattr(torch, stored_dtype(settings, low=low))
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(copy.deepcopy(config), dtype=dtype, attn_implementation="sdpa")
        choose_weights(model, family, settings, low=low, seed=0)
    model.train()
    if settings.gradient_checkpointing:
        checkpoint_activations(model)
    mode = FakeTensorMode()
    _move(model, mode)
    return Skeleton(model, config, family, low, mode)


def _move(model: Any, mode: FakeTensorMode) -> None:
    """From the device without data to a pretended CPU, where autocast is what it is on a real one."""

    def moved(value: torch.Tensor) -> torch.Tensor:
        empty = torch.empty(value.shape, dtype=value.dtype)
        return torch.nn.Parameter(empty, value.requires_grad) if isinstance(value, torch.nn.Parameter) else empty

    with mode:
        swap_tensors(model, moved)
