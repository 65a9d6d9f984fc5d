"""The FastAPI application of a server of tools: the wire of `saccade.tools.served_wire` over a backend.

Everything but `/v1/health` and `/v1/ready` needs the bearer token. There is no encryption: put TLS in front of it, or
keep it on a network that you trust. A tool can do what the server's user can: offer those that you trust.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from pydantic import ValidationError

from saccade.core.plugins import install
from saccade.core.web import OTHER_HOST, AsgiApp, BearerGate, OwnNames, OwnPages
from saccade.errors import MediaError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.served_wire import MediaKind, ServedCall, ServedRefusal, sent
from saccade.tools.serving.backend import HeldMedia, ServerLimits, ToolBackend

# Counters of a server of tools, in the text format of Prometheus. They hold nothing of any call's content.


_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the classes of times, in seconds."""


class ToolServerMetrics:
    """Counts calls; only the event loop touches it."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """By tool and how they ended: a status, or the code of a refusal."""
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._count: Counter[str] = Counter()
        self._classes: Counter[tuple[str, float]] = Counter()

    def note(self, tool: str, end: str, seconds: float) -> None:
        """Count a call that ended."""
        self.calls[tool, end] += 1
        self._count[tool] += 1
        self._seconds[tool] += seconds
        for bound in _BUCKETS:
            self._classes[tool, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """Return all of it, with numbers of the backend by group."""
        lines = ["# HELP saccade_tool_calls_total Calls by tool and end.", "# TYPE saccade_tool_calls_total counter"]
        lines += [
            f'saccade_tool_calls_total{{tool="{tool}",end="{end}"}} {number}'
            for (tool, end), number in sorted(self.calls.items())
        ]
        lines += ["# HELP saccade_tool_call_seconds Time of a call.", "# TYPE saccade_tool_call_seconds histogram"]
        for tool, count in sorted(self._count.items()):
            name = "saccade_tool_call_seconds"
            lines += [f'{name}_bucket{{tool="{tool}",le="{b:g}"}} {self._classes[tool, b]}' for b in _BUCKETS]
            lines += [f'{name}_bucket{{tool="{tool}",le="+Inf"}} {count}']
            lines += [f'{name}_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}']
            lines += [f'{name}_count{{tool="{tool}"}} {count}']
        for name, values in gauges.items():
            lines.append(f"# TYPE saccade_tool_{name} {'counter' if name.endswith('_total') else 'gauge'}")
            lines += [f'saccade_tool_{name}{{group="{group}"}} {value:g}' for group, value in sorted(values.items())]
        return "\n".join(lines) + "\n"


try:
    from fastapi import FastAPI, Request, Response
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
except ModuleNotFoundError as missing:
    raise UnavailableError(
        f"serving tools needs FastAPI and uvicorn, which are not installed. Run: {install('serve')}"
    ) from missing

_UNAUTHORIZED = b'{"error": "token", "message": "this server asks for a token, in the header Authorization"}'
_OTHER_HOST = ServedRefusal(error="host", message=OTHER_HOST).model_dump_json().encode()


class ToolService:
    """Answers requests, whichever server runs it."""

    def __init__(self, backend: ToolBackend, limits: ServerLimits) -> None:
        self.backend, self.limits = backend, limits
        self.metrics = ToolServerMetrics()
        self.media = HeldMedia(limits.media_bytes)
        self._groups = {tool.name: tool.group for tool in backend.offered.tools}
        self._aliases = {tool.name: set(tool.aliases) for tool in backend.offered.tools}
        self._under_way: Counter[str] = Counter()

    async def close(self) -> None:
        """End the backend and delete what was uploaded."""
        await self.backend.close()
        self.media.close()

    async def health(self) -> Response:
        """Say that the server answers, and nothing else, since everybody may ask."""
        return Response('{"status": "alive"}', media_type="application/json")

    async def ready(self) -> Response:
        """Say whether every tool can be called: its weights are loaded, its endpoint answers."""
        unready = await self.backend.unready()
        body = json.dumps({"status": "not ready" if unready else "ready", "waiting_for": unready})
        return Response(body, 503 if unready else 200, media_type="application/json")

    async def metrics_text(self) -> Response:
        """Return Prometheus' text format."""
        return Response(self.metrics.text(self.backend.gauges()), media_type="text/plain; version=0.0.4")

    async def tools(self) -> Response:
        """List what is offered."""
        return Response(self.backend.offered.model_dump_json(), media_type="application/json")

    async def upload(self, request: Request, kind: MediaKind, sha256: str) -> Response:
        """Keep a picture or a video."""
        data = await self._body(request)
        if data is None:
            return _refusal(413, "too_large", f"a message has at most {self.limits.max_body_bytes} bytes here")
        try:
            await self.media.put(kind, sha256, data)
        except MediaError as error:
            return _refusal(422, "media", str(error))
        return Response(status_code=204)

    async def call(self, request: Request, name: str) -> Response:
        """Call a tool."""
        start = time.monotonic()
        answer, end = await self._call(request, name)
        self.metrics.note(name if name in self._groups else "", end, time.monotonic() - start)
        return answer

    async def _call(self, request: Request, name: str) -> tuple[Response, str]:
        group = self._groups.get(name)
        if group is None:
            return _refusal(
                404, "unknown_tool", f"there is no tool of that name; there are {list(self._groups)}"
            ), "404"
        body = await self._body(request)
        if body is None:
            return _refusal(413, "too_large", f"a message has at most {self.limits.max_body_bytes} bytes here"), "413"
        try:
            call = ServedCall.model_validate_json(body)
        except ValidationError as error:
            return _refusal(422, "protocol", str(error)), "422"
        if call.alias not in (None, name) and call.alias not in self._aliases[name]:
            return _refusal(422, "protocol", f"{name} has no alias {call.alias!r}"), "422"
        if missing := self.media.missing(call.media):
            return _refusal(409, "missing_media", "upload these first", missing), "409"
        if self._under_way[group] >= self.limits.max_waiting:
            return _refusal(429, "full", f"{self.limits.max_waiting} calls wait already; try again later"), "429"
        self._under_way[group] += 1
        try:
            result = await self.backend.call(name, call, self.media)
        except MediaError as error:
            return _refusal(422, "media", str(error)), "422"
        finally:
            self._under_way[group] -= 1
        if result.status is Status.LOST:
            return _refusal(503, "lost", result.problem.detail if result.problem else ""), "lost"
        text = await run_in_threadpool(lambda: sent(result).model_dump_json())
        return Response(text, media_type="application/json"), result.status.value

    async def _body(self, request: Request) -> bytes | None:
        """Return the whole body; None if it is over the limit, beyond which nothing is read."""
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.limits.max_body_bytes:
                return None
            parts.append(part)
        return b"".join(parts)


