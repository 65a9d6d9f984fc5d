"""`agent_app`: agents behind OpenAI's protocol, as an ASGI application.

`/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/health` and `/metrics`. Everything but `/health` needs the
token. No page of another origin may read an answer, since nothing here allows it to. A request that names another host
than this machine is refused where only this machine should reach the server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from saccade.errors import SaccadeError, UnavailableError
from saccade.serve import openai_chat, openai_responses
from saccade.serve.agent_request import AgentQuestion, AgentServeSettings, RequestError
from saccade.serve.agents import AgentPool, ServedEpisode
from saccade.serve.bearer import AsgiApp, BearerGate
from saccade.serve.openai_errors import UNAUTHORIZED, as_request_error, error_body

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "serving agents needs FastAPI and uvicorn, which are not installed. Run: pip install 'saccade[serve]'"
    ) from missing

_log = logging.getLogger(__name__)
_GONE = 499
_LARGE = 1 << 20
"""Bytes of a body from which on it is read as JSON in a thread."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Protocol:
    """One of the two APIs."""

    read: Callable[..., AgentQuestion]
    whole: Callable[[AgentQuestion, ServedEpisode], Awaitable[dict[str, Any]]]
    stream: Callable[[AgentQuestion, ServedEpisode], AsyncIterator[str]]
    failed: Callable[[RequestError], str]


_CHAT = _Protocol(
    openai_chat.read_chat,
    openai_chat.completion,
    openai_chat.chunks,
    lambda error: openai_chat.chat_error(error_body(error)),
)
_RESPONSES = _Protocol(
    openai_responses.read_response_request,
    openai_responses.response,
    openai_responses.events,
    openai_responses.response_error,
)


def agent_app(pool: AgentPool, *, token: str | None, only_local: bool, allow_urls: bool = False) -> AsgiApp:
    """The application, which starts `pool` and closes it.

    Args:
        pool: what plays the episodes.
        token: None asks nobody for one: only for a server that no other machine can reach.
        only_local: whether requests must name this machine as their host.
        allow_urls: whether pictures are fetched from addresses that a request names.

    Raises:
        SettingsError: the token is empty.
    """
    started = int(time.time())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    async def health(_: Request) -> Response:
        return JSONResponse({"ok": True})

    async def models(_: Request) -> Response:
        listed = [{"id": name, "object": "model", "created": started, "owned_by": "saccade"} for name in pool.models]
        return JSONResponse({"object": "list", "data": listed})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(pool.metrics.text(), media_type="text/plain; version=0.0.4")

    def answering(protocol: _Protocol) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            return await _answer(request, protocol, pool, allow_urls)

        return answer

    app = Starlette(
        lifespan=lifespan,
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/metrics", metrics),
            Route("/v1/chat/completions", answering(_CHAT), methods=["POST"]),
            Route("/v1/responses", answering(_RESPONSES), methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]"])]
        if only_local
        else [],
        exception_handlers={404: _not_found, 405: _not_found},
    )
    return BearerGate(app, token, refusal=UNAUTHORIZED, free=("/health",))


async def _answer(request: Request, protocol: _Protocol, pool: AgentPool, allow_urls: bool) -> Response:
    """The answer to one request; until it begins, every failure is an error in OpenAI's form."""
    stack = AsyncExitStack()
    try:
        await stack.enter_async_context(pool.slot())
        asked = protocol.read(await _json(request, pool.settings), pool.settings, allow_urls=allow_urls)
        play = await stack.enter_async_context(pool.playing(asked))
        if asked.stream:
            return _EventStream(_streamed(protocol, asked, play), stack.pop_all())
        return JSONResponse(await _unless_gone(request.receive, protocol.whole(asked, play)))
    except ClientDisconnect:
        return Response(status_code=_GONE)
    except Exception as error:
        sent = _as_sent(error)
        pool.metrics.refuse(sent.status)
        return JSONResponse(error_body(sent), sent.status)
    finally:
        await stack.aclose()


class _EventStream(StreamingResponse):
    """Server-sent events; `stack` ends with them, also when the client goes away or was gone before the first."""

    def __init__(self, events: AsyncIterator[str], stack: AsyncExitStack) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Not the base's own watching: it notices a client that is gone at the next event only, maybe minutes later.
        async with self._stack:
            with suppress(ClientDisconnect):
                await _unless_gone(receive, self.stream_response(send))


async def _streamed(protocol: _Protocol, asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    try:
        async for event in protocol.stream(asked, play):
            yield event
    except Exception as error:
        yield protocol.failed(_as_sent(error))


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """What `work` gives; it is cancelled when the client goes away, and `ClientDisconnect` raised."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for pending in (task, gone):
            pending.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _json(request: Request, settings: AgentServeSettings) -> Any:
    """The body. Stops reading as soon as it is over the limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of another origin can send other types without being asked
        raise RequestError("the content type must be application/json.", code="unsupported_media_type", status=415)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > settings.max_body_bytes:
            raise RequestError(
                f"the request is over this server's limit of {settings.max_body_bytes:,} bytes. Send smaller pictures.",
                code="request_too_large",
                status=413,
            )
        parts.append(part)
    body = b"".join(parts)
    try:
        return await asyncio.to_thread(json.loads, body) if size > _LARGE else json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}.", code="invalid_json") from None


def _as_sent(error: Exception) -> RequestError:
    if not isinstance(error, SaccadeError):
        _log.error("A request failed by a fault of the server.", exc_info=error)
    return as_request_error(error)


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    sent = RequestError(f"there is no {request.method} {request.url.path} here.", code="not_found", status=status)
    return JSONResponse(error_body(sent), status)
