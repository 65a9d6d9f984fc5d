"""What goes over the wire: each try of a request to a hosted model, as it was sent and as it came back.

    with heard(listener):
        await model.complete(request, media)

The listener hears every try, those that failed included, when it is over. Bodies are exact; headers are never looked
at, and the key is hidden wherever it stands in a body. Models in this process send nothing, so nothing is heard.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Exchange:
    """One try of one request."""

    path: str = ""
    """Of the address, without host and query; empty if nothing was sent."""
    sent: bytes = b""
    status: int | None = None
    """HTTP status; None if no answer came."""
    received: bytearray = field(default_factory=bytearray)
    """The body as far as it was read."""
    encoding: str = ""
    """Of a body that a server compressed although it was asked not to; else empty."""
    error: str = ""
    """What went wrong, in the words of the error; empty if nothing did."""
    seconds: float = 0.0


ExchangeListener = Callable[[Exchange], None]

_LISTENER: ContextVar[ExchangeListener | None] = ContextVar("saccade_exchanges", default=None)
_CURRENT: ContextVar[Exchange | None] = ContextVar("saccade_exchange", default=None)


@contextmanager
def heard(listener: ExchangeListener | None) -> Iterator[None]:
    """Within it `listener` hears every exchange of this task; None hears nothing."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


async def one_try(ask: Callable[[], Awaitable[T]], hide: Callable[[str], str]) -> T:
    """What `ask`, one try, gives; its exchange goes to the listener. `hide` takes secrets out of a text."""
    listener = _LISTENER.get()
    if listener is None:
        return await ask()
    exchange, begun = Exchange(), time.monotonic()
    token = _CURRENT.set(exchange)
    try:
        return await ask()
    except BaseException as error:
        exchange.error = hide(f"{type(error).__name__}: {error}")
        raise
    finally:
        _CURRENT.reset(token)
        exchange.seconds = time.monotonic() - begun
        exchange.sent = _hidden(bytes(exchange.sent), hide)
        exchange.received = bytearray(_hidden(bytes(exchange.received), hide))
        listener(exchange)


def hooks() -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Event hooks of an httpx client that fill in the current exchange; without one they do nothing."""
    return {"request": [_sending], "response": [_answered]}


async def _sending(request: Any) -> None:
    exchange = _CURRENT.get()
    if exchange is not None:
        request.headers["accept-encoding"] = "identity"
        exchange.path, exchange.sent = request.url.path, await request.aread()
        exchange.status, exchange.received = None, bytearray()


async def _answered(response: Any) -> None:
    exchange = _CURRENT.get()
    if exchange is not None:
        exchange.status = response.status_code
        exchange.encoding = response.headers.get("content-encoding", "").replace("identity", "")
        response.stream = _listening(response.stream, exchange)


def _listening(stream: Any, exchange: Exchange) -> object:
    """`stream`, the body of an answer, kept while it is read.

    The client checks for its own class, which is httpx's or a fork's, so the class is made from that of `stream`.
    """
    [base] = [kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream"]

    async def pieces(self: object) -> AsyncIterator[bytes]:
        async for piece in stream:
            exchange.received += piece
            yield piece

    async def aclose(self: object) -> None:
        await stream.aclose()

    return type("ListeningStream", (base,), {"__aiter__": pieces, "aclose": aclose})()


def _hidden(body: bytes, hide: Callable[[str], str]) -> bytes:
    return hide(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
