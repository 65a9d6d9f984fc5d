"""`agent_app`: agents behind OpenAI's protocol, as an ASGI application.

`/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/health`, `/metrics`, and the live page with what it asks for
(live_routes.py). Everything but `/health` and the page itself needs the token. No page of another origin may read an
answer, since nothing here allows it to. A request that names another host than this machine is refused where only this
machine should reach the server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from saccade.errors import UnavailableError
from saccade.serve import openai_chat, openai_responses
from saccade.serve.agent_request import AgentQuestion, RequestError, not_served
from saccade.serve.agents import AgentPool, ServedEpisode
from saccade.serve.bearer import AsgiApp, BearerGate
from saccade.serve.openai_errors import UNAUTHORIZED, error_body
from saccade.serve.own_pages import LOCAL_NAMES

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from saccade.serve.agent_http import EventStream, as_sent, read_json, unless_gone
    from saccade.serve.live_routes import PAGE, LivePage
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "serving agents needs FastAPI and uvicorn, which are not installed. Run: pip install 'saccade[serve]'"
    ) from missing

_GONE = 499


@dataclass(frozen=True, slots=True)
class _Protocol:
    """One of the two APIs."""

    read: Callable[..., AgentQuestion]
    respond: Callable[[AgentQuestion, ServedEpisode], Awaitable[dict[str, Any]]]
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

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "saccade"}

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [described(name) for name in pool.models]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        if name in pool.models:
            return JSONResponse(described(name))
        return JSONResponse(error_body(not_served(name, pool.models)), 404)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(pool.metrics.text(), media_type="text/plain; version=0.0.4")

    def answering(protocol: _Protocol) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            return await _answer(request, protocol, pool, allow_urls)

        return answer

    app = Starlette(
        lifespan=lifespan,
        routes=[
            # The first that fits is taken, so what is asked most comes first.
            Route("/v1/chat/completions", answering(_CHAT), methods=["POST"]),
            Route("/v1/responses", answering(_RESPONSES), methods=["POST"]),
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/metrics", metrics),
            *LivePage(pool).routes(),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_NAMES)] if only_local else [],
        exception_handlers={404: _not_found, 405: _not_found},
    )
    return BearerGate(app, token, refusal=UNAUTHORIZED, free=("/health", PAGE))


async def _answer(request: Request, protocol: _Protocol, pool: AgentPool, allow_urls: bool) -> Response:
    """The answer to one request; until it begins, every failure is an error in OpenAI's form."""
    stack = AsyncExitStack()
    try:
        await stack.enter_async_context(pool.slot())
        body = await read_json(request, pool.settings.max_body_bytes, pool.settings.request_seconds)
        asked = protocol.read(body, pool.settings, allow_urls=allow_urls)
        play = await stack.enter_async_context(pool.playing(asked))
        if asked.stream:
            return EventStream(_streamed(protocol, asked, play), stack.pop_all())
        return JSONResponse(await unless_gone(request.receive, protocol.respond(asked, play)))
    except ClientDisconnect:
        return Response(status_code=_GONE)
    except Exception as error:
        sent = as_sent(error)
        pool.metrics.refuse(sent.status)
        return JSONResponse(error_body(sent), sent.status)
    finally:
        await stack.aclose()


async def _streamed(protocol: _Protocol, asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    try:
        async for event in protocol.stream(asked, play):
            yield event
    except Exception as error:
        yield protocol.failed(as_sent(error))


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    sent = RequestError(f"there is no {request.method} {request.url.path} here.", code="not_found", status=status)
    return JSONResponse(error_body(sent), status)
