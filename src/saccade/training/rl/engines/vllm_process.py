"""Start vLLM servers on this machine, one for each GPU that serves, or one on the CPU.

    async with vllm_servers(settings.engine, folder, context_tokens, Path("runs/rl/servers"), 1) as servers:

Each serves the checkpoint in `folder` at a free port of the loopback interface only: in the mode that takes new weights
nobody else may reach it. GPUs are named by CUDA_VISIBLE_DEVICES; those of this process are the first ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx

from saccade.errors import ModelLostError, SettingsError, UnavailableError
from saccade.training.rl.engines import guard
from saccade.training.rl.engines.settings import EngineSettings

_LAST_LINES = 5


class GuardedProcess:
    """A child process. If this process ends without `stop`, even by SIGKILL, a guard ends it and all its children."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            environment: variables over those of this process.
            log: file for what it prints; what is there already stays.

        Raises `UnavailableError`: the program cannot be started.
        """
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as written:
            try:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", guard.__file__, *command],
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,  # Ctrl-C goes to this process, which ends it
                )
            except OSError as error:
                raise UnavailableError(f"{command[0]} cannot be started: {error}") from error

    def ended(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._guard.poll()

    def stop(self) -> None:
        """End it and wait until it has ended; idempotent."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def last_words(self) -> str:
        """Quote the last lines that it printed, as a sentence."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            last = " | ".join(line.strip() for line in deque(lines, _LAST_LINES) if line.strip())
        return f"{self.log} ends with: {last or 'nothing'}."


_LOOK = 0.5
"""Seconds between two checks whether a server is ready."""


class ServerProcess(GuardedProcess):
    """A server as a child process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        address: str,
        log: Path,
        setting: str = "engine.ready_seconds",
    ) -> None:
        """Start it as `GuardedProcess` does; it will answer at `address`, `http://host:port`.

        `setting` says how long it may take.
        """
        self.address = address
        self._setting = setting
        super().__init__(command, environment, log)

    async def wait_until_ready(self, seconds: float) -> None:
        """Wait until it answers `/health`. Raises `ModelLostError`: it ended, or is not ready after `seconds`."""
        end = time.monotonic() + seconds
        async with httpx.AsyncClient(base_url=self.address, timeout=5, trust_env=False) as client:
            while time.monotonic() < end:
                if self.ended() is not None:
                    raise ModelLostError(f"the server that was started ended. {self.last_words()}")
                with suppress(httpx.HTTPError):
                    if (await client.get("/health")).is_success:
                        return
                await asyncio.sleep(_LOOK)
        raise ModelLostError(
            f"the server that was started is not ready after {seconds:g} s. {self.last_words()} "
            f"Raise {self._setting} if it only needs longer."
        )


_log = logging.getLogger(__name__)

