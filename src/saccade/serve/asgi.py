"""The interface between a web server and an application in types, and one answer sent over it without a framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY_VIOLATION = 1008


async def send_json(send: Send, body: bytes, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send one whole answer; `body` is JSON."""
    size = str(len(body)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", size), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def refuse(
    scope: Scope, send: Send, body: bytes, status: int, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Refuse a request with `body`, or a WebSocket before it is accepted, which its client sees as 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    else:
        await send_json(send, body, status, headers)
