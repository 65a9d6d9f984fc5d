"""A server on the loopback interface that speaks the wire protocols, and misbehaves when told to.

It refuses what the real services refuse, whatever it was told to do.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from tests.models.listening import listening
from tests.models.wire_rules import broken_rule

Behaviour = Callable[[dict[str, Any]], Awaitable[Response]]


@dataclass
class WireServer:
    """What it was asked, and what it does next: one behaviour for each request, the last one for all that follow."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    behaviours: list[Behaviour] = field(default_factory=list)
    has_rules: bool = True
    """It refuses what the real services refuse."""
    aborted: threading.Event = field(default_factory=threading.Event)
    """Set when a client went away in the middle of a slow answer."""

    def will(self, *behaviours: Behaviour) -> WireServer:
        self.bodies.clear()
        self.headers.clear()
        self.aborted.clear()
        self.has_rules = True
        self.behaviours = list(behaviours)
        return self

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        rule = broken_rule(request.url.path, body) if self.has_rules else None
        if rule is not None:
            return JSONResponse({"error": {"message": f"broken rule: {rule}"}}, 400)
        if request.url.path.endswith(":streamGenerateContent"):  # here the address says so, not the body
            body = {**body, "stream": True}
        behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
        return await behaviour(body)


@contextmanager
def running() -> Iterator[WireServer]:
    app = FastAPI()
    server = WireServer()
    for path in ("chat/completions", "messages", "responses", "models/{call}"):
        app.post(f"/v1/{path}")(server.answer)
        app.post(f"/openai/v1/{path}")(server.answer)
    with listening(app) as server.url:
        yield server


# Behaviours of any server.


def status(code: int, message: str = "no", *, param: str | None = None, **headers: str) -> Behaviour:
    async def behave(_: dict[str, Any]) -> Response:
        content = {"error": {"message": message, "type": "some_error", "param": param, "code": None}}
        return JSONResponse(content, code, {name.replace("_", "-"): value for name, value in headers.items()})

    return behave


def raw(content: str, media_type: str = "application/json", *, status: int = 200) -> Behaviour:
    async def behave(_: dict[str, Any]) -> Response:
        return Response(content, status, media_type=media_type)

    return behave


def slow(server: WireServer) -> Behaviour:
    """Begins to answer and never goes on."""
    return then_slow(server)


def then_slow(server: WireServer, *data: str) -> Behaviour:
    """Streams these data and never goes on."""
    return stalled(server, *(f"data: {item}\n\n" for item in data))


def stalled(server: WireServer, *pieces: str) -> Behaviour:
    """Streams these pieces, as they are, and never goes on."""

    async def lines() -> AsyncIterator[str]:
        try:
            yield ": wait\n\n"
            for piece in pieces:
                yield piece
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            server.aborted.set()
            raise

    async def behave(_: dict[str, Any]) -> Response:
        return StreamingResponse(lines(), media_type="text/event-stream")

    return behave


def torn(content: str) -> Behaviour:
    """Begins a body of JSON and closes the connection in the middle of it."""

    async def pieces() -> AsyncIterator[str]:
        yield content
        raise ConnectionError("on purpose")

    async def behave(_: dict[str, Any]) -> Response:
        return StreamingResponse(pieces(), media_type="application/json")

    return behave


# The chat-completions protocol.


def chat(text: str | None = "hello", *, finish: str = "stop", **choice: Any) -> Behaviour:
    """A right answer, streamed letter by letter where the client asks for a stream."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 400}}
    frame = {"id": "c", "created": 1, "model": "served-1", "object": "chat.completion"}
    calls = choice.pop("tool_calls", None)

    async def behave(body: dict[str, Any]) -> Response:
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, "tool_calls": calls}
            full_choice = {"index": 0, "finish_reason": finish, "message": message, **choice}
            return JSONResponse({**frame, "choices": [full_choice], "usage": usage})
        deltas: list[dict[str, Any]] = [{"content": letter} for letter in text or ""]
        deltas += [{"tool_calls": [{**call, "index": at}]} for at, call in enumerate(calls or ())]
        chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish, **choice}]})
        chunks.append({**frame, "choices": [], "usage": usage})
        return events([*map(json.dumps, chunks), "[DONE]"])

    return behave


def events(data: list[str], *, breaks: bool = False) -> Response:
    async def lines() -> AsyncIterator[str]:
        for item in data:
            yield f"data: {item}\n\n"
            await asyncio.sleep(0)
        if breaks:
            raise ConnectionError("on purpose")

    return StreamingResponse(lines(), media_type="text/event-stream")


def stream(*data: str, breaks: bool = False) -> Behaviour:
    """A stream of just these data; with `breaks` the connection is closed without its proper end."""

    async def behave(_: dict[str, Any]) -> Response:
        return events(list(data), breaks=breaks)

    return behave


def delta(text: str) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return json.dumps({"id": "c", "created": 1, "model": "served-1", "object": "x", "choices": [choice]})


# The messages protocol.


def message_events(
    text: str = "hello", *, reason: str = "end_turn", stop: str | None = None, tool: dict[str, Any] | None = None
) -> list[str]:
    usage = {"input_tokens": 500, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100}
    start: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "served-2",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    items: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": c}} for c in text],
        {"type": "content_block_stop", "index": 0},
    ]
    if tool is not None:
        block = {"type": "tool_use", "id": tool.get("id", "t1"), "name": tool["name"], "input": {}}
        half = len(tool["json"]) // 2
        pieces = (tool["json"][:half], tool["json"][half:])
        items.append({"type": "content_block_start", "index": 1, "content_block": block})
        items += [
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ]
        items.append({"type": "content_block_stop", "index": 1})
    items.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": stop},
            "usage": {"output_tokens": 10},
        }
    )
    items.append({"type": "message_stop"})
    return [f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" for item in items]


def messages(*, upto: int | None = None, breaks: bool = False, **answer: Any) -> Behaviour:
    """A right answer, or its first `upto` events."""

    async def lines() -> AsyncIterator[str]:
        for item in message_events(**answer)[:upto]:
            yield item
            await asyncio.sleep(0)
        if breaks:
            raise ConnectionError("on purpose")

    async def behave(_: dict[str, Any]) -> Response:
        return StreamingResponse(lines(), media_type="text/event-stream")

    return behave
