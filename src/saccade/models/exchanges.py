"""What goes over the wire: each try of a request to a hosted model, as it was sent and as it came back.

    with heard(listener):
        await model.complete(request, media)

The listener hears every try, those that failed included, when it is over. Bodies are exact; headers are never looked
at, and the key is hidden wherever it stands in a body. Models in this process send nothing, so nothing is heard.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from saccade.core.disk import write_atomic
from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.content import Record, Text, ToolCall, clean_text
from saccade.record.trajectory import FinishReason

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
    """Let `listener` hear every exchange of this task within the block; None hears nothing."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


async def one_try(ask: Callable[[], Awaitable[T]], hide: Callable[[str], str]) -> T:
    """Return what `ask`, one try, gives; its exchange goes to the listener. `hide` takes secrets out of a text."""
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
    """Return event hooks of an httpx client that fill in the current exchange; without one they do nothing."""
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
    """Return `stream`, the body of an answer, kept while it is read.

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


# Keep replies on disk. The key is the model's name and the whole request, seed included: another seed asks again. Token
# ids and log-probabilities are not kept.


_log = logging.getLogger(__name__)


class _Reply(Record):
    text: Text
    finish: FinishReason = FinishReason.STOP
    tool_calls: tuple[ToolCall, ...] = ()
    model: Text = ""


class KeptModel:
    """Asks `model` for what `folder` does not hold yet. Any number of processes may share a folder."""

    def __init__(self, model: Model, folder: Path) -> None:
        self.name = model.name
        self._model = model
        self._folder = folder

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the kept reply, or a new one that is kept. Raises what the model raises; a failure is not kept. Raises
        `SettingsError` if a file of the folder is no kept reply, or the provider's sandbox is asked for.
        """
        if request.hosted:
            raise SettingsError("replies with calls of a provider's own sandbox are not kept; ask the model itself")
        file = self._file(self._asked(request))
        try:
            reply = _Reply.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            completion = await self._model.complete(request, media, on_text=on_text)
            _write(file, completion)
            return completion
        except ValidationError as error:
            raise SettingsError(f"{file} is no kept reply of a model; delete it: {error}") from error
        _log.debug("%s: kept reply %s.", self.name, file.stem[:12])
        if on_text is not None and reply.text:
            on_text(reply.text)
        return Completion(text=reply.text, finish=reply.finish, tool_calls=reply.tool_calls, model=reply.model)

    async def close(self) -> None:
        await self._model.close()

    def _asked(self, request: Request) -> str:
        asked = {
            "model": self.name,
            "messages": [message.model_dump(mode="json") for message in request.messages],
            "stop": request.stop,
            "sampling": request.sampling.model_dump(mode="json"),
            "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        }
        return json.dumps(asked, sort_keys=True)

    def _file(self, asked: str) -> Path:
        digest = sha256(asked.encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest}.json"


def _write(file: Path, completion: Completion) -> None:
    reply = _Reply(
        text=clean_text(completion.text),
        finish=completion.finish,
        tool_calls=completion.tool_calls,
        model=clean_text(completion.model),
    )
    write_atomic(file, reply.model_dump_json())
