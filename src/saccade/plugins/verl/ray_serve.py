"""The same wire on Ray Serve: a deployment for each group of tools, and one that answers HTTP.

Autoscaling, replicas, GPUs, health checks, restarts and metrics are Ray Serve's own, set in the group's table
`ray`. A replica runs its tools in one worker process (`saccade.tools.workers`), so that a call that hangs can be ended
without the replica. Only this module knows Ray.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from saccade.core.registry import install
from saccade.errors import MediaError, UnavailableError
from saccade.plugins.verl.local_ray import START_SECONDS, local_ray
from saccade.record.execution import Status
from saccade.tools.context import Problem, ProblemKind, ToolResult, failed
from saccade.tools.served_wire import MediaKind, ServedCall
from saccade.tools.serving import (
    GroupSettings,
    HeldMedia,
    PooledBackend,
    ToolServeSettings,
    ToolService,
    offered,
    tools_app,
)

_log = logging.getLogger(__name__)

APPLICATION: Final = "saccade-tools"
_UNHEALTHY_LOSSES: Final = 3
"""So many lost calls in a row, and the replica says that it is not healthy."""
_MOST_SENDS: Final = 4
_LOOK: Final = 0.5
_CONNECT_SECONDS: Final = 10.0
_LIMITS: Final = {
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": f"{START_SECONDS:g}",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
}
"""Ray Serve's own, 5 and 10 seconds, end what answers HTTP again and again where it is slow to start."""