_FOR_ALL = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
_FOR_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""One GiB of cache and one thread: sandboxes and the update need memory and cores too. Variables of the user's own
environment count more."""
_CPU_OPTIONS = ("--enforce-eager", "--dtype", "float32", "--skip-mm-profiling")


@asynccontextmanager
async def vllm_servers(
    settings: EngineSettings, folder: Path, context_tokens: int | None, logs: Path, training: int, judging: int = 0
) -> AsyncIterator[list[ServerProcess]]:
    """Start servers and wait until they answer; they have ended when the block is left.

    Args:
        settings: how many and with what.
        folder: the checkpoint that is served.
        context_tokens: most tokens of an episode; None for what the checkpoint reads.
        logs: folder for a file of each server, what it prints.
        training: processes that train, each on a GPU of its own.
        judging: GPUs of a server that judges.

    Raises `SettingsError`: the machine has not as many GPUs; `UnavailableError`: vLLM is not installed;
    `ModelLostError`: a server ended, or is not ready in time.
    """
    devices, program = check_servers(settings, training, judging)
    with ExitStack() as stack:
        servers = []
        for number, device in enumerate(devices):
            port = free_port()
            server = ServerProcess(
                [
                    *serve_command(program, folder, port, context_tokens, cpu=device is None),
                    *memory_options(settings, device),
                    *settings.options,
                ],
                serve_environment(device),
                f"http://127.0.0.1:{port}",
                logs / f"vllm-{number}.log",
            )
            stack.callback(server.stop)
            servers.append(server)
        for server in servers:
            await server.wait_until_ready(settings.ready_seconds)
            _log.info("vLLM answers at %s; it prints to %s.", server.address, server.log)
        yield servers


def check_servers(settings: EngineSettings, training: int, judging: int = 0) -> tuple[list[int | None], str]:
    """Return the GPU of each server, as `serving_devices` does, and the program; before weights are loaded.

    Raises `SettingsError`: the machine has not as many GPUs; `UnavailableError`: vLLM is not installed.
    """
    import torch

    devices = serving_devices(settings, torch.cuda.device_count() - judging, training)
    program = shutil.which(settings.program)
    if program is None:
        raise UnavailableError(
            f"there is no program {settings.program!r}, and engine.source=vllm starts it. Install vLLM, best in an "
            "environment of its own, and name it: --set engine.program=/path/to/bin/vllm"
        )
    return devices, program


def serving_devices(settings: EngineSettings, there: int, training: int) -> list[int | None]:
    """Choose the GPU of each server (None: the CPU) of the `there` on the machine; the first `training` ones train."""
    gpus = settings.gpus
    if settings.shared:
        return _shared_devices(there, training)
    if settings.memory and not there:
        raise SettingsError(
            "engine.memory is of a GPU, and this machine has none. Leave it out; VLLM_CPU_KVCACHE_SPACE bounds a "
            "server on a CPU."
        )
    if not there and not gpus:
        return [None]
    if not there:
        raise SettingsError(f"engine.gpus is {gpus}, and this machine has no GPU. Set engine.gpus=0: one CPU server.")
    if not gpus:
        raise SettingsError(
            f"this machine has {there} GPUs, and engine.gpus says that none serves. Set engine.gpus to how many of "
            "them serve while the others train, or engine.shared=true."
        )
    if gpus + training > there:
        raise SettingsError(
            f"engine.gpus={gpus} and {training} that train need {gpus + training} GPUs; this machine has {there}. "
            "Lower engine.gpus or --processes, or let them share: engine.shared=true."
        )
    return list(range(there - gpus, there))


def _shared_devices(there: int, training: int) -> list[int | None]:
    if not there:
        raise SettingsError(
            "engine.shared: this machine has no GPU, and vLLM gives memory back on a GPU alone. Leave it out: one "
            "server on the CPU."
        )
    if training > there:
        raise SettingsError(
            f"engine.shared puts a server on each of {training} GPUs; this machine has {there}. Lower --processes."
        )
    return list(range(training))


def memory_options(settings: EngineSettings, device: int | None) -> list[str]:
    """Return vLLM's options for the memory of GPU `device`: how much it takes, and whether it can be released."""
    if device is None:
        return []
    options = ["--enable-sleep-mode"] if settings.shared else []
    if settings.memory:
        import torch

        total = torch.cuda.get_device_properties(device).total_memory / 2**30
        if settings.memory > total:
            raise SettingsError(f"engine.memory is {settings.memory:g} GiB, and GPU {device} has {total:.1f}.")
        options += ["--gpu-memory-utilization", f"{settings.memory / total:.4f}"]
    return options


def serve_command(program: str, folder: Path, port: int, context_tokens: int | None, *, cpu: bool) -> list[str]:
    """Return the command that starts vLLM for a run."""
    context = [] if context_tokens is None else ["--max-model-len", str(context_tokens)]
    return [
        *(program, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)),
        *("--enable-scale-out", "--logprobs-mode", "processed_logprobs"),
        *context,
        *(_CPU_OPTIONS if cpu else ()),
    ]


def serve_environment(device: int | None) -> dict[str, str]:
    """Return the variables of a server on a visible GPU, None for the CPU."""
    if device is None:
        return _FOR_ALL | cpu_variables()
    return _FOR_ALL | {"CUDA_VISIBLE_DEVICES": visible_gpus([device])}


def cpu_variables() -> dict[str, str]:
    """Return the variables of a server on the CPU."""
    return {name: os.environ.get(name, value) for name, value in _FOR_CPU.items()}


def visible_gpus(devices: Sequence[int]) -> str:
    """Return CUDA_VISIBLE_DEVICES for a process that shall see only these of the GPUs that this one sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = None if seen is None else seen.split(",")
    return ",".join(str(device) if names is None else names[device] for device in devices)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


SHARED = Path("/dev/shm")  # mkdtemp makes the folder, for this user only
_REMOVE = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
"""A program; its input is a pipe that nobody writes to, and ends with the process at the other end."""


def check_memory(needed: float) -> None:
    """Raise `SettingsError` unless `needed` bytes are free there."""
    if not SHARED.is_dir():
        raise SettingsError(f"engine.weights=memory needs {SHARED}, which this machine has not. Leave it at disk.")
    free = shutil.disk_usage(SHARED).free
    if free < needed:
        raise SettingsError(
            f"engine.weights=memory: new weights need {needed / 2**30:.3g} GiB in {SHARED} (they are written beside "
            f"those of before), and {free / 2**30:.3g} are free. Give it more (docker run --shm-size), or leave it at "
            "disk."
        )


@contextmanager
def memory_folder(needed: float) -> Iterator[Path]:
    """Make a folder in memory with room for `needed` bytes, for weights that need not touch the disk.

    A process of its own removes it however this one ends, even by SIGKILL: else the memory would be lost until the
    machine restarts.

    Raises `SettingsError`: this machine has no such memory, or too little of it.
    """
    check_memory(needed)
    folder = Path(tempfile.mkdtemp(prefix="saccade-", dir=SHARED))
    remover = subprocess.Popen(
        [sys.executable, "-I", "-c", _REMOVE, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    assert remover.stdin is not None
    try:
        yield folder
    finally:
        remover.stdin.close()
        remover.wait()
