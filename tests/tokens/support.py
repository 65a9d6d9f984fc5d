"""Encoders of the families, an independent rendering to compare with, and pictures of known size."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from PIL import Image

from saccade.models import tiny
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import Trajectory
from saccade.record.turn import FinishReason
from saccade.tokens.encoder import Encoder

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl", "qwen3_5", "glm46v", "gemma4")
SPECIAL = tiny.SPECIAL_TOKENS


@cache
def encoder(family: str, template: str | None = None) -> Encoder:
    tokenizer = tiny.tiny_tokenizer(family)
    processor, config = tiny._image_processor(family), tiny._config(family, len(tokenizer))
    return Encoder(f"tiny {family}", tokenizer, processor, config, template or tokenizer.chat_template)


@cache
def features(family: str, width: int, height: int) -> int:
    """What the real image processor makes of a picture of that size."""
    one = encoder(family)
    made = one.image_processor(
        images=[Image.new("RGB", (width, height))], return_tensors="pt", **dict(one.family.picture_options)
    )
    return one.family.features(made, one.config)[0]


class Reference:
    """A trajectory as text and the special tokens in it, written down without the code under test."""

    def __init__(self, family: str, trajectory: Trajectory) -> None:
        self.text = ""
        self.marks: Counter[str] = Counter()
        self._family = family
        self._open: str | None = None
        for number, message in enumerate(trajectory.prompt):
            self._begin(message.role, new=number == 0 or message.role != "assistant")
            self._content(message)
        for number, turn in enumerate(trajectory.turns):
            self._begin("assistant", new=False)
            self.text += turn.text
            if number < len(trajectory.turns) - 1:
                for message in filter(None, (turn.observation, turn.request)):
                    self._begin(message.role, new=message.role != "assistant")
                    self._content(message)
            elif turn.finish_reason is not FinishReason.LENGTH:
                self._mark("<|im_end|>")

    def _begin(self, role: str, *, new: bool) -> None:
        if self._open == role and not new:
            return
        if self._open is not None:
            self.text += "\n</tool_response>" if self._family.startswith("qwen3_vl") and self._open == "tool" else ""
            self._mark("<|im_end|>")
            self.text += "\n"
        self._mark("<|im_start|>")
        tool = self._family.startswith("qwen3_vl") and role == "tool"
        self.text += "user\n<tool_response>\n" if tool else f"{role}\n"
        self._open = role

    def _content(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, TextPart):
                self.text += part.text
            else:
                assert isinstance(part, ImagePart)
                self._picture(features(self._family, part.width, part.height))

    def _picture(self, tokens: int) -> None:
        first, each, last, after = (
            ("<img>", "<IMG_CONTEXT>", "</img>", "\n")
            if self._family == "internvl"
            else ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "")
        )
        for mark in (first, *[each] * tokens, last):
            self._mark(mark)
        self.text += after

    def _mark(self, token: str) -> None:
        self.text += token
        self.marks[token] += 1


def special_tokens(ids: Iterable[int], tokenizer: Any) -> Counter[str]:
    known = set(SPECIAL)
    return Counter(token for token in tokenizer.convert_ids_to_tokens(list(ids)) if token in known)
