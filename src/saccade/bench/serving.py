"""`saccade bench serve`: what a server of agents costs beside its model, under load, and its memory over many requests.

The server is a process of its own, with a model in it that answers after a fixed time and costs nothing, so no second
HTTP is in the figures. The load comes from this process over connections that stay open, one for each request at once.
What the model allows is the requests at once divided by its time for all turns of an episode; the machine's cores are
shared by server and load.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from saccade.bench.evaluation import SECONDS, WITH_CODE, WITHOUT
from saccade.bench.loop import LoopFigure
from saccade.bench.machine import memory_of
from saccade.errors import SandboxError

SHARE = 0.9
"""Of what the model allows; the target."""


@dataclass(frozen=True, slots=True)
class ServeScale:
    """Sizes of a run."""

    at_once: int = 64
    requests: int = 2560
    """In the rows that count requests per second."""
    memory_requests: int = 10_000


FULL_SERVE = ServeScale()
QUICK_SERVE = ServeScale(requests=256, memory_requests=512)


def measure_serve(scale: ServeScale, on_progress: Callable[[str], None] = lambda what: None) -> list[LoopFigure]:
    """Every figure. Raises `SandboxError` if a request is not answered as it must be."""
    figures = []
    for dialect, turns, words in ((WITHOUT, 1, "without code"), (WITH_CODE, 2, "with one call of code")):
        on_progress(f"requests {words}")
        allowed = scale.at_once / (SECONDS * turns)
        with _server(dialect, scale.at_once) as (url, _):
            asyncio.run(_load(url, scale.at_once, scale.at_once))  # warm
            rate = asyncio.run(_load(url, scale.requests, scale.at_once))
        figures.append(
            LoopFigure(
                f"requests {words}, {scale.at_once} at once",
                rate,
                "per second",
                f"what a model of {1000 * SECONDS:.0f} ms allows",
                allowed,
                f"≥ {SHARE:.0%} of it",
                rate >= SHARE * allowed if scale == FULL_SERVE else None,
            )
        )
    on_progress("memory over many requests")
    with _server(WITHOUT, scale.at_once) as (url, process):
        asyncio.run(_load(url, scale.memory_requests // 4, scale.at_once))
        before = memory_of(process)
        asyncio.run(_load(url, scale.memory_requests - scale.memory_requests // 4, scale.at_once))
        after = memory_of(process)
    figures.append(
        LoopFigure(
            f"growth from request {scale.memory_requests // 4} to {scale.memory_requests}",
            (after - before) / 2**20,
            "MiB",
            "all memory of the server",
            after / 2**20,
            "flat: ≤ 2 % of it",
            after - before <= 0.02 * after if scale == FULL_SERVE else None,
        )
    )
    return figures


@contextmanager
def _server(dialect: str, at_once: int) -> Iterator[tuple[str, int]]:
    """The address of a server, and the id of its process."""
    code = "import sys; from saccade.bench.serving_process import main; main(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-c", code, dialect, str(at_once)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SandboxError("the server of the benchmark did not start; what it printed says why.")
            yield url, process.pid
        finally:
            process.terminate()


async def _load(url: str, requests: int, at_once: int) -> float:
    """Requests per second."""
    left = iter(range(requests))
    start = time.perf_counter()
    await asyncio.gather(*(_worker(url, left) for _ in range(at_once)))
    return requests / (time.perf_counter() - start)


async def _worker(url: str, left: Iterator[int]) -> None:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": "What is 1 + 1?"}]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    try:
        for _ in left:
            writer.write(head.encode() + body)
            answer = await _answer(reader)
            if answer["choices"][0]["message"]["content"] != "2":
                raise SandboxError(f"a request of the benchmark was answered with {answer}")
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> dict[str, list[dict[str, dict[str, str]]]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = int(head.partition("content-length:")[2].partition("\r\n")[0])
    body = await reader.readexactly(size)
    if not head.startswith("http/1.1 200"):
        raise SandboxError(f"a request of the benchmark was refused: {body[:500].decode('utf-8', 'replace')}")
    answer: dict[str, list[dict[str, dict[str, str]]]] = json.loads(body)
    return answer
