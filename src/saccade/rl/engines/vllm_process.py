"""vLLM servers that a run starts on its own machine, one for each GPU that serves, or one on the CPU.

    async with vllm_servers(settings.engine, folder, context_tokens, Path("runs/rl/servers"), 1) as servers:

Each serves the checkpoint in `folder` at a free port of the loopback interface, alone: with the mode that takes new
weights nobody else may reach it. GPUs are named by CUDA_VISIBLE_DEVICES; those of this process are the first ones.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import torch

from saccade.errors import SettingsError, UnavailableError
from saccade.models.kv_cache import GIB
from saccade.rl.engines.server_process import ServerProcess
from saccade.rl.engines.settings import EngineSettings

_log = logging.getLogger(__name__)

_FOR_ALL = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
_FOR_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""One GiB of cache and one thread: sandboxes and the update need memory and cores too. Variables of the user's own
environment count more."""
_CPU_OPTIONS = ("--enforce-eager", "--dtype", "float32", "--skip-mm-profiling")


@asynccontextmanager
async def vllm_servers(
    settings: EngineSettings, folder: Path, context_tokens: int | None, logs: Path, training: int
) -> AsyncIterator[list[ServerProcess]]:
    """Servers that answer; they have ended when the block is left.

    Args:
        settings: how many and with what.
        folder: the checkpoint that is served.
        context_tokens: most tokens of an episode; None for what the checkpoint reads.
        logs: folder for a file of each server, what it prints.
        training: processes that train, each on a GPU of its own.

    Raises:
        SettingsError: the machine has not as many GPUs.
        UnavailableError: vLLM is not installed.
        ModelLostError: a server ended, or is not ready in time.
    """
    devices, program = check_servers(settings, training)
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


def check_servers(settings: EngineSettings, training: int) -> tuple[list[int | None], str]:
    """The GPU of each server, as `serving_devices` gives them, and the program; for a look before weights are loaded.

    Raises:
        SettingsError: the machine has not as many GPUs.
        UnavailableError: vLLM is not installed.
    """
    devices = serving_devices(settings, torch.cuda.device_count(), training)
    program = shutil.which(settings.program)
    if program is None:
        raise UnavailableError(
            f"there is no program {settings.program!r}, and engine.source=vllm starts it. Install vLLM, best in an "
            "environment of its own, and name it: --set engine.program=/path/to/bin/vllm"
        )
    return devices, program


def serving_devices(settings: EngineSettings, there: int, training: int) -> list[int | None]:
    """The GPU of each server, None for the CPU; `there` are on the machine, and the first `training` ones train."""
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
    """Of a server on the GPU `device`: what it may take, and that it can give it back."""
    if device is None:
        return []
    options = ["--enable-sleep-mode"] if settings.shared else []
    if settings.memory:
        total = torch.cuda.get_device_properties(device).total_memory / GIB
        if settings.memory > total:
            raise SettingsError(f"engine.memory is {settings.memory:g} GiB, and GPU {device} has {total:.1f}.")
        options += ["--gpu-memory-utilization", f"{settings.memory / total:.4f}"]
    return options


def serve_command(program: str, folder: Path, port: int, context_tokens: int | None, *, cpu: bool) -> list[str]:
    """How vLLM is started for a run."""
    context = [] if context_tokens is None else ["--max-model-len", str(context_tokens)]
    return [
        *(program, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)),
        *("--enable-scale-out", "--logprobs-mode", "processed_logprobs"),
        *context,
        *(_CPU_OPTIONS if cpu else ()),
    ]


def serve_environment(device: int | None) -> dict[str, str]:
    """Variables of a server on a GPU of those that are seen here, None for the CPU."""
    if device is None:
        return _FOR_ALL | {name: os.environ.get(name, value) for name, value in _FOR_CPU.items()}
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    name = str(device) if seen is None else seen.split(",")[device]
    return _FOR_ALL | {"CUDA_VISIBLE_DEVICES": name}


def free_port() -> int:
    """One of the loopback interface that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
