"""The limit for connecting to servers of sandboxes and of engines: it bounds that alone, not the answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from saccade.core import http
from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError, SandboxLostError
from saccade.sandbox.remote import Http
from saccade.training.rl.engines.server_http import Connection

LIMIT = 0.3
"""Seconds; in a run it is a minute."""
Ask = Callable[[str], Awaitable[object]]


async def of_a_sandbox(url: str) -> object:
    box = Http(url, None, retry=RetryPolicy(tries=1))
    try:
        return (await box.request("GET", "/", seconds=60)).json()
    finally:
        await box.close()


async def of_an_engine(url: str) -> object:
    connection = Connection(url, retry=RetryPolicy(tries=1, seconds=60))
    try:
        return await connection.get("/")
    finally:
        await connection.close()


@pytest.fixture(params=[of_a_sandbox, of_an_engine])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(http, "CONNECT_SECONDS", LIMIT)
    asked: Ask = request.param
    return asked


@pytest.fixture
def full() -> Iterator[str]:
    """A server whose queue of connections is full: the next one waits until somebody takes one out."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_a_server_that_takes_no_connection_is_an_outage(ask: Ask, full: str) -> None:
    async with asyncio.timeout(30):
        with pytest.raises((SandboxLostError, ModelLostError), match="ConnectTimeout"):
            await ask(full)


async def test_an_answer_may_take_longer_than_connecting(ask: Ask) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(2 * LIMIT)
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 8\r\nconnection: close\r\n\r\n{"ok":1}')
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        assert await ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") == {"ok": 1}
