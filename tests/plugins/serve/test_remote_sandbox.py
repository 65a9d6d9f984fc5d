"""`RemoteSandbox` against a real server over a fake provider: exactness, laziness, cancelling, errors."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.fake_sandboxes import TOKEN, FakeSandbox, FakeSession, serving

from saccade.core import http
from saccade.core.retry import RetryPolicy
from saccade.errors import (
    DecodeError,
    ModelLostError,
    ProtocolError,
    SandboxClosedError,
    SandboxError,
    SandboxLostError,
    SettingsError,
)
from saccade.record.execution import Status
from saccade.sandbox import remote
from saccade.sandbox.base import SessionOptions, StatePolicy
from saccade.sandbox.remote import TOKEN_VARIABLE, Http, RemoteSandbox
from saccade.training.rl.engines.server_http import Connection

QUICK = RetryPolicy(tries=3, first_seconds=0.01)


@dataclass
class Lazy:
    image: Image.Image
    sha256: str = "1" * 64
    mode: str = "RGB"
    decoded: int = 0
    error: Exception | None = None

    @property
    def width(self) -> int:
        return self.image.width

    @property
    def height(self) -> int:
        return self.image.height

    def decode(self) -> Image.Image:
        self.decoded += 1
        time.sleep(0.02)
        if self.error is not None:
            raise self.error
        return self.image


@pytest.fixture
def fake() -> FakeSandbox:
    return FakeSandbox()


@pytest.fixture
async def url(fake: FakeSandbox) -> AsyncIterator[str]:
    async with serving(fake) as url:
        yield url


@pytest.fixture
async def box(url: str) -> AsyncIterator[RemoteSandbox]:
    async with RemoteSandbox(url, token=TOKEN, retry=QUICK) as box:
        yield box


def noise(mode: str = "RGB", size: tuple[int, int] = (40, 30)) -> Image.Image:
    channels = len(mode)
    data = np.random.default_rng(channels).integers(0, 256, size[0] * size[1] * channels, dtype=np.uint8)
    return Image.frombytes(mode, size, data.tobytes())


async def test_a_session_keeps_its_state_and_ends(box: RemoteSandbox, fake: FakeSandbox) -> None:
    session = await box.open({"a": 1})
    assert (await session.run("names['a'] += 1; print(names['a'])")).stdout == "2\n"
    session.bind({"b": [1, "ä\ud800"]})
    assert (await session.run("print(names['a'], names['b'] == [1, 'ä\\ud800'])")).stdout == "2 True\n"
    result = await session.run("1 / 0")
    assert result.status is Status.ERROR
    assert result.traceback == "ZeroDivisionError: division by zero"
    await session.close()
    await session.close()
    assert not fake.live
    with pytest.raises(SandboxClosedError):
        await session.run("1")


async def test_limits_isolation_files_and_options_arrive(box: RemoteSandbox, fake: FakeSandbox) -> None:
    assert box.limits == fake.limits
    assert await box.isolation() == await fake.isolation()
    options = SessionOptions(state=StatePolicy.KEEP, path_aliases={"/a": "b"}, preload=("np",))
    await box.open(files={"a/b.bin": b"\x00\xff", "c": b""}, options=options)
    assert fake.files == {"a/b.bin": b"\x00\xff", "c": b""}
    assert fake.options == options


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
async def test_pictures_go_and_come_back_exactly(box: RemoteSandbox, mode: str) -> None:
    image = noise(mode)
    session = await box.open({"im": image})
    (shown,) = (await session.run("show(look('im'))")).pictures
    assert (shown.mode, shown.data) == (mode, image.tobytes())
    session.bind({"again": shown, "array": np.asarray(image)})
    result = await session.run(
        "print(look('again') == look('im'), names['array'].shape, names['array'].flags.writeable)"
    )
    assert result.stdout == f"True {np.asarray(image).shape} True\n"


async def test_a_picture_is_uploaded_once(fake: FakeSandbox) -> None:
    async with serving(fake) as url:
        counting = Counting()
        async with RemoteSandbox(url, token=TOKEN, transport=counting) as box:
            image = noise()
            for _ in range(3):
                await box.open({"im": image, "other": np.asarray(image)})
        async with RemoteSandbox(url, token=TOKEN, transport=counting.again()) as box:
            await box.open({"im": image})
    assert sum("/v1/media/" in line for line in counting.lines) == 1


async def test_a_lazy_image_is_decoded_when_looked_at_and_once(box: RemoteSandbox) -> None:
    lazy = Lazy(noise())
    session = await box.open({"im": lazy})
    assert (await session.run("print(names['im'].width)")).stdout == "40\n"
    branches = await session.branch(4)
    assert lazy.decoded == 0
    results = await asyncio.gather(*(branch.run("show(look('im'))") for branch in [session, *branches]))
    assert {result.pictures[0].data for result in results} == {lazy.image.tobytes()}
    other = await box.open({"x": lazy})
    assert (await other.run("show(look('x'))")).ok
    assert lazy.decoded == 1


async def test_many_lazy_images_in_one_call(box: RemoteSandbox) -> None:
    lazies = {f"im_{i}": Lazy(noise(size=(10 + i, 5)), sha256=f"{i:064x}") for i in range(12)}
    session = await box.open(lazies)
    result = await session.run("print([look(f'im_{i}').width for i in range(12)])")
    assert result.stdout == f"{list(range(10, 22))}\n"


async def test_a_lazy_image_that_fails_fails_the_call(box: RemoteSandbox) -> None:
    session = await box.open({"im": Lazy(noise(), error=DecodeError("truncated"))})
    result = await session.run("look('im')")
    assert result.status is Status.ERROR
    assert "truncated" in str(result.traceback)
    assert (await session.run("print(1)")).ok


async def test_branches_have_what_is_bound_but_not_used(box: RemoteSandbox) -> None:
    session = await box.open({"a": 1})
    session.bind({"b": 2})
    one, two = await session.branch(2)
    await one.run("names['b'] = 5")
    for box_session, b in ((session, 2), (one, 5), (two, 2)):
        assert (await box_session.run("print(names['a'], names['b'])")).stdout == f"1 {b}\n"
    assert await session.branch(0) == []


async def test_cancelling_the_task_cancels_the_call(box: RemoteSandbox, fake: FakeSandbox) -> None:
    session = await box.open()
    session.bind({"a": 7})
    task = asyncio.create_task(session.run("sleep"))
    while not fake.runs:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.run("print(names['a'])")).stdout == "7\n"
    assert [hosted.cancelled for hosted in fake.live] == [1]


async def test_a_cancelled_open_leaves_no_session(box: RemoteSandbox, fake: FakeSandbox) -> None:
    for delay in (0.0, 0.002, 0.005, 0.01):
        task = asyncio.create_task(box.open({"im": noise()}))
        await asyncio.sleep(delay)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).close()
    async with asyncio.timeout(60):
        while fake.live:
            await asyncio.sleep(0.01)


async def test_calls_of_one_session_wait_for_each_other(box: RemoteSandbox) -> None:
    session = await box.open({"n": 0})
    code = "n = names['n']; names['n'] = n + 1; print(n)"
    results = await asyncio.gather(*(session.run(code) for _ in range(5)))
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(5)]


async def test_a_server_that_still_works_is_not_lost(fake: FakeSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full server takes longer for a call, and for a new session, than a client waits for a silent one."""
    monkeypatch.setattr(remote, "GRACE_SECONDS", 0.8)
    monkeypatch.setattr(remote, "OPEN_SECONDS", 1.0)
    opening = fake.open

    async def slow(*given: Any, **more: Any) -> FakeSession:
        await asyncio.sleep(1.5)
        return await opening(*given, **more)

    monkeypatch.setattr(fake, "open", slow)
    async with serving(fake, answer_seconds=0.1) as url, RemoteSandbox(url, token=TOKEN, retry=QUICK) as box:
        session = await box.open({"n": 0})
        result = await session.run("import time; time.sleep(1.5); names['n'] += 1; print(names['n'])", wall_seconds=0.2)
        assert (result.status, result.stdout) == (Status.OK, "1\n")
    assert (fake.opened, len(fake.runs)) == (1, 1)


