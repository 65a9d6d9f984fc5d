"""Gemma 4: turns between `<|turn>` and `<turn|>`, and pictures whose tokens see each other.

What it thinks is a channel of its own inside its turn. Its published templates have no form for what a tool says unless
the tool was called in the family's own way, so here a tool speaks as the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from PIL import Image

from saccade.models.families.base import AttentionKind, ModelFamily
from saccade.models.families.pieces import Piece, SpecialToken
from saccade.record.content import Role

_START, _END = "<|turn>", "<turn|>"
_PICTURE: Final = ("<|image>", "<|image|>", "<image|>")
_SOUND: Final = ("<|audio>", "<|audio|>", "<audio|>")
_ROLES: Final = {"assistant": "model", "tool": "user"}


@dataclass(frozen=True, kw_only=True)
class Gemma(ModelFamily):
    """A family whose processor pools squares of patches, and pads each picture to the most that it may have."""

    placeholder: str = _PICTURE[1]
    reserved: tuple[str, ...] = ("<bos>", "<pad>", _START, *_PICTURE, *_SOUND, "<|video|>")
    vision_parts: tuple[str, ...] = ("vision_tower", "embed_vision")
    projector_parts: tuple[str, ...] = ("embed_vision",)
    tensor_names: tuple[str, ...] = ("pixel_values", "image_position_ids")
    own_marks: bool = True
    start: tuple[str, ...] = ("<bos>",)
    ends: tuple[str, ...] = (_END,)
    openings: tuple[str, ...] = ("", "<|channel>thought\n<channel|>")
    marks: tuple[str, ...] = ("<|channel>", "<channel|>")
    picture_edges: tuple[str, ...] = ("", "\n\n")
    trims: Literal["nothing", "messages", "texts"] = "texts"
    framed: bool = True
    attention: AttentionKind = "sliding"
    type_ids: bool = True
    no_video: str = "It reads a video as small pictures with their times, and merges none of them."

    def head(self, role: Role) -> tuple[Piece, ...]:
        return (SpecialToken(_START), f"{_ROLES.get(role, role)}\n")

    def tail(self, role: Role, *, media: bool = False) -> tuple[Piece, ...]:
        return (SpecialToken(_END), "\n")

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """One placeholder for each pooled square of patches."""
        first, each, last = (SpecialToken(token) for token in _PICTURE)
        return (first, *(each,) * tokens, last)

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """From the size alone; no pixel is read."""
        fitted_width, fitted_height = _fitted(width, height, image_processor)
        return fitted_width * fitted_height // _pooled(image_processor) ** 2

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """As it is: the processor would bring a picture of the size that it fits to another one."""
        return image

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """As the processor counts them."""
        return tuple(int(count) for count in made["num_soft_tokens_per_image"])


def _pooled(image_processor: Any) -> int:
    """Pixels along the side of a feature."""
    return int(image_processor.pooling_kernel_size * image_processor.patch_size)


def _fitted(width: int, height: int, image_processor: Any) -> tuple[int, int]:
    from transformers.models.gemma4.image_processing_pil_gemma4 import get_aspect_ratio_preserving_size

    fitted_height, fitted_width = get_aspect_ratio_preserving_size(
        height=height,
        width=width,
        patch_size=image_processor.patch_size,
        max_patches=image_processor.max_soft_tokens * image_processor.pooling_kernel_size**2,
        pooling_kernel_size=image_processor.pooling_kernel_size,
    )
    return int(fitted_width), int(fitted_height)


GEMMA4 = Gemma(model_type="gemma4")
