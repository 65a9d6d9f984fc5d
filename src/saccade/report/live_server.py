"""Serve pages of runs on this machine, made when they are asked for, while the runs grow.

The applications answer only requests that name this machine (a page of a stranger may have a name that resolves to it).
They serve pages that they make and no file; nothing is written. The pages have the same policy as stored ones, but may
ask this server for data.
"""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from saccade.core.local_page import local_app
from saccade.evals.listing import is_run, list_runs
from saccade.report.live import LiveRun
from saccade.report.runs_page import runs_page


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
