"""Ray on this machine, for as long as a command needs it.

    with local_ray(Path("runs/a/verl/ray.log"), {}) as variables:
        subprocess.run(program, env={**os.environ, **variables})

Where `RAY_ADDRESS` names a cluster, that one is used and nothing is started. Else `ray start` is run by a guard, which
ends it with everything that it started, however this process ends.

Ray's own way (`ray.init` without an address, read in 2.60.0) is not taken, because it gives up on a busy machine: its
scheduler ends itself when one of its agents, Python processes with large imports, has not written its port into a file
within 15 seconds, and no setting changes that. It does not wait for an agent whose port is given, and one port that is
given, that of the dashboard's agent, `ray start` forgets to hand on: so it is written into its file here, as the agent
itself does later. The other limits of a start are settings, and long here.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from saccade.errors import UnavailableError
from saccade.training.rl.engines.vllm_process import GuardedProcess

_log = logging.getLogger(__name__)

ADDRESS: Final = "RAY_ADDRESS"
START_SECONDS: Final = 900.0
SAY_SECONDS: Final = 60.0
"""After so many it is said that Ray is slow to start."""
_LOOK: Final = 0.2
_UP: Final = "Ray runtime started."
"""Line that `ray start` prints when it is ready."""
_PROGRAM: Final = (sys.executable, "-m", "ray.scripts.scripts")
"""The command `ray` of this environment."""
_NODE: Final = "RAY_OVERRIDE_NODE_ID_FOR_TESTING"
"""Its name is part of that of the file."""
_PORTS: Final = (
    "--port", "--dashboard-agent-grpc-port", "--dashboard-agent-listen-port", "--metrics-export-port",
    "--runtime-env-agent-port", "--ray-client-server-port",
)  # fmt: skip
_ANY_PORT: Final = ("--min-worker-port", "0", "--max-worker-port", "0")
"""Without, workers of two clusters of one machine take the same ports."""
_USUAL: Final = {
    "RAY_agent_register_timeout_ms": "900000",
    "RAY_gcs_server_port_wait_time_s": "900",
    "RAY_worker_register_timeout_seconds": "900",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # nobody's requests are drained when the only user ends it
    "RAY_worker_niceness": "0",  # Ray's 15 lets its workers, which are the run, wait behind everything else
}
"""Variables of `ray start`, unless the user sets them."""


@contextmanager
def local_ray(
    log: Path, environment: Mapping[str, str], *options: str, seconds: float = START_SECONDS
) -> Iterator[dict[str, str]]:
    """Variables with which a process finds the cluster: that of `RAY_ADDRESS`, or a new one that ends with the block.

    Args:
        log: file for what `ray start` prints; what is there already stays.
        environment: variables of Ray and its workers, over those of this process.
        options: more options of `ray start`.
        seconds: how long it may take to start.

    Raises `UnavailableError`: it ended, or was not up after `seconds`.
    """
    if os.environ.get(ADDRESS):
        yield {}
        return
    with ExitStack() as cleanup:
        # Sockets are in it, and a path of one has at most 107 bytes.
        folder = tempfile.mkdtemp(prefix="ray-")
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        ports = _free_ports(len(_PORTS))
        words = [word for name, port in zip(_PORTS, ports, strict=True) for word in (name, str(port))]
        command = [*_PROGRAM, "start", "--head", "--block", "--disable-usage-stats", "--include-dashboard=false"]
        command += ["--log-color", "false", *_ANY_PORT]
        usual = {name: value for name, value in _USUAL.items() if name not in os.environ}
        key, before, node = _key(), _times_up(log), secrets.token_hex(28)
        process = GuardedProcess(
            [*command, "--temp-dir", folder, *words, *options], {**usual, **environment, **key, _NODE: node}, log
        )
        cleanup.callback(process.stop)
        listening = words[words.index("--dashboard-agent-listen-port") + 1]
        _wait_until_up(process, before, seconds, lambda: _hand_on(Path(folder), node, listening))
        yield {ADDRESS: f"127.0.0.1:{ports[0]}", **key}


def _key() -> dict[str, str]:
    """Return a token of this cluster's own, unless the user says how Ray shall know its clients."""
    if os.environ.get("RAY_AUTH_MODE"):
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _hand_on(folder: Path, node: str, port: str) -> None:
    """Write the port of the dashboard's agent where the scheduler looks for it, once there is a session."""
    for session in folder.glob("session_*"):
        file = session / f"dashboard_agent_listen_port_{node}"
        if not (session.is_symlink() or file.exists()):
            partial = file.with_suffix(".partial")
            partial.write_text(port, encoding="utf-8")
            partial.replace(file)


def _wait_until_up(process: GuardedProcess, before: int, seconds: float, meanwhile: Callable[[], None]) -> None:
    """Return when its log says once more than `before` that Ray is up."""
    begin, said = time.monotonic(), False
    while _times_up(process.log) == before:
        meanwhile()
        if (code := process.ended()) is not None:
            raise UnavailableError(f"Ray does not start: `ray start` ended with code {code}. {process.last_words()}")
        waited = time.monotonic() - begin
        if waited > seconds:
            raise UnavailableError(
                f"Ray does not start: it is not up after {seconds:g} s. {process.last_words()} Try again when less "
                f"else runs on this machine, or start a cluster by hand (`ray start --head`) and set {ADDRESS}."
            )
        if waited > SAY_SECONDS and not said:
            said = True
            _log.warning(
                "Ray has not started after %.0f s. It is waited for up to %g s; a busy machine needs long.",
                waited,
                seconds,
            )
        time.sleep(_LOOK)


def _times_up(log: Path) -> int:
    return log.read_text(encoding="utf-8", errors="replace").count(_UP) if log.exists() else 0


def _free_ports(count: int) -> list[int]:
    """Return so many ports at which nobody on this machine listens."""
    with ExitStack() as opened:
        probes = [opened.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
