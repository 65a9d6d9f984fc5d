"""Serve pages of runs on this machine, made when they are asked for, while the runs grow.

The applications answer only requests that name this machine (a page of a stranger may have a name that resolves to it).
They serve pages that they make and no file; nothing is written. The pages have the same policy as stored ones, but may
ask this server for data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from saccade.errors import SaccadeError, UnavailableError
from saccade.evals.listing import is_run, list_runs
from saccade.report.live import LiveRun
from saccade.report.runs_page import runs_page

try:
    from starlette.applications import Starlette
    from starlette.datastructures import MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "serving pages needs FastAPI and uvicorn, which are not installed. Run: pip install 'saccade[serve]'"
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


def viewer(folder: Path) -> Starlette:
    """Make the application that shows a run, or all runs below a folder."""
    runs = _Runs(folder)

    def index(request: Request) -> Response:
        if runs.single:
            return RedirectResponse("/run/this/", 303)
        return HTMLResponse(runs_page(list_runs(folder), lambda run: f"/run/{run.name}/"))

    def data(request: Request) -> Response:
        run = runs.named(request.path_params["run"])
        if request.query_params.get("version") == run.version:
            return Response(status_code=204)
        return JSONResponse(run.data())

    def episode(request: Request) -> Response:
        try:
            return HTMLResponse(runs.named(request.path_params["run"]).episode(request.path_params["begin"]))
        except KeyError:
            raise HTTPException(404, "There is no such sample any more.") from None

    def page(request: Request) -> Response:
        return HTMLResponse(runs.named(request.path_params["run"]).page())

    return local_app(
        [
            Route("/", index),
            Route("/run/{run:path}/data.json", data),
            Route("/run/{run:path}/episode/{begin:int}", episode),
            Route("/run/{run:path}/", page),
        ]
    )


class _Runs:
    """The runs of a folder, or the one run that the folder is."""

    def __init__(self, folder: Path) -> None:
        self.single = is_run(folder)
        self._folder = folder
        self._runs: dict[str, LiveRun] = {}

    def named(self, name: str) -> LiveRun:
        """Return the run of that name; one that is not in the list is none, so no path leads out of the folder."""
        if name not in self._runs:
            listed = {"this": self._folder} if self.single else {run.name: run.path for run in list_runs(self._folder)}
            if name not in listed:
                raise HTTPException(404)
            title = self._folder.resolve().name if self.single else name
            self._runs.setdefault(name, LiveRun(title, listed[name]))
        return self._runs[name]


def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 500)


def _missing(request: Request, error: Exception) -> Response:
    said = error.detail if isinstance(error, HTTPException) else ""
    return PlainTextResponse("There is no such page." if said in ("", "Not Found") else said, 404)
