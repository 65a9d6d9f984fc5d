"""The live page at `/` and what it asks for: examples, the episode of a question as it is played, and its stop.

The page holds no secret and is given to everybody; all else needs the token, as the rest of the server does. A question
is the body of a Chat Completion and is read as one. Nothing is stored: pictures lie in a folder of the request that is
deleted with it, and the finished page goes to the browser that asked, and to nobody else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import cache
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from saccade.report.page import ServedPart, page_html
from saccade.serve.agent_http import EventStream, as_sent, read_json
from saccade.serve.agent_request import RequestError
from saccade.serve.agents import AgentPool, ServedEpisode
from saccade.serve.live_events import LiveEvents, live_event
from saccade.serve.live_examples import example_medium, examples
from saccade.serve.live_guard import check_own_page
from saccade.serve.openai_chat import read_chat
from saccade.serve.openai_errors import error_body

PAGE: Final = "/"
"""The address that needs no token."""
_SCRIPTS: Final = ("store.js", "runs.js", "composer.js")
_GONE: Final = 499
_HEADERS: Final = {
    "content-security-policy": "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_Answer = Callable[[Request], Awaitable[Response]]


class LivePage:
    """Answers the page's requests over one pool."""

    def __init__(self, pool: AgentPool) -> None:
        self._pool = pool
        self._played: dict[str, asyncio.Event] = {}
        """By the name that its client alone knows, how an episode is stopped."""

    def routes(self) -> list[Route]:
        """The routes of the page."""
        return [
            Route(PAGE, _page),
            Route("/live/about", self._guarded(self._about)),
            Route("/live/examples", self._guarded(self._examples)),
            Route("/live/examples/{name}/{number:int}", self._guarded(self._example)),
            Route("/live/ask", self._guarded(self._ask), methods=["POST"]),
            Route("/live/stop", self._guarded(self._stop), methods=["POST"]),
        ]

    def _guarded(self, answer: _Answer) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def guarded(request: Request) -> Response:
            try:
                check_own_page(request)
                response = await answer(request)
            except ClientDisconnect:
                return Response(status_code=_GONE)
            except Exception as error:
                sent = as_sent(error)
                self._pool.metrics.refuse(sent.status)
                response = JSONResponse(error_body(sent), sent.status)
            response.headers.update(_HEADERS)
            return response

        return guarded

    async def _about(self, _: Request) -> Response:
        settings = self._pool.settings
        return JSONResponse(
            {"models": list(self._pool.models), "bytes": settings.max_body_bytes, "media": settings.max_media}
        )

    async def _examples(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(examples))

    async def _example(self, request: Request) -> Response:
        medium = await asyncio.to_thread(example_medium, request.path_params["name"], request.path_params["number"])
        if medium is None:
            raise RequestError("there is no such example.", code="not_found", status=404)
        return Response(medium.data, media_type=medium.mime)

    async def _ask(self, request: Request) -> Response:
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(self._pool.slot())
            settings = self._pool.settings
            body = await read_json(request.scope, request.receive, settings.max_body_bytes, settings.request_seconds)
            asked = read_chat(body, settings, allow_urls=False)
            live, cancel = LiveEvents(secrets.token_hex(16)), asyncio.Event()
            playing = self._pool.playing(asked, watch=live.hear, cancel=cancel)
            play = await stack.enter_async_context(playing)
            self._played[live.name] = cancel
            stack.callback(self._played.pop, live.name)
            return EventStream(_events(live, play), stack.pop_all())
        finally:
            await stack.aclose()

    async def _stop(self, request: Request) -> Response:
        body = await read_json(request.scope, request.receive, 1024, self._pool.settings.request_seconds)
        cancel = self._played.get(body["id"]) if isinstance(body, dict) and isinstance(body.get("id"), str) else None
        if cancel is None:
            raise RequestError("no such episode is being played.", code="not_found", status=404)
        cancel.set()
        return JSONResponse({"stopped": True})


async def _events(live: LiveEvents, play: ServedEpisode) -> AsyncIterator[str]:
    try:
        async for event in live.events(play):
            yield event
    except Exception as error:
        yield live_event("failed", message=str(as_sent(error)))


async def _page(_: Request) -> Response:
    return HTMLResponse(_html(), headers=_HEADERS)


@cache
def _html() -> str:
    script = "".join(_asset(name) for name in _SCRIPTS)
    footer = "Served by saccade serve. This page asks nobody but its own server, which keeps nothing."
    served = ServedPart(footer, _asset("live.css"), script, allows="media-src data:; ")
    return page_html("Look again", Markup(_asset("live.html")), {}, served=served)  # our own file


def _asset(name: str) -> str:
    return (files("saccade.serve") / "live_page" / name).read_text(encoding="utf-8")
