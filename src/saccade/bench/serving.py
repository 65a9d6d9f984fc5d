"""`saccade bench serve`: what a server of agents costs beside its model, under load, and its memory over many requests.

The server is a process of its own, with a model in it that answers after a fixed time and costs nothing, so no second
HTTP is in the figures. The load comes from this process (http_load.py) over connections that stay open, one for each
request at once; server and load share the machine. What the model allows is the requests at once divided by its time.
Beside it stand an address of the same server that only waits for as long (what HTTP allows here) and the CPU of the
server per request, which other work on the machine disturbs less. With code the bound is what model and sandbox allow:
the same calls made straight to the sandbox in the same run.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from saccade.bench.evaluation import SECONDS, WITH_CODE, WITHOUT, straight
from saccade.bench.http_load import request_rate
from saccade.bench.loop import LoopFigure
from saccade.bench.machine import cpu_of, memory_of
from saccade.bench.serving_process import PAUSE
from saccade.errors import SandboxError

SHARE = 0.9
"""Of what is allowed; the target."""
ASK = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class ServeScale:
    """Sizes of a run."""

    at_once: int = 64
    requests: int = 2560
    """Without code, that are counted."""
    code_requests: int = 640
    memory_requests: int = 10_000


FULL_SERVE = ServeScale()
QUICK_SERVE = ServeScale(requests=256, code_requests=64, memory_requests=512)


def measure_serve(scale: ServeScale, on_progress: Callable[[str], None] = lambda what: None) -> list[LoopFigure]:
    """Every figure. Raises `SandboxError` if a request is not answered as it must be."""
    full = scale == FULL_SERVE
    at_once = f"{scale.at_once} at once"
    figures = []
    with _server(WITHOUT, scale.at_once) as (url, process):
        on_progress("requests that only wait")
        _rate(url, scale.at_once, scale.at_once, PAUSE)  # warm
        bare = _rate(url, scale.requests, scale.at_once, PAUSE)
        on_progress("requests without code")
        _rate(url, scale.at_once, scale.at_once)
        busy = cpu_of(process)
        rate = _rate(url, scale.requests, scale.at_once)
        busy = 1000 * (cpu_of(process) - busy) / scale.requests
        figures += _without_code(scale, rate, bare, busy)
        on_progress("memory over many requests")
        figures.append(_memory(scale, url, process))
    on_progress("requests with code, and calls straight to the sandbox")
    with _server(WITH_CODE, scale.at_once) as (url, _):
        _rate(url, scale.at_once, scale.at_once)
        rate = _rate(url, scale.code_requests, scale.at_once)
    calls = asyncio.run(straight(scale.code_requests, scale.at_once))
    beside = "pause, call, pause straight to the sandbox"
    met = rate >= SHARE * calls if full else None
    name = f"requests with one call of code, {at_once}"
    return [*figures, LoopFigure(name, rate, "per second", beside, calls, f"≥ {SHARE:.0%} of it", met)]


def _without_code(scale: ServeScale, rate: float, bare: float, busy: float) -> list[LoopFigure]:
    """`busy` is milliseconds of CPU per request."""
    full = scale == FULL_SERVE
    at_once = f"{scale.at_once} at once"
    allowed = scale.at_once / SECONDS
    model = f"what a model of {1000 * SECONDS:.0f} ms allows"
    met = rate >= SHARE * allowed if full else None
    room = 1000 / (SHARE * allowed)
    return [
        LoopFigure(
            f"requests without code, {at_once}", rate, "per second", model, allowed, f"≥ {SHARE:.0%} of it", met
        ),
        LoopFigure("the same server, only waiting as long", bare, "per second", model, allowed),
        LoopFigure(
            "CPU of the server for a request without code",
            busy,
            "ms",
            f"what {SHARE:.0%} leaves one core",
            room,
            "≤ that",
            busy <= room if full else None,
        ),
    ]


def _memory(scale: ServeScale, url: str, process: int) -> LoopFigure:
    first = scale.memory_requests // 4
    _rate(url, first, scale.at_once)
    before = memory_of(process)
    _rate(url, scale.memory_requests - first, scale.at_once)
    after = memory_of(process)
    return LoopFigure(
        f"growth from request {first} to {scale.memory_requests}",
        (after - before) / 2**20,
        "MiB",
        "all memory of the server",
        after / 2**20,
        "flat: ≤ 2 % of it",
        after - before <= 0.02 * after if scale == FULL_SERVE else None,
    )


@contextmanager
def _server(dialect: str, at_once: int) -> Iterator[tuple[str, int]]:
    """The address of a server, and the id of its process."""
    app = f"served_app({dialect!r}, {at_once})"
    code = (
        "from saccade.bench.serving_process import served_app; from saccade.cli.web import serve_app; "
        f"serve_app({app}, '127.0.0.1', 0, '{{url}}')"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SandboxError("the server of the benchmark did not start; what it printed says why.")
            yield url, process.pid
        finally:
            process.terminate()


def _rate(url: str, requests: int, at_once: int, path: str = ASK) -> float:
    """Requests per second."""
    asked = {"model": "bench", "messages": [{"role": "user", "content": "What is 1 + 1?"}]}
    return request_rate(url + path, asked, requests, at_once, spread=SECONDS)
