r"""The answer in which a response ends, as training data mark it: tags, `\boxed{}`, or the words "answer is"."""

from __future__ import annotations

import re

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_SAID = re.compile(r"\b(?:final |correct )?answer\s*(?:is|:)\s*[:：]?\s*([^\n]+)", re.IGNORECASE)
_SAID_IN_CHINESE = re.compile(r"答案\s*(?:是|为|选|[:：])+\s*([^\n]+)")


def final_answer(text: str) -> str | None:
    """The last answer that the text marks, without marks; None if it marks none."""
    for pattern in (_TAGGED, _BOXED, _SAID, _SAID_IN_CHINESE):
        marked = pattern.findall(text)
        if marked:
            answer = str(marked[-1]).strip()
            inner = _BOXED.findall(answer)
            plain = str(inner[-1]) if inner else answer
            return plain.strip().strip("*").rstrip(".。").strip() or None
    return None
