"""Qwen2.5-VL: ChatML; a picture is its placeholders between `<|vision_start|>` and `<|vision_end|>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from saccade.record.content import Role
from saccade.tokens.families.base import CHATML_TAIL, chatml_head, merged_grids, merged_patches, resized
from saccade.tokens.pieces import Piece, SpecialToken


@dataclass(frozen=True, slots=True)
class Qwen25Vl:
    """The frame; see `base.Frame`."""

    model_type: str = "qwen2_5_vl"
    vision_parts: tuple[str, ...] = ("visual",)
    projector_parts: tuple[str, ...] = ("visual.merger",)

    def head(self, role: Role) -> tuple[Piece, ...]:
        """Every role by its own name, `tool` too."""
        return chatml_head(role)

    def tail(self, role: Role) -> tuple[Piece, ...]:
        """The same for every role."""
        return CHATML_TAIL

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """One placeholder for each 2 by 2 patches."""
        return (
            SpecialToken("<|vision_start|>"),
            *(SpecialToken("<|image_pad|>"),) * tokens,
            SpecialToken("<|vision_end|>"),
        )

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """From the size alone; no pixel is read."""
        return merged_patches(width, height, image_processor)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """At the size to which the processor would bring it."""
        return resized(image, image_processor)

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """From the grids."""
        return merged_grids(made, config)

    def tensor_names(self) -> tuple[str, ...]:
        """Patches of all pictures in one tensor, and the grid of each."""
        return ("pixel_values", "image_grid_thw")
