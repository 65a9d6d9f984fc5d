"""The models behind an API that the pages name: teachers, judges and agents, in the form that each prompt asks for."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import Response
from tests.models.wire_server import chat, messages
from tests.papers.rows import BOX, asked

PLT = "import matplotlib.pyplot as plt\n"
WEAK = "weak"
"""A model that knows one colour, so that pass rates differ."""
CALLS = 2
"""Calls that an agent makes before it answers."""


async def says(body: dict[str, Any]) -> Response:
    said = body.get("messages") or []
    text = "\n".join(_text(item) for item in said)
    before = [_text(item) for item in said if item["role"] == "assistant"]
    reply = "<answer>no</answer>" if body.get("model") == WEAK and "Say blue." in text else _reply(text, before)
    return await (messages(text=reply) if str(body.get("model")).startswith("claude") else chat(reply))(body)


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())


def _reply(text: str, before: list[str]) -> str:
    gold = re.findall(r"Say (\w+)\.", text)
    word = gold[-1] if gold else "4"
    if keys := re.findall(r'"(\w+)": true or false', text):
        return json.dumps(dict.fromkeys(keys, True))
    if '"score":' in text:
        return '{"score": 1}'
    if "Write questions about the picture" in text:
        return json.dumps([{"question": asked("red"), "answer": "red", "bbox_2d": BOX}])
    if "Give the box of every whole object" in text:
        return json.dumps([{"label": "box", "bbox_2d": BOX}])
    if "Write each of them again" in text:
        return "\n".join(f'<thought turn="{turn}">I look.</thought>' for turn in re.findall(r"Turn (\d+):", text))
    if "Your steps were run" in text:
        return f"<thought>It was printed.</thought><answer>{word}</answer>"
    if "Turn the reasoning into steps" in text:
        return f"<step><thought>Cut.</thought><code>\n{_look(text)}\nprint(2 + 2)\n</code></step>"
    if "reason in words" in text:
        return f"<reasoning>It is large.</reasoning><answer>{word}</answer>"
    return _turn(text, word, len(before))


def _look(text: str) -> str:
    names = re.findall(r"Code finds: `(\w+)`", text) or re.findall(r"\b(image_clue_0|image_hint_0|image_1)\b", text)
    return f"{PLT}plt.imshow({names[-1] if names else 'image'}.crop({BOX}))\nplt.show()\nprint(2)"


def _turn(text: str, word: str, turn: int) -> str:
    """Look twice in the way that the prompt describes, then answer."""
    boxed = f"\\boxed{{{word}}}" if "\\boxed" in text else word
    answer = f"<think>It is so.</think>\n<answer>\n{boxed}\n</answer>"
    if turn >= CALLS:
        return answer
    if "<tool_call>" in text:
        return '<think>I look.</think><tool_call>{"tool": "opencv", "task": "look"}</tool_call>' if turn < 1 else answer
    if "<code>" in text:
        code = (
            f"import decord\n{PLT}frame = video_clue_0[0].asnumpy()\nplt.imshow(frame)\nplt.show()"
            if "video_clue_0" in text
            else _look(text)
        )
        return f"I look.\n<code>\n```python\n{code}\n```\n</code>"
    return f"<think>I look.</think>\n```python\n{_look(text)}\n```" if "```python" in text else answer
