"""Serve pages to this machine only, by Starlette (extra `serve`).

An application answers only requests that name this machine: a page of a stranger may have a name that resolves to it.
It is no protection against other users of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from saccade.core.registry import install
from saccade.errors import SaccadeError, UnavailableError

try:
    from starlette.applications import Starlette
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise UnavailableError(
        f"serving pages needs FastAPI and uvicorn, which are not installed. Run: {install('serve')}"
    ) from missing

HOST: Final = "127.0.0.1"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _WithHeaders:
    """Add headers to every answer of an application, refusals included."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, with_headers)


def local_app(routes: Sequence[BaseRoute], headers: Mapping[str, str] | None = None) -> Starlette:
    """Make an application for this machine only; every answer has the `headers`, and forbids to store it.

    A `SaccadeError` or `OSError` of a route becomes an answer with its text.
    """
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(_WithHeaders, {**_HEADERS, **(headers or {})}),
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False),
        ],
        exception_handlers={SaccadeError: _failed, OSError: _failed, 404: _missing},
    )
    app.router.redirect_slashes = False
    return app


def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 500)


def _missing(request: Request, error: Exception) -> Response:
    said = error.detail if isinstance(error, HTTPException) else ""
    return PlainTextResponse("There is no such page." if said in ("", "Not Found") else said, 404)
