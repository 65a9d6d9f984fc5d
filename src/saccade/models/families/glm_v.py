"""GLM-4.1V to GLM-4.6V: a message begins with the token of its role, and nothing ends it but the next one.

So a model ends its turn with the token of who speaks next: `<|user|>`, or `<|observation|>` where a tool answers. What
it thinks stands between `<think>` tags at the beginning of its message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from PIL import Image

from saccade.models.families.pieces import Piece, SpecialToken
from saccade.models.families.qwen_vl import QwenVl
from saccade.record.content import Role

_ROLES: Final = {"user": "<|user|>", "tool": "<|observation|>", "system": "<|system|>", "assistant": "<|assistant|>"}
_NO_THOUGHT: Final = "<think></think>\n"
_PICTURE: Final = ("<|begin_of_image|>", "<|image|>", "<|end_of_image|>")
_VIDEO: Final = ("<|begin_of_video|>", "<|video|>", "<|end_of_video|>")


@dataclass(frozen=True, kw_only=True)
class GlmV(QwenVl):
    """Pictures are counted by grids of merged patches, as Qwen's are."""

    placeholder: str = _PICTURE[1]
    reserved: tuple[str, ...] = ("[gMASK]", "<sop>", _ROLES["system"], _ROLES["assistant"], *_PICTURE, *_VIDEO)
    start: tuple[str, ...] = ("[gMASK]", "<sop>")
    ends: tuple[str, ...] = (_ROLES["user"], _ROLES["tool"])
    openings: tuple[str, ...] = ("\n", "", "\n<think>", f"\n{_NO_THOUGHT}", "\n<think></think>")
    marks: tuple[str, ...] = ("<think>", "</think>")
    framed: bool = True
    no_video: str = "It has no tokens for them but those of pictures, between which its times stand; that is not built."

    def head(self, role: Role) -> tuple[Piece, ...]:
        """The assistant's line break belongs to the opening: not every template writes it."""
        after = {"assistant": (), "tool": ("\n<tool_response>\n",)}.get(role, ("\n",))
        return (SpecialToken(_ROLES[role]), *after)

    def tail(self, role: Role, *, media: bool = False) -> tuple[Piece, ...]:
        """A tool's answer is closed; published templates write one more line break after one that is text alone."""
        if role != "tool":
            return ()
        return ("\n</tool_response>",) if media else ("\n</tool_response>\n",)

    def answer(self, text: str, opening: str) -> str:
        """With the empty thought that templates give to an answer without one, where the opening has none."""
        before = "" if opening.endswith("\n") else "\n"
        if "think>" in opening or "</think>" in text:
            return text if text.startswith(before) else before + text
        return before + _NO_THOUGHT + text

    def picture(self, tokens: int) -> tuple[Piece, ...]:
        """One placeholder for each 2 by 2 patches."""
        first, each, last = (SpecialToken(token) for token in _PICTURE)
        return (first, *(each,) * tokens, last)

    def prepared(self, image: Image.Image, image_processor: Any) -> Image.Image:
        """At the size to which the processor would bring it before it cuts patches."""
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
