"""What forward and backward passes hold, measured on the shapes of the real model.

The language model runs whole, without data. The vision tower decides by the sizes of pictures how it computes, so it
runs with data, but small: one block and two, some patches and twice as many; from these the real numbers follow, for
all of it is linear in both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from saccade.training.memory.peak import PeakBytes
from saccade.training.memory.skeleton import Skeleton
from saccade.training.parts import vision_modules
from saccade.training.token_scores import LogitRules, token_scores
from saccade.training.weights import checkpoint_activations, choose_weights

_SIDE = 8
"""Patches along the side of the picture that the vision tower is measured with."""


@dataclass(frozen=True, slots=True)
class PassBytes:
    """Of one pass, without weights and gradients of weights."""

    held: int
    """What waits for the backward pass."""
    most: int
    """Most at once."""


def language_pass(skeleton: Skeleton, tokens: int) -> PassBytes:
    """Forward and backward over one row of `tokens`, up to the hidden states."""
    axes = skeleton.family.rope_axes
    with skeleton.mode, _gradients_dropped(skeleton.model):
        ids, at = torch.zeros((1, tokens), dtype=torch.int64), torch.arange(tokens)
        positions = at.repeat(axes, 1, 1) if axes > 1 else at[None]
        with PeakBytes() as counted:
            with skeleton.autocast():
                hidden = skeleton.model.model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
            held = counted.live
            hidden.sum().backward()
    return PassBytes(held, counted.most)


def logit_pass(skeleton: Skeleton, tokens: int, chunk: int) -> PassBytes:
    """Scores of `tokens` and their gradient, above what the hidden states take."""
    weight = skeleton.model.get_output_embeddings().weight
    with skeleton.mode, _gradients_dropped(skeleton.model):
        hidden = torch.zeros((tokens, weight.shape[1]), requires_grad=True)
        targets = torch.zeros(tokens, dtype=torch.int64)
        rules = LogitRules(torch.zeros(len(weight), dtype=torch.bool), torch.ones(1), chunk)
        with PeakBytes() as counted:
            with skeleton.autocast():
                scores = token_scores(hidden, weight, targets, rules)
            held = counted.live
            (scores.logprobs.sum() + scores.entropy.sum()).backward()
    return PassBytes(held, counted.most)


def vision_pass(skeleton: Skeleton, tokens: int, settings: Any) -> PassBytes:
    """Forward, and backward where it is trained, of pictures, or steps of videos, that make `tokens` features."""
    vision = skeleton.config.vision_config
    field = "depth" if hasattr(vision, "depth") else "num_hidden_layers"
    depth = getattr(vision, field)
    sizes = {}
    for blocks in (1, 2):
        model = _small(skeleton, settings, field, blocks)
        for pictures in (1, 2):
            sizes[blocks, pictures] = _measured(model, skeleton, pictures)
    many = tokens / sizes[1, 1][1]
    held, most = (
        _extended({at: getattr(bytes_, name) for at, (bytes_, _) in sizes.items()}, depth, many)
        for name in ("held", "most")
    )
    return PassBytes(held, max(held, most))


def _extended(sizes: dict[tuple[int, int], int], blocks: int, pictures: float) -> int:
    """What is linear in blocks and in pictures, from its values at 1 and 2 of both."""
    corner, deeper = sizes[1, 1], sizes[2, 1] - sizes[1, 1]
    more = sizes[1, 2] - corner
    both = sizes[2, 2] - sizes[2, 1] - more
    return int(corner + deeper * (blocks - 1) + (more + both * (blocks - 1)) * (pictures - 1))


def _small(skeleton: Skeleton, settings: Any, field: str, blocks: int) -> Any:
    """A real model of the same widths with so many blocks of vision, and next to nothing of the language model."""
    from transformers import AutoModelForImageTextToText

    config = copy.deepcopy(skeleton.config)
    text, vision = config.get_text_config(), config.vision_config
    text.num_hidden_layers, text.layer_types, text.vocab_size = 0, [], 16
    text.pad_token_id = text.bos_token_id = text.eos_token_id = None
    setattr(vision, field, blocks)
    if getattr(vision, "layer_types", None):
        vision.layer_types = vision.layer_types[:blocks]
    if hasattr(vision, "deepstack_visual_indexes"):
        vision.deepstack_visual_indexes = [0]
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa")
    choose_weights(model, skeleton.family, settings.model_copy(update={"language": "full"}), low=skeleton.low, seed=0)
    if settings.gradient_checkpointing:
        checkpoint_activations(model)
    return model.train()


def _measured(model: Any, skeleton: Skeleton, pictures: int) -> tuple[PassBytes, int]:
    """The vision tower with so many equal pictures, and the features that it makes of them."""
    dtype = next(model.parameters()).dtype
    inputs = {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in _pixels(model, skeleton, pictures).items()
    }
    trained = any(
        weight.requires_grad for module in vision_modules(model, skeleton.family) for weight in module.parameters()
    )
    with _gradients_dropped(model), PeakBytes() as counted:
        with skeleton.autocast():
            made = model.model.get_image_features(**inputs).pooler_output
        features = list(made) if isinstance(made, tuple | list) else [made]
        held = counted.live
        if trained:
            sum(feature.sum() for feature in features).backward()
    size = model.config.get_text_config().hidden_size
    return PassBytes(held, counted.most), sum(feature.numel() // size for feature in features)


def _pixels(model: Any, skeleton: Skeleton, pictures: int) -> dict[str, torch.Tensor]:
    vision = model.config.vision_config
    if "image_position_ids" in skeleton.family.tensor_names:
        side = 2 * vision.pooling_kernel_size
        at = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy"), dim=-1).view(1, -1, 2)
        return {
            "pixel_values": torch.zeros((pictures, side**2, 3 * vision.patch_size**2)),
            "image_position_ids": at.repeat(pictures, 1, 1),
        }
    if "image_grid_thw" not in skeleton.family.tensor_names:
        height, width = vision.image_size if isinstance(vision.image_size, list | tuple) else (vision.image_size,) * 2
        return {"pixel_values": torch.zeros((pictures, 3, height, width))}
    size = 3 * vision.temporal_patch_size * vision.patch_size**2
    return {
        "pixel_values": torch.zeros((pictures * _SIDE**2, size)),
        "image_grid_thw": torch.tensor([[1, _SIDE, _SIDE]] * pictures),
    }


@contextmanager
def _gradients_dropped(model: Any) -> Iterator[None]:
    """Gradients of weights are counted elsewhere: each goes as soon as it is complete."""

    def drop(weight: torch.Tensor) -> None:
        weight.grad = None

    hooks = [weight.register_post_accumulate_grad_hook(drop) for weight in model.parameters() if weight.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
