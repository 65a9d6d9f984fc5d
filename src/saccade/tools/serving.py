"""Serve tools over HTTP: the application, and what runs them, pools of processes here or Ray Serve (`ray_serve`)."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from pydantic import Field, JsonValue, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from saccade.core.registry import Registry, described, install
from saccade.core.settings import Settings
from saccade.core.web import OTHER_HOST, AsgiApp, BearerGate, OwnNames, OwnPages
from saccade.errors import MediaError, SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.record.execution import Status
from saccade.tools.base import Tool, ToolCallInput, WaitingTool
from saccade.tools.context import ToolContext, ToolResult
from saccade.tools.definition import Cost
from saccade.tools.registry import ToolSource
from saccade.tools.served_wire import (
    MediaKind,
    ServedCall,
    ServedDefinition,
    ServedMedium,
    ServedRefusal,
    ServedTools,
    sent,
)
from saccade.tools.toolbox import Toolbox
from saccade.tools.workers import PooledTool, WaitingRoom, WorkerPool

# `tools.toml`: which tools a server runs, in which groups, with which options.
#
# [server]
# max_waiting = 256
#
# [groups.read]                        # a pool of processes, or a deployment of Ray Serve
# tools = ["ocr"]
# workers = 2
#
# [groups.read.ray]                    # options of the deployment, as Ray Serve names them
# num_replicas = 2
# ray_actor_options = { num_gpus = 1 }
#
# [options.my_tool]                    # arguments of a tool's constructor
# weights = "/models/x"


class GroupSettings(Settings):
    """Tools that share processes and their weights."""

    tools: tuple[str, ...] = Field(min_length=1)
    workers: PositiveInt = 1
    """Processes, without Ray; with Ray, `ray.num_replicas` or `ray.autoscaling_config` says how many."""
    threads: PositiveInt = 1
    """Of numerical libraries in each."""
    seconds: PositiveFloat = 120.0
    """Longest time of a call; a caller may ask for less."""
    in_flight: PositiveInt = 64
    """Calls of endpoint tools that wait for their servers side by side."""
    batch_wait_seconds: NonNegativeFloat = 0.02
    """How long a batch that is not full waits for further calls."""
    ray: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the group's deployment, handed to Ray Serve as they are."""


class ServerLimits(Settings):
    """Tools that a server offers to hosts."""

    max_waiting: PositiveInt = 256
    """Calls of one group that may be under way or wait; one more is refused with 429."""
    max_body_bytes: PositiveInt = 64 * 2**20
    """Largest message, an uploaded picture or video included."""
    media_bytes: PositiveInt = 2 * 2**30
    """Room for uploaded pictures and videos; the least recently used are deleted, and uploaded again if needed."""
    media_folders: tuple[str, ...] = ()
    """Folders below which a client of verl-tool's wire may name pictures by their paths."""


@dataclass(frozen=True, slots=True)
class GroupedTool:
    """A tool of a group."""

    group: str
    source: ToolSource
    tool: Tool[Any, Any]
    """An object of it, without weights."""
    settings: GroupSettings


class ToolServeSettings(Settings):
    """All of `tools.toml`."""

    server: ServerLimits = ServerLimits()
    groups: dict[str, GroupSettings] = Field(default_factory=dict)
    """By name; none: every tool that is installed, in a group for each class of cost."""
    options: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """By the tool's name as a group has it."""

    def source(self, name: str) -> ToolSource:
        return ToolSource(name, self.options.get(name, {})).elsewhere()

    def grouped(self) -> dict[str, GroupSettings]:
        """Return the groups that hold. Raises `SettingsError` if two groups have the same tool, or options are for no
        tool.
        """
        groups = self.groups or _by_cost()
        named = [name for group in groups.values() for name in group.tools]
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise SettingsError(f"in more than one group: {', '.join(twice)}. Leave each in one of them.")
        if lost := sorted(set(self.options) - set(named)):
            raise SettingsError(f"options for what no group has: {', '.join(lost)}. Name it in a group, as it stands.")
        return groups

    def made(self) -> dict[str, GroupedTool]:
        """Return every tool by its own name.

        Raises:
            SettingsError: as `grouped`; or a tool needs what is not installed, or two have one name.
            RegistryError: there is no such tool.
        """
        made: dict[str, GroupedTool] = {}
        for group, settings in self.grouped().items():
            for name in settings.tools:
                source = self.source(name)
                tool = source.make()
                if missing := tool.needs.missing():
                    raise SettingsError(
                        f"{name} needs {', '.join(missing)}. To have it: {tool.needs.remedy}. Or leave it out."
                    )
                if tool.name in made:
                    raise SettingsError(f"{name} is called {tool.name}, as another tool. Leave one of them out.")
                made[tool.name] = GroupedTool(group, source, tool, settings)
        return made