def tools_app(service: ToolService, token: str | None, *, more: Callable[[FastAPI], None] = lambda _: None) -> AsgiApp:
    """Return the application; the service is closed with it. Raises `SettingsError` for an empty token.

    `more` adds further routes, which need the token too.

    Without a token requests must name this machine as their host, and no page of another site may send them.
    """
    app = routed(lambda: service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    more(app)
    app.router.lifespan_context = lifespan
    if token is None:  # a page in a browser of this machine must not take its place
        app.add_middleware(OwnPages)
        app.add_middleware(OwnNames, refusal=_OTHER_HOST)
    return BearerGate(app, token, refusal=_UNAUTHORIZED, free=("/v1/health", "/v1/ready"))


def routed(service: Callable[[], ToolService]) -> FastAPI:
    """Return the routes, over a service that is there when the first request comes."""
    app = FastAPI(title="Saccade tools", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(ClientDisconnect, _disconnected)

    async def upload(request: Request, kind: MediaKind, sha256: str) -> Response:
        return await service().upload(request, kind, sha256)

    async def call(request: Request, name: str) -> Response:
        return await service().call(request, name)

    async def health() -> Response:
        return await service().health()

    async def ready() -> Response:
        return await service().ready()

    async def metrics() -> Response:
        return await service().metrics_text()

    async def tools() -> Response:
        return await service().tools()

    for method, path, endpoint in (
        ("GET", "/v1/health", health),
        ("GET", "/v1/ready", ready),
        ("GET", "/v1/metrics", metrics),
        ("GET", "/v1/tools", tools),
        ("PUT", "/v1/media/{kind}/{sha256}", upload),
        ("POST", "/v1/tools/{name}/calls", call),
    ):
        app.add_api_route(path, endpoint, methods=[method], response_class=Response)
    return app


async def _disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)


def _refusal(code: int, error: str, message: str, missing: tuple[str, ...] = ()) -> Response:
    body = ServedRefusal(error=error, message=message, missing=missing).model_dump_json()
    headers = {"retry-after": "1"} if code == 429 else None
    return Response(body, code, headers, media_type="application/json")