async def test_an_outage_inside_the_provider_is_lost(box: RemoteSandbox) -> None:
    result = await (await box.open()).run("lost")
    assert result.status is Status.LOST
    assert result.traceback == "the zygote died"


async def test_a_server_that_restarts_has_lost_its_sessions(fake: FakeSandbox) -> None:
    async with serving(fake) as url:
        box = RemoteSandbox(url, token=TOKEN, retry=QUICK)
        session = await box.open({"im": noise()})
    gone = await session.run("print(1)")
    assert gone.status is Status.LOST
    assert "saccade sandbox serve" in str(gone.traceback)
    with pytest.raises(SandboxLostError):
        await box.open()
    async with serving(FakeSandbox(), port=int(url.rsplit(":", 1)[1])):
        assert (await session.run("print(1)")).status is Status.LOST
        other = await box.open({"im": noise()})
        assert (await other.run("show(look('im'))")).ok
    with pytest.raises(SandboxLostError):
        await other.branch(1)
    await box.close()
    with pytest.raises(SandboxClosedError):
        await box.open()


async def test_no_server_is_lost() -> None:
    box = RemoteSandbox("http://127.0.0.1:9", token=TOKEN, retry=QUICK)
    with pytest.raises(SandboxLostError, match=r"127\.0\.0\.1:9"):
        await box.open()
    with pytest.raises(SandboxError, match="limits"):
        assert box.limits
    await box.close()


