"""Encoders of the families, an independent rendering to compare with, and pictures of known size."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from PIL import Image

from saccade.plugins.worlds import random_checkpoint
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.tokens.segments import Encoder

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl", "qwen3_5", "glm46v", "gemma4")
SPECIAL = tuple(
    dict.fromkeys(
        (*random_checkpoint.SPECIAL_TOKENS, *random_checkpoint.GLM_SPECIAL, *random_checkpoint.GEMMA4_SPECIAL)
    )
)
"""Special tokens of any of them."""
END = dict.fromkeys(FAMILIES, "<|im_end|>") | {"glm46v": "<|user|>", "gemma4": "<turn|>"}
# Closed thoughts: what a model writes after them is what is read later, word for word.
OPENING = {
    "qwen3_5": "<think>\n\n</think>\n\n",
    "glm46v": "\n<think></think>\n",
    "gemma4": "<|channel>thought\n<channel|>",
}
START = {"glm46v": ("[gMASK]", "<sop>"), "gemma4": ("<bos>",)}
CLOSED = {
    "qwen3_5": random_checkpoint.QWEN3_5_TEMPLATE.replace("<think>\n{% endif %}", OPENING["qwen3_5"] + "{% endif %}"),
    "glm46v": random_checkpoint.GLM_TEMPLATE.replace("{{ '' }}", "<think></think>{{ '\n' }}"),
}


@cache
def encoder(family: str, template: str | None = None) -> Encoder:
    tokenizer = random_checkpoint.tiny_tokenizer(family)
    processor, config = random_checkpoint._image_processor(family), random_checkpoint._config(family, len(tokenizer))
    written = template or CLOSED.get(family, tokenizer.chat_template)
    return Encoder(f"tiny {family}", tokenizer, processor, config, written)


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
        self._media = False
        for token in START.get(family, ()):
            self._mark(token)
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
                self._mark(END[family])

    def _begin(self, role: str, *, new: bool) -> None:
        if self._open == role and not new:
            return
        if self._open is not None:
            self._end(self._open)
        if self._family == "glm46v":
            self._mark({"tool": "<|observation|>"}.get(role, f"<|{role}|>"))
            self.text += "\n<tool_response>\n" if role == "tool" else "" if role == "assistant" else "\n"
        elif self._family == "gemma4":
            self._mark("<|turn>")
            self.text += {"assistant": "model\n", "tool": "user\n"}.get(role, f"{role}\n")
        else:
            self._mark("<|im_start|>")
            tool = self._family.startswith("qwen3") and role == "tool"
            self.text += "user\n<tool_response>\n" if tool else f"{role}\n"
        if role == "assistant":
            for part in re.split(r"(<\|channel>|<channel\|>)", OPENING.get(self._family, "")):
                if part.startswith("<") and self._family == "gemma4":
                    self._mark(part)
                else:
                    self.text += part
        self._open = role

    def _end(self, role: str) -> None:
        if self._family == "glm46v":
            self.text += ("\n</tool_response>" + ("" if self._media else "\n")) if role == "tool" else ""
            return
        self.text += "\n</tool_response>" if self._family.startswith("qwen3") and role == "tool" else ""
        self._mark(END[self._family])
        self.text += "\n"

    def _content(self, message: Message) -> None:
        self._media = bool(message.media)
        shown = message.role != "assistant"
        before = len(self.text)
        for part in message.parts:
            if isinstance(part, TextPart):
                self.text += part.text.strip() if shown and self._family == "gemma4" else part.text
            else:
                assert isinstance(part, ImagePart)
                self._picture(features(self._family, part.width, part.height))
        if shown and self._family == "qwen3_5":
            self.text = self.text[:before] + self.text[before:].strip()

    def _picture(self, tokens: int) -> None:
        first, each, last, after = {
            "internvl": ("<img>", "<IMG_CONTEXT>", "</img>", "\n"),
            "glm46v": ("<|begin_of_image|>", "<|image|>", "<|end_of_image|>", ""),
            "gemma4": ("<|image>", "<|image|>", "<image|>", ""),
        }.get(self._family, ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", ""))
        for mark in (first, *[each] * tokens, last):
            self._mark(mark)
        self.text += after

    def _mark(self, token: str) -> None:
        self.text += token
        self.marks[token] += 1


def special_tokens(ids: Iterable[int], tokenizer: Any) -> Counter[str]:
    known = set(SPECIAL)
    return Counter(token for token in tokenizer.convert_ids_to_tokens(list(ids)) if token in known)
