"""`python -m benchmarks serve`: what a server of agents costs besides its model, under load, and its memory.

The server is a process of its own, with a model in it that answers after a fixed time and costs nothing, so no second
HTTP is in the figures. The load comes from this process over connections that stay open, one for each request at once,
by a client as light as one can be, since it shares the machine. Connections begin one after the other and not all at
once, as clients do that know nothing of each other. What the model allows is the requests at once divided by its time.
It is shown with an address of the same server that only waits for as long (what HTTP allows here) and the CPU of the
server per request, which other work on the machine disturbs less. With code the bound is what model and sandbox allow:
the same calls made straight to the sandbox in the same run.
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
from typing import Final, cast
from urllib.parse import urlsplit

from benchmarks.evaluation import CODE, SECONDS, WITH_CODE, WITHOUT, straight
from benchmarks.figures import Figure, cpu_of, memory_of
from saccade.core.web import AsgiApp, Receive, Scope, Send, send_json
from saccade.dialects.base import load_dialect
from saccade.episode.ask import AskSettings
from saccade.errors import SandboxError
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import speak
from saccade.plugins.serve.agent_app import agent_app
from saccade.plugins.serve.agent_request import AgentServeSettings
from saccade.plugins.serve.agents import AgentPool
from saccade.record.content import Answer, Code

PAUSE: Final = "/pause"
"""An address that waits as long as the model and answers: what HTTP costs without an agent."""


class TimedModel:
    """Answers after a fixed time; with code, its first turn of an episode calls it."""

    name = "bench"

    def __init__(self, dialect: str) -> None:
        spoken = load_dialect(dialect)
        self._answer = spoken.write(Answer(text="2"))
        self._code = spoken.write(Code(code=CODE)) if dialect == WITH_CODE else None
        self._said: dict[bool, Completion] = {}
        """What is said first and what then, which is the same for every request."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next text, `SECONDS` later."""
        await asyncio.sleep(SECONDS)
        first = not any(message.role == "assistant" for message in request.messages)
        if first not in self._said:
            self._said[first] = speak(self._code if self._code and first else self._answer, request, self.name)
        return self._said[first]

    async def close(self) -> None:
        """Holds nothing that needs closing."""


def _with_pause(application: AsgiApp) -> AsgiApp:
    body = json.dumps({"choices": [{"message": {"content": "2"}}]}).encode()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PAUSE:
            return await application(scope, receive, send)
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(SECONDS)
        await send_json(send, body)

    return served


def served_app(dialect: str, at_once: int) -> AsgiApp:
    """Return the application of `saccade serve` over such a model, without a token, with `PAUSE` added."""
    base = AskSettings(model="bench", dialect=dialect)
    pool = AgentPool({"bench": TimedModel(dialect)}, base, AgentServeSettings(max_requests=at_once))
    return _with_pause(agent_app(pool, token=None, only_local=True))


def request_rate(url: str, asked: object, requests: int, at_once: int, *, spread: float) -> float:
    """Return requests per second of `at_once` connections, whose first requests are spread over `spread` seconds.

    `asked` is the JSON of each. Raises `SandboxError` if one is not answered with 200 and the text `2`.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_load(url, asked, requests, at_once, spread))


async def _load(url: str, asked: object, requests: int, at_once: int, spread: float) -> float:
    address = urlsplit(url)
    body = json.dumps(asked).encode()
    head = (
        f"POST {address.path} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    left, loop = iter(range(requests)), asyncio.get_running_loop()
    host, port = address.hostname or "", address.port or 80
    made = [
        await loop.create_connection(lambda: _Client(head.encode() + body, left), host, port) for _ in range(at_once)
    ]
    clients = [client for _, client in made]
    start = time.perf_counter()
    for number, client in enumerate(clients):
        loop.call_later(spread * number / at_once, client.ask)
    try:
        await asyncio.gather(*(client.done for client in clients))
        seconds = time.perf_counter() - start
    finally:
        for transport, _ in made:
            transport.close()
    for client in clients:
        client.check()
    return requests / seconds


class _Client(asyncio.Protocol):
    """One connection, which takes requests of `left` until there are none."""

    def __init__(self, message: bytes, left: Iterator[int]) -> None:
        self._message, self._left = message, left
        self._received = b""
        self._answers: list[tuple[bytes, bytes]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # as every stream's is; uvloop's is of no such class

    def ask(self) -> None:
        """Send the next request, or be done."""
        if next(self._left, None) is not None:
            self._transport.write(self._message)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            self._received = b""
            self._answers.append((head, body))
            self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(SandboxError(f"the server of the benchmark closed a connection: {error}"))

    def check(self) -> None:
        """Raise `SandboxError` unless every answer is 200 with the text `2`."""
        for head, body in self._answers:
            if not head.lower().startswith(b"http/1.1 200"):
                said = body[:500].decode("utf-8", "replace")
                raise SandboxError(f"a request of the benchmark was refused: {said}")
            answer = json.loads(body)
            if answer["choices"][0]["message"]["content"] != "2":
                raise SandboxError(f"a request of the benchmark was answered with {answer}")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop factory of the servers: uvloop's where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


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


def measure_serve(scale: ServeScale, on_progress: Callable[[str], None] = lambda what: None) -> list[Figure]:
    """Measure every figure. Raises `SandboxError` if a request is not answered as it must be."""
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
    return [*figures, Figure(name, rate, "per second", beside, calls, f"≥ {SHARE:.0%} of it", met)]


def _without_code(scale: ServeScale, rate: float, bare: float, busy: float) -> list[Figure]:
    """Return the figures without code; `busy` is milliseconds of CPU per request."""
    full = scale == FULL_SERVE
    at_once = f"{scale.at_once} at once"
    allowed = scale.at_once / SECONDS
    model = f"what a model of {1000 * SECONDS:.0f} ms allows"
    met = rate >= SHARE * allowed if full else None
    room = 1000 / (SHARE * allowed)
    return [
        Figure(f"requests without code, {at_once}", rate, "per second", model, allowed, f"≥ {SHARE:.0%} of it", met),
        Figure("the same server, only waiting as long", bare, "per second", model, allowed),
        Figure(
            "CPU of the server for a request without code",
            busy,
            "ms",
            f"what {SHARE:.0%} leaves one core",
            room,
            "≤ that",
            busy <= room if full else None,
        ),
    ]


def _memory(scale: ServeScale, url: str, process: int) -> Figure:
    first = scale.memory_requests // 4
    _rate(url, first, scale.at_once)
    before = memory_of(process)
    _rate(url, scale.memory_requests - first, scale.at_once)
    after = memory_of(process)
    return Figure(
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
    """Yield the address of a server, and the id of its process."""
    app = f"served_app({dialect!r}, {at_once})"
    code = (
        "from benchmarks.serve import served_app; from saccade.cli.web import serve_app; "
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
    """Return requests per second."""
    asked = {"model": "bench", "messages": [{"role": "user", "content": "What is 1 + 1?"}]}
    return request_rate(url + path, asked, requests, at_once, spread=SECONDS)
