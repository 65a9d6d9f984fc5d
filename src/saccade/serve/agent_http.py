"""What the faces of a server of agents share of HTTP: bodies within a limit, events, clients that go away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from saccade.errors import SaccadeError
from saccade.serve.agent_request import RequestError
from saccade.serve.openai_errors import as_request_error

_log = logging.getLogger(__name__)
_LARGE = 1 << 20
"""Bytes of a body from which on it is read as JSON in a thread."""
_PATIENCE = 0.25
"""Seconds after which one looks whether the client is still there. Not from the beginning: the task that waits for its
going costs as much as reading the request, and a short episode is over before it is of use."""
T = TypeVar("T")


class EventStream(StreamingResponse):
    """Server-sent events; `stack` ends with them, also when the client goes away or was gone before the first."""

    def __init__(self, events: AsyncIterator[str], stack: AsyncExitStack | None = None) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._stack = stack or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Not the base's own watching: it notices a client that is gone at the next event only, maybe minutes later.
        async with self._stack:
            with suppress(ClientDisconnect):
                await unless_gone(receive, self.stream_response(send))


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """What `work` gives; it is cancelled when the client goes away, and `ClientDisconnect` raised."""
    own = asyncio.current_task()
    assert own is not None
    gone = False
    leaving: asyncio.Task[None] | None = None

    async def leave() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        own.cancel()

    def watch() -> None:
        nonlocal leaving
        leaving = asyncio.create_task(leave())

    # Not a task for the work: this is on the way of every request.
    soon = asyncio.get_running_loop().call_later(_PATIENCE, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if gone and not own.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        soon.cancel()
        if leaving is not None:
            leaving.cancel()


async def read_json(scope: Scope, receive: Receive, most: int, seconds: float) -> Any:
    """The body, of at most `most` bytes and within `seconds`; stops reading as soon as it is over either.

    Raises:
        RequestError: it is larger, slower, or no JSON.
        ClientDisconnect: the client has gone.
    """
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    # A page of another origin can send other types without being asked.
    if kind.partition(b";")[0].strip().lower() != b"application/json":
        raise RequestError("the content type must be application/json.", code="unsupported_media_type", status=415)
    try:
        async with asyncio.timeout(seconds):
            body = await _within(receive, most)
    except TimeoutError:
        message = f"the request did not arrive within {seconds:g} s. Send smaller pictures, or use a faster connection."
        raise RequestError(message, code="request_timeout", status=408) from None
    try:
        return await asyncio.to_thread(_read, body) if len(body) > _LARGE else _read(body)
    except ValueError as error:
        raise RequestError(f"the body is no JSON: {error}.", code="invalid_json") from None


def _read(body: bytes) -> Any:
    # Stricter than `json`: no NaN, no half of a surrogate pair, which no answer could be written with.
    return from_json(body, allow_inf_nan=False)


async def _within(receive: Receive, most: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > most:
            raise RequestError(
                f"the request is over this server's limit of {most:,} bytes. Send smaller pictures.",
                code="request_too_large",
                status=413,
            )
        parts.append(part)
    return b"".join(parts)


def as_sent(error: Exception) -> RequestError:
    """Any error as one that can be sent; a fault of ours is logged."""
    if not isinstance(error, SaccadeError):
        _log.error("A request failed by a fault of the server.", exc_info=error)
    return as_request_error(error)