def _by_cost() -> dict[str, GroupSettings]:
    box = Toolbox.of()
    missing = box.missing()
    by_cost: dict[Cost, list[str]] = {}
    for tool in box.definitions:
        if tool.name not in missing:
            by_cost.setdefault(tool.cost, []).append(tool.name)
    return {cost.value: GroupSettings(tools=tuple(names)) for cost, names in by_cost.items()}


# Pictures and videos that clients uploaded, by the sha256 of their files, in a folder that is deleted with it.


@dataclass(frozen=True, slots=True)
class _HeldMedium:
    part: ImagePart | None
    """None for a video."""
    size: int


class HeldMedia:
    """At most `most_bytes` of files; the least recently used are deleted. One event loop uses it."""

    def __init__(self, most_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-tools-")
        self._store = MediaStore(self._folder.name)
        self._most = most_bytes
        self._held: OrderedDict[str, _HeldMedium] = OrderedDict()
        self.bytes = 0

    async def put(self, kind: MediaKind, name: str, data: bytes) -> None:
        """Keep a file. Raises `MediaError` if it is not the one of that hash, or no picture."""
        held = await asyncio.to_thread(self._put, kind, name, data)
        if name not in self._held:
            self._held[name] = held
            self.bytes += held.size
        elif held.part is not None:  # a picture that someone sent as a video before
            self._held[name] = held
        while self.bytes > self._most and len(self._held) > 1:
            old, gone = self._held.popitem(last=False)
            self.bytes -= gone.size
            self._store.path(old).unlink(missing_ok=True)

    def missing(self, media: Sequence[ServedMedium]) -> tuple[str, ...]:
        """Return hashes of those that are not held; the others count as used now."""
        for item in media:
            if item.sha256 in self._held:
                self._held.move_to_end(item.sha256)
        return tuple(dict.fromkeys(item.sha256 for item in media if item.sha256 not in self._held))

    def data(self, media: Sequence[ServedMedium], wanted: Sequence[str]) -> list[tuple[MediaKind, str, bytes]]:
        """Return the kind, hash and bytes of those that are wanted."""
        return [(item.kind, item.sha256, self._store.get_bytes(item.sha256)) for item in media if item.sha256 in wanted]

    def context(self, call: ServedCall) -> ToolContext:
        """Return what a call knows of its episode; all of its media are held.

        Raises `MediaError` if a file is a video or the reverse.
        """
        images, videos = {}, dict[str, Path]()
        for item in call.media:
            part = self._held[item.sha256].part
            if item.kind == "video":
                videos[item.name] = self._store.path(item.sha256)
            elif part is None:
                raise MediaError(f"{item.sha256} was uploaded as a video, and is named as a picture")
            else:
                images[item.name] = self._store.open(part)
        return ToolContext(images, videos, numbering=call.numbering, question=call.question, episode=call.episode)

    def close(self) -> None:
        self._folder.cleanup()

    def _put(self, kind: MediaKind, name: str, data: bytes) -> _HeldMedium:
        if sha256(data).hexdigest() != name:
            raise MediaError(f"the bytes are not those of {name}")
        if kind == "video":
            self._store.put_blob(data)
            return _HeldMedium(None, len(data))
        return _HeldMedium(self._store.put_bytes(data), len(data))


class ToolBackend(Protocol):
    """Runs calls. Everything that a client may send has been checked, and its media are held."""

    offered: ServedTools

    async def call(self, name: str, call: ServedCall, media: HeldMedia) -> ToolResult:
        """Return the result; LOST if what runs the tool failed. Raises `MediaError` for a medium of the wrong kind."""

    async def unready(self) -> dict[str, str]:
        """Return the tools that cannot be called yet -> why; empty once all can."""

    def gauges(self) -> dict[str, dict[str, float]]:
        """Return numbers of now and counters: name -> label (a group, or a reason) -> number."""

    async def close(self) -> None:
        """End what runs."""


class PooledBackend:
    """A pool of worker processes for each group, on this machine; its endpoint tools wait in this process."""

    def __init__(self, settings: ToolServeSettings) -> None:
        """Starts nothing yet. Raises as `ToolServeSettings.made`."""
        groups = settings.grouped()
        self._pools = {name: WorkerPool(group.workers, group.threads) for name, group in groups.items()}
        self._rooms = {name: WaitingRoom(group.in_flight) for name, group in groups.items()}
        self._tools = settings.made()
        self._loading: dict[str, Future[ToolResult]] = {}
        self.offered = offered(self._tools)

    async def call(self, name: str, call: ServedCall, media: HeldMedia) -> ToolResult:
        given = ToolCallInput(call.arguments, media.context(call), call.alias)
        tool = self._tools[name]
        return await asyncio.wrap_future(begun(tool, call, given, self._pools[tool.group], self._rooms[tool.group]))

    async def unready(self) -> dict[str, str]:
        """Return what `ToolBackend.unready` does; the first question begins to load all weights."""
        waiting = {name: item.tool for name, item in self._tools.items() if isinstance(item.tool, WaitingTool)}
        for name, item in self._tools.items():
            loading = self._loading.get(name)
            if name not in waiting and (loading is None or (loading.done() and not loading.result().ok)):
                self._loading[name] = self._pools[item.group].load(pooled(item, item.settings.seconds))
        told = zip(waiting, await asyncio.gather(*(tool.ready() for tool in waiting.values())), strict=True)
        loads = (
            (name, "its process is loading" if not one.done() else _why(one)) for name, one in self._loading.items()
        )
        return {name: why for name, why in (*told, *loads) if why}

    def pools(self) -> tuple[WorkerPool, ...]:
        return tuple(self._pools.values())

    def gauges(self) -> dict[str, dict[str, float]]:
        pools = self._pools.items()
        batches = {name: pool.counts.batches for name, pool in pools}
        return {
            "queued_calls": {name: pool.queued + self._rooms[name].queued for name, pool in pools},
            "calls_in_flight": {name: room.running for name, room in self._rooms.items()},
            "busy_workers": {name: pool.running for name, pool in pools},
            "worker_restarts_total": {name: sum(pool.counts.restarts.values()) for name, pool in pools},
            "batches_total": {name: sum(counts.values()) for name, counts in batches.items()},
            "batched_calls_total": {name: sum(size * n for size, n in b.items()) for name, b in batches.items()},
        }

    async def close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(pool.close) for pool in self._pools.values()))


