"""What was said, run and shown, as attributes of spans: only for who asks for it, since it may hold anything.

Messages follow the conventions' JSON schemas of input and output messages. Pictures and videos are named
(`urn:sha256:…`), and their bytes are never in a span.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from saccade.record.action import Action, Code, ToolCall
from saccade.record.content import Message, TextPart
from saccade.record.conversation import conversation
from saccade.record.execution import Execution
from saccade.record.hosted_call import HostedCall
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn

INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"


def agent_content(trajectory: Trajectory) -> dict[str, str]:
    """The question as it was first shown, and the answer."""
    found = _asked(trajectory.prompt)
    if trajectory.answer is not None:
        parts = [{"type": "text", "content": trajectory.answer}]
        found[OUTPUT] = _json([{"role": "assistant", "parts": parts, "finish_reason": "stop"}])
    if trajectory.stop_detail:
        found["saccade.stop_detail"] = trajectory.stop_detail
    return found


def chat_content(trajectory: Trajectory, number: int, finish: object) -> dict[str, str]:
    """What the model read before turn `number`, and what it wrote; `finish` are the reasons why it ended, if known."""
    turn = trajectory.turns[number]
    reason = str(finish[0]) if isinstance(finish, tuple) else "stop"
    said = {"role": "assistant", "parts": _said(turn), "finish_reason": reason}
    return {**_asked(conversation(trajectory.prompt, trajectory.turns[:number])), OUTPUT: _json([said])}


def tool_content(action: Action, execution: Execution) -> dict[str, str]:
    """What was run, and what came back."""
    given = {"code": action.code} if isinstance(action, Code) else {}
    if isinstance(action, ToolCall):
        given = dict(action.arguments)  # type: ignore[arg-type]
    return {ARGUMENTS: _json(given), RESULT: _json(_outcome(execution))}


def hosted_content(call: HostedCall) -> dict[str, str]:
    """What the provider's sandbox ran, and what came back."""
    return {ARGUMENTS: _json({"code": call.code, "language": call.language}), RESULT: _json(_outcome(call.execution))}


def _asked(messages: Iterable[Message]) -> dict[str, str]:
    system = [part for message in messages if message.role == "system" for part in _parts(message)]
    others = [{"role": message.role, "parts": _parts(message)} for message in messages if message.role != "system"]
    return {INPUT: _json(others), **({SYSTEM: _json(system)} if system else {})}


def _parts(message: Message) -> list[dict[str, Any]]:
    parts = [
        {"type": "text", "content": part.text}
        if isinstance(part, TextPart)
        else {
            "type": "uri",
            "modality": part.kind,
            "mime_type": part.mime,
            "uri": f"urn:sha256:{part.sha256}",
        }
        for part in message.parts
    ]
    if message.call_id is not None:
        return [{"type": "tool_call_response", "id": message.call_id, "response": parts}]
    return [*parts, *map(_call, message.calls)]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": dict(call.arguments)}


def _said(turn: Turn) -> list[dict[str, Any]]:
    """The texts, with calls of a provider's sandbox where they stood, and native calls at the end."""
    parts: list[dict[str, Any]] = []
    begin = 0
    for number, call in enumerate(turn.hosted):
        if text := turn.text[begin : call.at]:
            parts.append({"type": "text", "content": text})
        name = call.call_id or f"hosted-{number}"
        asked = {"type": call.tool, "code": call.code, "language": call.language}
        parts.append({"type": "server_tool_call", "id": name, "name": call.tool, "server_tool_call": asked})
        came = {"type": call.tool, **_outcome(call.execution)}
        parts.append({"type": "server_tool_call_response", "id": name, "server_tool_call_response": came})
        begin = call.at
    if text := turn.text[begin:]:
        parts.append({"type": "text", "content": text})
    return [*parts, *map(_call, turn.calls)]


def _outcome(execution: Execution) -> dict[str, Any]:
    """What came back; empty fields are left out."""
    found: dict[str, Any] = {
        "status": execution.status.value,
        "stdout": execution.stdout,
        "stderr": execution.stderr,
        "value": execution.value,
        "traceback": execution.traceback,
        "pictures": [f"urn:sha256:{picture.image.sha256}" for picture in execution.pictures],
        "notes": list(execution.notes),
    }
    return {name: value for name, value in found.items() if value}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
