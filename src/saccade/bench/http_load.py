"""Requests of a benchmark over connections that stay open: as light as a client can be, since it shares the machine.

Each connection sends its next request as soon as the last is answered. They begin one after the other and not all at
once, as clients do that know nothing of each other. Answers are looked at when all are there.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import cast
from urllib.parse import urlsplit

from saccade.errors import SandboxError


def request_rate(url: str, asked: object, requests: int, at_once: int, *, spread: float) -> float:
    """Requests per second with `at_once` connections, whose first requests are spread over `spread` seconds.

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
        """Raises `SandboxError` for an answer that is none."""
        for head, body in self._answers:
            if not head.lower().startswith(b"http/1.1 200"):
                said = body[:500].decode("utf-8", "replace")
                raise SandboxError(f"a request of the benchmark was refused: {said}")
            answer = json.loads(body)
            if answer["choices"][0]["message"]["content"] != "2":
                raise SandboxError(f"a request of the benchmark was answered with {answer}")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of the servers: uvloop's where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
