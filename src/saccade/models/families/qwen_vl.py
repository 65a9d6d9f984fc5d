"""Qwen2.5-VL, and Qwen3-VL and Qwen3.5 with and without experts.

A picture is its placeholders between `<|vision_start|>` and `<|vision_end|>`. From Qwen3-VL on, what a tool gave is
said by the user between `<tool_response>` tags. In Qwen3-VL the tower has further mergers; in Qwen3.5 most layers of
the language model keep a state in place of keys and values, and templates begin an answer with a thought.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from PIL import Image

from saccade.models.families.base import AttentionKind, ModelFamily
from saccade.models.families.pieces import Piece, SpecialToken
from saccade.models.families.video import ONE_BLOCK, STAMPED_STEPS
from saccade.record.content import Role

RESERVED: Final = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


@dataclass(frozen=True, kw_only=True)
class QwenVl(ModelFamily):
    """A family whose processor merges squares of patches, and whose positions have three axes."""

    placeholder: str = "<|image_pad|>"
    reserved: tuple[str, ...] = RESERVED
    vision_parts: tuple[str, ...] = ("visual",)
    projector_parts: tuple[str, ...] = ("visual.merger",)
    tensor_names: tuple[str, ...] = ("pixel_values", "image_grid_thw")
    rope_axes: int = 3
    tool_response: bool = False
    """A tool speaks as the user, between tags. They are ordinary text in the vocabulary's eyes: no special tokens."""

    def head(self, role: Role) -> tuple[Piece, ...]:
        if role == "tool" and self.tool_response:
            return (*super().head("user"), "<tool_response>\n")
        return super().head(role)

    def tail(self, role: Role, *, media: bool = False) -> tuple[Piece, ...]:
        closing = ("\n</tool_response>",) if role == "tool" and self.tool_response else ()
        return (*closing, *super().tail(role))

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """One placeholder for each 2 by 2 patches."""
        return (
            SpecialToken("<|vision_start|>"),
            *(SpecialToken(self.placeholder),) * tokens,
            SpecialToken("<|vision_end|>"),
        )

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """From the size alone; no pixel is read."""
        # The options are named for transformers before 5.11, which cannot do without.
        patches = int(image_processor.get_number_of_image_patches(height, width, {}))
        return patches // int(image_processor.merge_size) ** 2

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """At the size to which the processor would bring it before it cuts patches."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        height, width = smart_resize(
            image.height,
            image.width,
            factor=image_processor.patch_size * image_processor.merge_size,
            min_pixels=image_processor.size["shortest_edge"],
            max_pixels=image_processor.size["longest_edge"],
        )
        return image.resize((width, height), resample=image_processor.resample)

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """From the grids."""
        merged = config.vision_config.spatial_merge_size**2
        return tuple(int(patches) // merged for patches in made["image_grid_thw"].prod(-1))


_OPEN_THOUGHT, _END_OF_THOUGHT = "<think>\n", "\n</think>\n\n"


@dataclass(frozen=True, kw_only=True)
class Qwen35(QwenVl):
    """A family that thinks between tags at the beginning of its message, and whose layers keep a state."""

    tool_response: bool = True
    openings: tuple[str, ...] = ("", _OPEN_THOUGHT, _OPEN_THOUGHT + _END_OF_THOUGHT)
    marks: tuple[str, ...] = (*ModelFamily.marks, "<think>", "</think>")
    trims: Literal["nothing", "messages", "texts"] = "messages"
    framed: bool = True
    attention: AttentionKind = "recurrent"

    def answer(self, text: str, opening: str) -> str:
        """Where the opening begins a thought: the rest of it, its end, and what follows."""
        if opening != _OPEN_THOUGHT:
            return text
        thought, end, rest = text.partition("</think>")
        if not end:
            return _END_OF_THOUGHT + text
        return thought.removeprefix("<think>").strip() + _END_OF_THOUGHT + rest.lstrip("\n")


QWEN2_5_VL = QwenVl(model_type="qwen2_5_vl", video=ONE_BLOCK)
QWEN3_VL = QwenVl(
    model_type="qwen3_vl",
    projector_parts=("visual.merger", "visual.deepstack_merger_list"),
    tool_response=True,
    video=STAMPED_STEPS,
)
QWEN3_VL_MOE = replace(QWEN3_VL, model_type="qwen3_vl_moe")
QWEN3_5 = Qwen35(model_type="qwen3_5", video=STAMPED_STEPS)
QWEN3_5_MOE = replace(QWEN3_5, model_type="qwen3_5_moe")
