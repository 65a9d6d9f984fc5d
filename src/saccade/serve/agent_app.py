"""`agent_app`: agents behind OpenAI's protocol, as an ASGI application.

`/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/health`, `/metrics`, and the live page with what it asks for
(live_routes.py). Everything but `/health` and the page itself needs the token. No page of another origin may read an
answer, since nothing here allows it to. A request that names another host than this machine is refused where only this
machine should reach the server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from saccade.errors import UnavailableError
from saccade.serve import openai_chat, openai_responses
from saccade.serve.agent_request import AgentQuestion, RequestError, not_served
from saccade.serve.agents import AgentPool, ServedEpisode
from saccade.serve.asgi import AsgiApp, Receive, Scope, Send, send_json
from saccade.serve.bearer import BearerGate
from saccade.serve.openai_errors import UNAUTHORIZED, error_body
from saccade.serve.own_pages import OTHER_HOST, OwnNames

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from saccade.serve.agent_http import EventStream, as_sent, read_json, unless_gone
    from saccade.serve.live_routes import PAGE, LivePage
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "serving agents needs FastAPI and uvicorn, which are not installed. Run: pip install 'saccade[serve]'"
    ) from missing


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


_OTHER_HOST: Final = RequestError(OTHER_HOST, code="other_host")


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

    app = Starlette(
        lifespan=lifespan,
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/metrics", metrics),
            *LivePage(pool).routes(),
        ],
        exception_handlers={404: _not_found, 405: _not_found},
    )
    doors = {
        "/v1/chat/completions": _Door(_CHAT, pool, allow_urls),
        "/v1/responses": _Door(_RESPONSES, pool, allow_urls),
    }

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        # What is asked most goes past the layers and routes of the framework, a good part of what a request costs.
        door = doors.get(scope["path"], app) if scope["type"] == "http" else app
        await door(scope, receive, send)

    named = OwnNames(served, refusal=to_json(error_body(_OTHER_HOST))) if only_local else served
    return BearerGate(named, token, refusal=UNAUTHORIZED, free=("/health", PAGE))


@dataclass(frozen=True, slots=True)
class _Door:
    """One of the two APIs at its address."""

    protocol: _Protocol
    pool: AgentPool
    allow_urls: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; until the answer begins, every failure is an error in OpenAI's form."""
        begun = False
        try:
            if scope["method"] != "POST":
                raise _none_here(scope, 405)
            async with self.pool.slot():
                settings = self.pool.settings
                body = await read_json(scope, receive, settings.max_body_bytes, settings.request_seconds)
                asked = self.protocol.read(body, settings, allow_urls=self.allow_urls)
                async with self.pool.playing(asked) as play:
                    if asked.stream:
                        begun = True
                        await EventStream(_streamed(self.protocol, asked, play))(scope, receive, send)
                        return
                    answer = await unless_gone(receive, self.protocol.respond(asked, play))
        except ClientDisconnect:
            return
        except Exception as error:
            if begun:
                raise
            sent = as_sent(error)
            self.pool.metrics.refuse(sent.status)
            await send_json(send, to_json(error_body(sent)), sent.status)
            return
        await send_json(send, to_json(answer))


async def _streamed(protocol: _Protocol, asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    try:
        async for event in protocol.stream(asked, play):
            yield event
    except Exception as error:
        yield protocol.failed(as_sent(error))


async def _not_found(request: Request, error: Exception) -> Response:
    sent = _none_here(request.scope, getattr(error, "status_code", 404))
    return JSONResponse(error_body(sent), sent.status)


def _none_here(scope: Scope, status: int) -> RequestError:
    return RequestError(f"there is no {scope['method']} {scope['path']} here.", code="not_found", status=status)
