"""The one table of families, by `model_type`.

Checkpoints that bring their own code are not loaded: that code would run outside every sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from PIL import Image

from saccade.errors import ModelRefusedError
from saccade.models.families.base import ONE_BLOCK, STAMPED_STEPS, AttentionKind, ModelFamily, Piece, SpecialToken
from saccade.record.content import Role

# Qwen2.5-VL, and Qwen3-VL and Qwen3.5 with and without experts.
#
# A picture is its placeholders between `<|vision_start|>` and `<|vision_end|>`. From Qwen3-VL on, what a tool gave is
# said by the user between `<tool_response>` tags. In Qwen3-VL the tower has further mergers; in Qwen3.5 most layers of
# the language model keep a state in place of keys and values, and templates begin an answer with a thought.

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
        """Return one placeholder for each 2 by 2 patches."""
        return (
            SpecialToken("<|vision_start|>"),
            *(SpecialToken(self.placeholder),) * tokens,
            SpecialToken("<|vision_end|>"),
        )

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Return the tokens of a picture of this size; no pixel is read."""
        # The options are named for transformers before 5.11, which cannot do without.
        patches = int(image_processor.get_number_of_image_patches(height, width, {}))
        return patches // int(image_processor.merge_size) ** 2

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """Scale to the size to which the processor would bring it before it cuts patches."""
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
        """Return where the opening begins a thought: the rest of it, its end, and what follows."""
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

# Gemma 4: turns between `<|turn>` and `<turn|>`, and pictures whose tokens see each other.
#
# What it thinks is a channel of its own inside its turn. Its published templates have no form for what a tool says
# unless the tool was called in the family's own way, so here a tool speaks as the user.

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
        """Return one placeholder for each pooled square of patches."""
        first, each, last = (SpecialToken(token) for token in _PICTURE)
        return (first, *(each,) * tokens, last)

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Count from the size; no pixel is read."""
        fitted_width, fitted_height = _fitted(width, height, image_processor)
        return fitted_width * fitted_height // _pooled(image_processor) ** 2

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """Return it as it is: the processor would bring a picture of the size that it fits to another one."""
        return image

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        return tuple(int(count) for count in made["num_soft_tokens_per_image"])


def _pooled(image_processor: Any) -> int:
    """Return pixels along the side of a feature."""
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

# GLM-4.1V to GLM-4.6V: a message begins with the token of its role, and nothing ends it but the next one.
#
# So a model ends its turn with the token of who speaks next: `<|user|>`, or `<|observation|>` where a tool answers.
# What it thinks stands between `<think>` tags at the beginning of its message.

_GLM_V_ROLES: Final = {
    "user": "<|user|>",
    "tool": "<|observation|>",
    "system": "<|system|>",
    "assistant": "<|assistant|>",
}
_NO_THOUGHT: Final = "<think></think>\n"
_GLM_V_PICTURE: Final = ("<|begin_of_image|>", "<|image|>", "<|end_of_image|>")
_VIDEO: Final = ("<|begin_of_video|>", "<|video|>", "<|end_of_video|>")


@dataclass(frozen=True, kw_only=True)
class GlmV(QwenVl):
    """Pictures are counted by grids of merged patches, as Qwen's are."""

    placeholder: str = _GLM_V_PICTURE[1]
    reserved: tuple[str, ...] = (
        "[gMASK]",
        "<sop>",
        _GLM_V_ROLES["system"],
        _GLM_V_ROLES["assistant"],
        *_GLM_V_PICTURE,
        *_VIDEO,
    )
    start: tuple[str, ...] = ("[gMASK]", "<sop>")
    ends: tuple[str, ...] = (_GLM_V_ROLES["user"], _GLM_V_ROLES["tool"])
    openings: tuple[str, ...] = ("\n", "", "\n<think>", f"\n{_NO_THOUGHT}", "\n<think></think>")
    marks: tuple[str, ...] = ("<think>", "</think>")
    framed: bool = True
    no_video: str = "It has no tokens for them but those of pictures, between which its times stand; that is not built."

    def head(self, role: Role) -> tuple[Piece, ...]:
        """Return the assistant's line break belongs to the opening: not every template writes it."""
        after = {"assistant": (), "tool": ("\n<tool_response>\n",)}.get(role, ("\n",))
        return (SpecialToken(_GLM_V_ROLES[role]), *after)

    def tail(self, role: Role, *, media: bool = False) -> tuple[Piece, ...]:
        """Close a tool's answer; published templates write one more line break after one that is text only."""
        if role != "tool":
            return ()
        return ("\n</tool_response>",) if media else ("\n</tool_response>\n",)

    def answer(self, text: str, opening: str) -> str:
        """Begin with the empty thought that templates give to an answer without one, where the opening has none."""
        before = "" if opening.endswith("\n") else "\n"
        if "think>" in opening or "</think>" in text:
            return text if text.startswith(before) else before + text
        return before + _NO_THOUGHT + text

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """Return one placeholder for each 2 by 2 patches."""
        first, each, last = (SpecialToken(token) for token in _GLM_V_PICTURE)
        return (first, *(each,) * tokens, last)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """Scale to the size to which the processor would bring it before it cuts patches."""
        from transformers.models.glm46v.image_processing_pil_glm46v import smart_resize

        height, width = smart_resize(
            num_frames=image_processor.temporal_patch_size,
            height=image.height,
            width=image.width,
            temporal_factor=image_processor.temporal_patch_size,
            factor=image_processor.patch_size * image_processor.merge_size,
            min_pixels=image_processor.size["shortest_edge"],
            max_pixels=image_processor.size["longest_edge"],
        )
        return image.resize((width, height), resample=image_processor.resample)