@dataclass(frozen=True, slots=True)
class ReplicaJob:
    """A call, and the media that the replica may not have."""

    name: str
    call: ServedCall
    media: tuple[tuple[MediaKind, str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class MissingOnReplica:
    """The call was not done: these media have to be sent along."""

    hashes: tuple[str, ...]


ReplicaReply = ToolResult | MissingOnReplica


class ToolReplica:
    """The tools of one group, with their weights, in a worker process of this replica."""

    def __init__(self, settings: ToolServeSettings, group: str) -> None:
        own = settings.grouped()[group].model_copy(update={"workers": 1})
        options = {name: value for name, value in settings.options.items() if name in own.tools}
        self._backend = PooledBackend(settings.model_copy(update={"groups": {group: own}, "options": options}))
        self._media = HeldMedia(settings.server.media_bytes)
        self._lost = 0

    async def call(self, job: ReplicaJob) -> ReplicaReply:
        try:
            for kind, name, data in job.media:
                await self._media.put(kind, name, data)
            if missing := self._media.missing(job.call.media):
                return MissingOnReplica(missing)
            result = await self._backend.call(job.name, job.call, self._media)
        except MediaError as error:
            return _lost(job.name, str(error))
        self._lost = self._lost + 1 if result.status is Status.LOST else 0
        return result

    async def unready(self) -> dict[str, str]:
        return await self._backend.unready()

    def check_health(self) -> None:
        """Raise where unhealthy: Ray Serve asks this and replaces the replica when it raises."""
        if self._lost >= _UNHEALTHY_LOSSES:
            raise RuntimeError(f"the last {self._lost} calls were lost")


class RayBackend:
    """Calls of a server through the handles of Ray Serve's deployments."""

    def __init__(self, settings: ToolServeSettings, handles: Mapping[str, Any]) -> None:
        self._tools = settings.made()
        self._handles = handles
        self._lost: dict[str, float] = dict.fromkeys(handles, 0.0)
        self.offered = offered(self._tools)

    async def call(self, name: str, call: ServedCall, media: HeldMedia) -> ToolResult:
        group = self._tools[name].group
        wanted: tuple[str, ...] = ()
        for _ in range(_MOST_SENDS):
            job = ReplicaJob(name, call, tuple(media.data(call.media, wanted)))
            try:
                reply: ReplicaReply = await self._handles[group].call.remote(job)
            except Exception as error:  # of many kinds: the replica died, was replaced, its queue is full
                self._lost[group] += 1
                return _lost(name, f"{type(error).__name__}: {str(error)[:300]}")
            if isinstance(reply, ToolResult):
                return reply
            # Another replica may get the next try, so it is given all that there is.
            wanted = tuple(item.sha256 for item in call.media)
        return _lost(name, "replicas forget media faster than they are sent; raise server.media_bytes")

    async def unready(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for group, handle in self._handles.items():
            try:
                found |= await handle.unready.remote()
            except Exception as error:  # of many kinds, as above
                found[group] = f"{type(error).__name__}: {str(error)[:300]}"
        return found

    def gauges(self) -> dict[str, dict[str, float]]:
        return {"replica_failures_total": self._lost}

    async def close(self) -> None:
        """Do nothing: Ray ends the deployments."""


class ToolIngress:
    """The deployment that answers HTTP: the same application as without Ray."""

    def __init__(self, settings: ToolServeSettings, token: str | None, handles: Mapping[str, Any]) -> None:
        self._app = tools_app(ToolService(RayBackend(settings, handles), settings.server), token)

    async def __call__(self, request: Any) -> Any:
        """Answer Ray Serve's request."""
        from starlette.responses import Response

        status, headers, body = 500, dict[str, str](), bytearray()

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in message["headers"]}
            else:
                body.extend(message.get("body", b""))

        await self._app(request.scope, request.receive, send)
        return Response(bytes(body), status, headers)


def deploy(settings: ToolServeSettings, token: str | None, host: str, port: int) -> None:
    """Start the deployments in the Ray cluster of this process, or a new one; waits until they are up.

    Raises `UnavailableError`: Ray Serve is not installed; `SettingsError`: as `ToolServeSettings.made`.
    """
    serve = _serve()
    made, groups = settings.made(), settings.grouped()
    handles = {}
    for name, group in groups.items():
        batch = max(tool.tool.batch for tool in made.values() if tool.group == name)
        replica = serve.deployment(ToolReplica)
        handles[name] = replica.options(name=name, **_options(group, batch)).bind(settings, name)
    _start_proxy(serve, host, port)
    ingress = serve.deployment(ToolIngress).options(
        name="ingress",
        max_ongoing_requests=settings.server.max_waiting * len(groups) + 16,
        ray_actor_options={"num_cpus": 0},  # it waits; a core of its own would be one less for tools
    )
    serve.run(ingress.bind(settings, token, handles), name=APPLICATION, route_prefix="/")


def serve_on_ray(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> int:
    """Serve with Ray: a deployment for each group of tools, until Ctrl-C or SIGTERM.

    Prints `line` with the address in place of `{url}`. Port 0 takes a free one. Returns the exit code.

    Raises `UnavailableError`: Ray Serve is not installed, or Ray does not start; `SettingsError`: as
    `ToolServeSettings.made`.
    """
    _need_ray()
    limits = {name: os.environ.get(name, value) for name, value in _LIMITS.items()}
    with (
        tempfile.TemporaryDirectory(prefix="saccade-") as folder,
        local_ray(Path(folder) / "ray.log", limits) as variables,
    ):
        os.environ.update(variables)  # before Ray is imported, which reads them then
        _serve_until_ended(settings, token, host, port, line)
    return 0


def _serve_until_ended(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> None:
    import ray

    serve = _serve()
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    port = port or _free_port(host)
    stop = False

    def ended(*_: object) -> None:
        nonlocal stop
        stop = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ended)
    try:
        deploy(settings, token, host, port)
        where = f"http://{host}:{port} (Ray's metrics: {_metrics_address()})"
        print(line.replace("{url}", where), flush=True)  # noqa: T201
        while not stop:
            time.sleep(0.2)
    finally:
        with suppress(Exception):
            serve.shutdown()
        ray.shutdown()


def _start_proxy(serve: Any, host: str, port: int) -> None:
    """Wait for the proxy: Ray Serve stops waiting after a minute, while what answers HTTP is still starting."""
    try:
        serve.start(http_options={"host": host, "port": port})
        return
    except TimeoutError:
        _log.warning("Ray Serve has not started after a minute. It is waited for up to %g s.", START_SECONDS)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return
        time.sleep(_LOOK)
    raise UnavailableError(
        f"Ray Serve does not start: nothing answers at {host}:{port} after {START_SECONDS:g} s. Try again when less "
        "else runs on this machine, or serve without --on ray."
    )


def _options(group: GroupSettings, batch: int) -> dict[str, Any]:
    # Ray's default of 5 would cut batches short, and have few endpoint tools wait side by side.
    return {"max_ongoing_requests": max(group.in_flight, 2 * batch), **group.ray}


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _metrics_address() -> str:
    import ray

    node = ray.nodes()[0]
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def _lost(tool: str, detail: str) -> ToolResult:
    return failed(tool, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))


def _serve() -> Any:
    _need_ray()
    from ray import serve

    return serve


def _need_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise UnavailableError(f"Ray Serve is not installed. Run: {install('tools-serve')}")
