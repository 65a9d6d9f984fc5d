"""What the Responses API answers, in the forms of its reference; behaviours for the local server."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from tests.models.wire_server import Behaviour, events

USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 0},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 1040,
}


def message(text: str, kind: str = "output_text") -> dict[str, Any]:
    key = "refusal" if kind == "refusal" else "text"
    part = {"type": kind, key: text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def reasoning(sealed: str, *summary: str) -> dict[str, Any]:
    texts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": texts, "encrypted_content": sealed}


def function_call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "arguments": arguments}


def responded(*items: dict[str, Any], status: str = "completed", **fields: Any) -> Behaviour:
    """A response with these items; texts come letter by letter where the client asks for a stream."""
    frame = {"id": "resp_1", "object": "response", "created_at": 1, "model": "served-4", "output": [], "tools": []}
    response = {**frame, "status": status, "output": list(items), "usage": USAGE, **fields}

    async def behave(body: dict[str, Any]) -> Response:
        if not body.get("stream"):
            return JSONResponse(response)
        sent: list[dict[str, Any]] = [{"type": "response.created", "response": {**frame, "status": "in_progress"}}]
        for index, item in enumerate(items):
            where = {"item_id": item["id"], "output_index": index, "content_index": 0, "summary_index": 0}
            for part in item.get("summary") or item.get("content") or ():
                kind = {"summary_text": "reasoning_summary_text"}.get(part["type"], part["type"])
                letters = part.get("text") or part.get("refusal") or ""
                sent += [{"type": f"response.{kind}.delta", **where, "delta": letter} for letter in letters]
            sent.append({"type": "response.output_item.done", "output_index": index, "item": item})
        sent.append({"type": f"response.{status}", "response": response})
        return events([json.dumps({**event, "sequence_number": number}) for number, event in enumerate(sent)])

    return behave
