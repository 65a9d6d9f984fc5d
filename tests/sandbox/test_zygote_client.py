"""What the host makes of what a zygote says, and of its silence: another end of the socket speaks in its place."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxError, SandboxLostError
from saccade.guest import wire
from saccade.sandbox import zygote_client
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteClient

pytestmark = linux_only


class Played:
    """A client, and the zygote's end of its socket."""

    def __init__(self) -> None:
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.lost: list[str] = []
        self.client = ZygoteClient(lambda session, message: self.events.append((session, message)), self.lost.append)
        self.end: socket.socket

    async def start(self, folder: Path, seconds: float = 60) -> None:
        async def launch(python: str, cache: Path, control: socket.socket) -> None:
            self.end = control.dup()
            wire.send(self.end, {"op": "hello", "layers": []})

        self.client._launch = launch  # type: ignore[method-assign]
        await self.client.start("python", {"a": 1}, folder / "cache", seconds)

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        received = wire.receive(self.end)
        assert received is not None
        return received

    def say(self, op: str, session: int = 1, fds: tuple[int, ...] = (), **more: Any) -> None:
        wire.send(self.end, {"op": op, "id": session, **more}, fds)


@pytest_asyncio.fixture
async def played(tmp_path: Path) -> AsyncIterator[Played]:
    opened = Played()
    await opened.start(tmp_path)
    yield opened
    await opened.client.close()
    opened.end.close()


async def settled() -> None:
    """Until what has been said is heard: the loop has looked at its sockets."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_start_makes_the_folder_gives_the_settings_and_waits_for_hello(played: Played, tmp_path: Path) -> None:
    assert played.hear() == ({"a": 1}, [])
    assert (tmp_path / "cache").is_dir()
    assert played.client.hello == {"op": "hello", "layers": []}
    assert played.client.alive


async def test_answers_go_to_whoever_asked_first(played: Played) -> None:
    played.hear()
    first, second = played.client.ask("leaf", 1, pid=5), played.client.ask("leaf", 1)
    other = played.client.ask("leaf", 2)
    assert [played.hear()[0] for _ in range(3)] == [
        {"op": "leaf", "id": 1, "pid": 5},
        {"op": "leaf", "id": 1},
        {"op": "leaf", "id": 2},
    ]
    memfd = os.memfd_create("mine")
    played.say("leaf", 2, n=3)
    played.say("leaf", 1, (memfd,), n=1)
    played.say("leaf", 1, n=2)
    message, [fd] = await first
    assert (message["n"], os.fstat(fd).st_ino) == (1, os.fstat(memfd).st_ino)
    assert [(await answer)[0]["n"] for answer in (second, other)] == [2, 3]
    for each in (fd, memfd):
        os.close(each)


async def test_an_order_that_is_refused(played: Played) -> None:
    asked = asyncio.create_task(played.client.order("open", 1))
    await settled()
    played.say("failed", of="open", error="no room")
    with pytest.raises(OrderRefusedError, match="no room"):
        await asked
    assert played.events == []


async def test_what_nobody_asked_for_is_closed_or_ends_its_session(played: Played) -> None:
    reader, writer = os.pipe()
    played.say("leaf", 1, (writer,))
    os.close(writer)
    given_up = played.client.ask("call", 2)
    given_up.cancel()
    played.say("failed", 2, of="call", error="too late")
    played.say("failed", 3, of="open", error="out of order")
    played.say("died", 4, code=9)
    await settled()
    assert os.read(reader, 1) == b"", "nobody holds the other end any more"
    os.close(reader)
    assert played.events == [
        (3, {"op": "ended", "id": 3, "of": "open", "error": "out of order"}),
        (4, {"op": "died", "id": 4, "code": 9}),
    ]


async def test_the_end_of_a_session_is_an_answer_to_all_that_was_asked_of_it(played: Played) -> None:
    gone = [played.client.ask(op, 1) for op in ("leaf", "leaf", "call")]
    other = played.client.ask("leaf", 2)
    played.say("ended", 1, code=-9)
    played.say("leaf", 2)
    for answer in gone:
        with pytest.raises(OrderRefusedError, match="the session's processes have ended"):
            await answer
    assert (await other)[0]["id"] == 2
    assert not played.client._waiting
    assert played.events == [(1, {"op": "ended", "id": 1, "code": -9})]


@pytest.mark.parametrize("how", ["closed", "killed", "nobody listens"])
async def test_without_its_zygote_whoever_waits_hears_it_and_nothing_stays_open(how: str, played: Played) -> None:
    played.hear()
    reader, writer = os.pipe()
    waits = played.client.ask("leaf", 1)
    assert played.client._control is not None
    played.client._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 0)
    while not played.client._backlog:
        played.client.tell("respawn", 1, (writer,), filler="x" * 1000)
    os.close(writer)
    if how == "closed":
        await played.client.close()
    elif how == "killed":
        played.end.close()
        await settled()
    else:
        played.end.shutdown(socket.SHUT_RD)
        played.client._flush()
    with pytest.raises(SandboxLostError, match="the state of its sessions is gone"):
        await waits
    with pytest.raises(SandboxLostError, match="open a new session"):
        played.client.tell("call", 1)
    [said] = played.lost
    why = {"closed": "the sandbox was closed", "killed": "they were killed", "nobody listens": "socket is closed"}[how]
    assert why in said
    assert (played.client.alive, played.client._control, [*played.client._backlog]) == (False, None, [])
    played.end.close()
    assert os.read(reader, 1) == b"", "what was to be sent is closed, too"
    os.close(reader)
    await played.client.close()
    assert len(played.lost) == 1, "once"


async def test_whoever_asks_a_zygote_that_is_gone_hears_of_it_at_once() -> None:
    with pytest.raises(SandboxLostError, match="have died; open a new session"):
        await asyncio.wait_for(Played().client.order("close", 1), 10)


async def test_orders_that_do_not_fit_into_the_socket_go_out_in_their_order(played: Played) -> None:
    played.hear()
    numbers = 0
    while not played.client._backlog or numbers < 200:
        played.client.tell("respawn", numbers, filler="x" * 2000)
        numbers += 1
    heard = []
    while len(heard) < numbers:
        heard.append(played.hear()[0]["id"])
        await settled()
    assert heard == list(range(numbers))
    assert not played.client._backlog


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"  Traceback\nOSError: no\n", "Traceback\nOSError: no"),
        (b"x" * 200_000 + b"y" * 1991 + b"the end.\n", "y{1991}the end[.]"),
        (b"", "no answer"),
    ],
)
async def test_a_zygote_that_does_not_answer_has_not_started_and_its_last_words_are_told(
    said: bytes, message: str, tmp_path: Path
) -> None:
    played = Played()

    async def silent(python: str, cache: Path, control: socket.socket) -> None:
        played.end = control.dup()
        os.write(played.client._stderr, said)

    played.client._launch = silent  # type: ignore[method-assign]
    with pytest.raises(SandboxError, match=rf"did not start: {message}\. Run `saccade doctor`"):
        await played.client.start("python", {}, tmp_path, 0.01)
    assert not played.client.alive
    played.end.close()


class Deaf:
    """A launcher that ends only when it is killed."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def wait(self, seconds: float | None = None) -> None:
        self.done.append(f"wait {seconds}")
        if seconds is not None:
            raise subprocess.TimeoutExpired("launcher", seconds)

    def kill(self) -> None:
        self.done.append("kill")


