"""Pages of runs over HTTP on this machine alone, made when they are asked for, while the runs grow.

It answers `GET` on the loopback interface, and refuses a request that names another host (as a stranger's page sends it
whose name resolves to this machine). It serves pages that it makes and no file; nothing is written. The pages have
the same policy as stored ones, but may ask this server for data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from saccade.errors import SaccadeError
from saccade.evals.listing import is_run, list_runs
from saccade.report.live import LiveRun
from saccade.report.runs_page import runs_page

HOST = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost"})
_ROUTE = re.compile(r"/run/(?P<run>.+?)/(?:(?P<data>data\.json)|episode/(?P<episode>\d{1,15}))?")


class Viewer:
    """The pages of a run, or of all runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.single = is_run(folder)
        self._runs: dict[str, LiveRun] = {}

    def answer(self, path: str, query: str) -> tuple[HTTPStatus, str, str]:
        """Status, type and text for an address. Raises `SaccadeError` for a run that cannot be read."""
        if path == "/":
            if self.single:
                return HTTPStatus.SEE_OTHER, "/run/this/", ""
            return HTTPStatus.OK, "text/html", runs_page(list_runs(self.folder), lambda run: f"/run/{run.name}/")
        match = _ROUTE.fullmatch(path)
        run = None if match is None else self._run(match["run"])
        if match is None or run is None:
            return HTTPStatus.NOT_FOUND, "text/plain", "There is no such page."
        if match["data"]:
            if query == f"version={run.version}":
                return HTTPStatus.NO_CONTENT, "application/json", ""
            return HTTPStatus.OK, "application/json", json.dumps(run.data())
        if match["episode"]:
            try:
                return HTTPStatus.OK, "text/html", run.episode(int(match["episode"]))
            except KeyError:
                return HTTPStatus.NOT_FOUND, "text/plain", "There is no such sample any more."
        return HTTPStatus.OK, "text/html", run.page()

    def _run(self, name: str) -> LiveRun | None:
        """The run of that name; one that is not in the list is none, so no path leads out of the folder."""
        if self.single:
            known = {"this": self.folder}
        else:
            known = {run.name: run.path for run in list_runs(self.folder)} if name not in self._runs else {}
        if name not in self._runs and name in known:
            title = self.folder.resolve().name if self.single else name
            self._runs[name] = LiveRun(title, known[name])
        return self._runs.get(name)


def serve(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server for `folder` that listens already; call `serve_forever`. Port 0 takes a free one. Raises `OSError`."""
    return ThreadingHTTPServer((HOST, port), _handler(Viewer(folder).answer))


def _handler(answer: Callable[[str, str], tuple[HTTPStatus, str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "saccade"
        sys_version = ""

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
                self._send(HTTPStatus.FORBIDDEN, "text/plain", "This server answers to 127.0.0.1 alone.")
                return
            try:
                self._send(*answer(unquote(path), query))
            except SaccadeError as error:
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))

        def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            if status is HTTPStatus.SEE_OTHER:
                self.send_header("Location", kind)
            else:
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    return Handler