def offered(tools: Mapping[str, GroupedTool]) -> ServedTools:
    """Describe the tools to a host."""
    return ServedTools(tools=tuple(ServedDefinition.of(item.tool.definition, item.group) for item in tools.values()))


def pooled(tool: GroupedTool, seconds: float) -> PooledTool:
    """Return a tool as a pool runs it, within the shorter of its group's time limit and `seconds`."""
    limit, wait = min(tool.settings.seconds, seconds), tool.settings.batch_wait_seconds
    return PooledTool(tool.tool.name, tool.source, limit, tool.tool.batch, wait)


def begun(
    tool: GroupedTool, call: ServedCall, given: ToolCallInput, pool: WorkerPool, room: WaitingRoom
) -> Future[ToolResult]:
    """Begin a call where its tool runs: in a worker process, or waiting in this one."""
    if isinstance(tool.tool, WaitingTool):
        return room.submit(tool.tool, min(tool.settings.seconds, call.seconds), given)
    return pool.submit(pooled(tool, call.seconds), given)


def _why(loaded: Future[ToolResult]) -> str:
    problem = loaded.result().problem
    return "" if problem is None else problem.detail or problem.message


# Where the tools of `saccade tools serve` run: in processes of this machine, or as another package has it.
#
#     [project.entry-points."saccade.tool-servers"]
#     mine = "my_package.server:serve_mine"
#
# A server is a function that is called as `ToolServer` says and returns when it is stopped.


ToolServer: TypeAlias = Callable[[ToolServeSettings, str | None, str, int, str], int]
"""Serve `(settings, token, host, port, line)` until Ctrl-C or SIGTERM, and return the exit code.

`line` is printed once tools can be called, with the address in place of `{url}`; port 0 takes a free one.
"""

TOOL_SERVERS: Final = Registry[ToolServer](
    "tool-servers",
    {"processes@1": "saccade.cli.list:serve_in_processes"},
    lambda value: "" if callable(value) else f"it is {described(value)}, which cannot be called",
)
"""Other packages add servers by the entry point group `saccade.tool-servers`."""

# The FastAPI application of a server of tools: the wire of `saccade.tools.served_wire` over a backend.
#
# Everything but `/v1/health` and `/v1/ready` needs the bearer token. There is no encryption: put TLS in front of it, or
# keep it on a network that you trust. A tool can do what the server's user can: offer those that you trust.

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
        self.calls[tool, end] += 1
        self._count[tool] += 1
        self._seconds[tool] += seconds
        for bound in _BUCKETS:
            self._classes[tool, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
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
        return Response(self.metrics.text(self.backend.gauges()), media_type="text/plain; version=0.0.4")

    async def tools(self) -> Response:
        return Response(self.backend.offered.model_dump_json(), media_type="application/json")

    async def upload(self, request: Request, kind: MediaKind, sha256: str) -> Response:
        data = await self._body(request)
        if data is None:
            return _refusal(413, "too_large", f"a message has at most {self.limits.max_body_bytes} bytes here")
        try:
            await self.media.put(kind, sha256, data)
        except MediaError as error:
            return _refusal(422, "media", str(error))
        return Response(status_code=204)

    async def call(self, request: Request, name: str) -> Response:
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