def test_a_launcher_that_does_not_end_is_killed() -> None:
    process = Deaf()
    zygote_client._ended(process)  # type: ignore[arg-type]
    assert process.done == ["wait 10", "kill", "wait None"]


def test_what_of_the_hosts_environment_reaches_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    def popen(command: list[str], **settings: Any) -> str:
        started.update(settings, command=command)
        return "process"

    monkeypatch.setattr(subprocess, "Popen", popen)
    for name in os.environ:
        monkeypatch.delenv(name)
    for name in ("LANG", "TZ", "PYTHONPATH", "API_KEY", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, f"host's {name}")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert zygote_client._spawn("python", tmp_path, (theirs, 7)) == "process"
        assert started["pass_fds"] == [theirs.fileno()]
        assert str(theirs.fileno()) in started["command"]
    seen = started["env"]
    assert (seen["LANG"], seen["TZ"], seen["OMP_NUM_THREADS"]) == ("host's LANG", "host's TZ", "1")
    assert not {"PYTHONPATH", "API_KEY"} & set(seen)
    assert (seen["HOME"], seen["MPLCONFIGDIR"], seen["PYTHONHASHSEED"]) == ("/workspace", str(tmp_path), "0")
    assert (started["stdin"], started["stdout"], started["stderr"]) == (subprocess.DEVNULL, subprocess.DEVNULL, 7)
    assert (started["cwd"], started["start_new_session"]) == ("/", True)
