"""A model for the commands of the docs: it follows the form that a prompt of synthesis or curation asks for."""

from __future__ import annotations

import json
import re
from typing import Any

from fastapi import Response
from tests.models.wire_sandbox import bash_result, blocks, text, use
from tests.models.wire_server import chat, messages


async def follows_the_form(body: dict[str, Any]) -> Response:
    """The reply that is asked for; to every other question the answer EXIT. Claude uses its sandbox if it has one."""
    if any(tool.get("type", "").startswith("code_execution") for tool in body.get("tools") or ()):
        look = use("bash_code_execution", {"command": "python -c 'print(1)'"})
        return await blocks(text("I look."), look, bash_result("1\n"), text("<answer>EXIT</answer>"))(body)
    if str(body.get("model")).startswith("claude"):
        return await messages(text=_reply(json.dumps(body["messages"])))(body)
    return await chat(_reply(json.dumps(body["messages"])))(body)


def _reply(text: str) -> str:
    if "Write questions about the picture" in text:
        return '[{"question": "What is written there?", "answer": "EXIT"}]'
    if "Write each of them again" in text:
        turns = re.findall(r"Turn (\d+):", text)
        return "\n".join(f'<thought turn="{turn}">I look at the sign.</thought>' for turn in turns)
    if "Your steps were run" in text:
        return "<thought>It was printed.</thought><answer>EXIT</answer>"
    if "Turn the reasoning into steps" in text:
        return "<step><thought>Read it.</thought><code>\nprint('EXIT')\n</code></step>"
    if "reason in words" in text:
        return "<reasoning>The letters are large.</reasoning><answer>EXIT</answer>"
    return "<answer>EXIT</answer>"