@pytest.mark.parametrize("token", [None, "", "wrong"])
async def test_a_wrong_token_is_refused(url: str, token: str | None) -> None:
    box = RemoteSandbox(url, token=token, retry=QUICK)
    with pytest.raises(SandboxError, match=TOKEN_VARIABLE) as caught:
        await box.open()
    assert "wrong" not in str(caught.value)
    await box.close()


async def test_the_token_comes_from_the_environment_and_is_never_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    async with RemoteSandbox(url) as box:
        session = await box.open()
        assert (await session.run("print(1)")).ok
        assert TOKEN not in f"{box!r} {box._http!r} {session!r}"


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "127.0.0.1:8719", "http://me:secret@host", "http://[::1", "http://["]
)
def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RemoteSandbox(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "ümlaut"])
def test_an_unusable_token_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RemoteSandbox("http://127.0.0.1", token=token)
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "body"),
    [(200, b"hello"), (200, b"{}"), (404, b"<html>"), (302, b""), (200, b'{"protocol": 2, "limits": {"x": 1}}')],
)
async def test_another_kind_of_server_is_a_protocol_error(code: int, body: bytes) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(code, content=body))
    box = RemoteSandbox("http://127.0.0.1", transport=transport, retry=QUICK)
    with pytest.raises(ProtocolError):
        await box.open()
    await box.close()


class Counting(httpx.AsyncBaseTransport):
    """The network, with a list of what was answered: a slow machine may ask twice over a connection that was closed."""

    def __init__(self, lines: list[str] | None = None) -> None:
        self.lines = [] if lines is None else lines
        self._inner = httpx.AsyncHTTPTransport()

    def again(self) -> Counting:
        return Counting(self.lines)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.lines.append(f"{request.method} {request.url.path}")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class Breaking(Counting):
    """A network that loses every answer once, after the server has done its work, or answers 503 instead of asking."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.seen: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        line = f"{request.method} {request.url.path}"
        first = line not in self.seen
        self.seen.add(line)
        if first and self.how == "503":
            return httpx.Response(503, content=b"busy")
        if first and self.how == "refused":
            raise httpx.ConnectError("refused")
        response = await super().handle_async_request(request)
        if first:
            await response.aread()
            raise httpx.ReadError("the answer was lost")
        return response


@pytest.mark.parametrize("how", ["lost answer", "503", "refused"])
async def test_nothing_is_done_twice_on_a_breaking_network(fake: FakeSandbox, how: str) -> None:
    async with serving(fake) as url:
        async with RemoteSandbox(url, token=TOKEN, retry=QUICK, transport=Breaking(how)) as box:
            lazy = Lazy(noise())
            session = await box.open({"im": noise(), "n": 0, "lazy": lazy})
            for wanted in (1, 2, 3):
                result = await session.run("names['n'] += 1; print(names['n'])")
                assert result.stdout == f"{wanted}\n"
            one, two = await session.branch(2)
            assert (await one.run("show(look('lazy'))")).ok
            assert (await two.run("print(names['n'])")).stdout == "3\n"
            assert fake.opened == 1
            assert len(fake.live) == 3
            assert lazy.decoded == 1
        assert not fake.live


async def test_each_request_has_a_connection_of_its_own() -> None:
    """Requests that wait for one that is free overtake each other without end."""
    taken = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        taken += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        http = Http(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", TOKEN)
        for _ in range(2):
            await asyncio.gather(*(http.request("GET", "/v1/about") for _ in range(20)))
        await http.close()
    assert taken == 40


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
