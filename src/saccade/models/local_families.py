"""Families of checkpoints that run in process: how each writes a picture into its prompt, and what it must not sample.

A family is known by `model_type` of its configuration. No weights and no torch here. Checkpoints that bring their own
code are not loaded: that code would run outside every sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from saccade.errors import ModelRefusedError


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """What `LocalModel` must know about checkpoints of one `model_type`."""

    model_type: str
    placeholder: str
    """The token by which the chat template marks a picture; one for each visual token after `expanded`."""
    before: tuple[str, ...] = ()
    """Tokens in front of a picture's visual tokens that the template leaves out."""
    after: tuple[str, ...] = ()
    """Tokens behind them that the template leaves out."""
    reserved: tuple[str, ...] = ()
    """Tokens that only a prompt may hold: a sampled one would claim a picture, or begin a turn, that is not there."""
    rope_axes: int = 1
    """3 where positions count time, height and width (M-RoPE), else 1."""
    picture_options: Mapping[str, object] = field(default_factory=dict)
    """Options of its image processor that the family's own processor always sets."""

    def expanded(self, visual: int) -> tuple[str, ...]:
        """What stands for one placeholder: `visual` of them, with the family's marks around."""
        return (*self.before, *(self.placeholder,) * visual, *self.after)


_QWEN_RESERVED = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

FAMILIES: Mapping[str, ModelFamily] = {
    family.model_type: family
    for family in (
        ModelFamily("qwen2_5_vl", "<|image_pad|>", reserved=_QWEN_RESERVED, rope_axes=3),
        ModelFamily("qwen3_vl", "<|image_pad|>", reserved=_QWEN_RESERVED, rope_axes=3),
        ModelFamily(
            "internvl",
            "<IMG_CONTEXT>",
            before=("<img>",),
            after=("</img>",),
            reserved=(*_QWEN_RESERVED, "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
            picture_options={"crop_to_patches": True},
        ),
    )
}
"""By `model_type`: Qwen2.5-VL, Qwen3-VL, and InternVL3 in its transformers form."""


def family_of(model_type: str, checkpoint: str) -> ModelFamily:
    """The family of that `model_type`.

    Raises:
        ModelRefusedError: it is not one of `FAMILIES`; says what to do instead.
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
        + advice
    )
