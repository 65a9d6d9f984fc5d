"""What Gemini answers, in the forms of its REST reference; behaviours for the local server."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from tests.models.wire_server import Behaviour, events

USAGE = {
    "promptTokenCount": 1000,
    "cachedContentTokenCount": 400,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 30,
    "totalTokenCount": 1040,
}


def generated(*parts: str | dict[str, Any], finish: str | None = "STOP", **candidate: Any) -> Behaviour:
    """A right answer; where the address asks for a stream, each part, and each letter of a text, is a chunk."""
    content_parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    end = {"finishReason": finish, **candidate}

    async def behave(body: dict[str, Any]) -> Response:
        frame = {"modelVersion": "served-3", "responseId": "r"}
        if not body.get("stream"):
            content = {"role": "model", "parts": content_parts}
            return JSONResponse({**frame, "candidates": [{"content": content, **end}], "usageMetadata": USAGE})
        pieces: list[dict[str, Any]] = []
        for part in content_parts:
            pieces += [{"text": letter} for letter in part["text"]] if set(part) == {"text"} else [part]
        chunks = [{**frame, "candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in pieces]
        chunks.append({**frame, "candidates": [{"content": {"role": "model", "parts": []}, **end}]})
        chunks[-1]["usageMetadata"] = USAGE
        return events([json.dumps(chunk) for chunk in chunks])

    return behave


def called(name: str, arguments: dict[str, Any], call_id: str = "f1", signature: str = "sealed") -> dict[str, Any]:
    """A part with a function call and its signature."""
    call = {"name": name, "args": arguments, "id": call_id}
    return {"functionCall": call, "thoughtSignature": base64.b64encode(signature.encode()).decode()}


def blocked(reason: str) -> Behaviour:
    """The service does not let the model read the request."""

    async def behave(body: dict[str, Any]) -> Response:
        answer = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 5}}
        return events([json.dumps(answer)]) if body.get("stream") else JSONResponse(answer)

    return behave


def google_error(code: int, status: str, message: str, *details: dict[str, Any]) -> Behaviour:
    """An error in Google's form."""

    async def behave(_: dict[str, Any]) -> Response:
        error = {"code": code, "status": status, "message": message, "details": list(details)}
        return JSONResponse({"error": error}, code)

    return behave


async def silent(_: dict[str, Any]) -> Response:
    """Takes the request and does not answer within a test's patience."""
    await asyncio.sleep(2)
    return Response()