GLM46V = GlmV(model_type="glm46v")
GLM4V = replace(GLM46V, model_type="glm4v")
GLM4V_MOE = replace(GLM46V, model_type="glm4v_moe")


# InternVL3 in its transformers form: a picture is cut into tiles and followed by a line break.


@dataclass(frozen=True, kw_only=True)
class InternVl(ModelFamily):
    """A family whose features are counted by tiles."""

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        return (SpecialToken("<img>"), *(SpecialToken(self.placeholder),) * tokens, SpecialToken("</img>"), "\n")

    def visual_tokens(self, width: int, height: int, image_processor: Any, config: Any) -> int:
        """Return tiles, the thumbnail among them, times the features of a tile."""
        tiles = int(image_processor.get_number_of_image_patches(height, width, dict(self.picture_options)))
        return tiles * int(config.image_seq_length)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """Return it as it is: its tiles are cut from the whole picture."""
        return image

    def features(self, made: Mapping[str, Any], config: Any) -> tuple[int, ...]:
        """Count from the number of tiles of each picture."""
        return tuple(int(tiles) * int(config.image_seq_length) for tiles in made["num_patches"])


INTERNVL = InternVl(
    model_type="internvl",
    placeholder="<IMG_CONTEXT>",
    reserved=(*RESERVED, "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
    vision_parts=("vision_tower", "multi_modal_projector"),
    projector_parts=("multi_modal_projector",),
    tensor_names=("pixel_values",),
    picture_options={"crop_to_patches": True},
    own_marks=True,
    no_video="It reads a video as pictures in a row and merges none of them, so frames as pictures cost the same.",
)

FAMILIES: Final[Mapping[str, ModelFamily]] = {
    family.model_type: family
    for family in (
        QWEN2_5_VL,
        QWEN3_VL,
        QWEN3_VL_MOE,
        QWEN3_5,
        QWEN3_5_MOE,
        INTERNVL,
        GLM4V,
        GLM4V_MOE,
        GLM46V,
        GEMMA4,
    )
}
"""Those that run and train in this process."""
NOT_YET: Final[Mapping[str, str]] = {
    "gemma4_unified": "Its pictures go into the language model without a tower, and its processor needs torchvision.",
}
"""Families of pictures and text that transformers has and this package does not run -> why."""


def family_of(model_type: str, checkpoint: str) -> ModelFamily:
    """Return the family of that `model_type`.

    Raises `ModelRefusedError`: it is not one of `FAMILIES`; says what to do instead.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if not model_type:
        raise ModelRefusedError(
            f"the config.json of {checkpoint} names no model_type, so its family is not known. "
            "Give another checkpoint: its folder, or its name on the hub."
        )
    if model_type == "internvl_chat":
        advice = "Take the same checkpoint in its transformers form; its name ends in -hf."
    else:
        advice = "Serve it with vLLM or SGLang and name it vllm:NAME@http://HOST:8000/v1."
    raise ModelRefusedError(
        f"{checkpoint} is of the family {model_type!r}, which does not run in process (known: {', '.join(FAMILIES)}). "
        + " ".join(filter(None, (NOT_YET.get(model_type), advice)))
    )
