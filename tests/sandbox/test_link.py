"""What a link makes of the zygote's news, and who is refused when a session ends. No process is started here."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxLostError
from saccade.guest import wire
from saccade.record.status import Status
from saccade.sandbox import house as times
from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.fate import KILLED_OUTSIDE, Death
from saccade.sandbox.gate import Gate
from saccade.sandbox.house import House
from saccade.sandbox.leaf import Leaf
from saccade.sandbox.limits import Limits
from saccade.sandbox.link import Link
from saccade.sandbox.shared_images import SharedImages
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteClient

pytestmark = linux_only


def new_link(zygote: ZygoteClient) -> Link:
    return Link(House(zygote, Limits(), SharedImages(), Gate(), ()))


@pytest.fixture
def ends() -> Iterator[tuple[ZygoteClient, socket.socket]]:
    """What the host knows of a zygote, and the zygote's end of their socket, at which nobody listens."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = ZygoteClient(lambda *_: None, lambda _: None)
    zygote._control, zygote.alive = ours, True
    theirs.setblocking(False)
    with ours, theirs:
        yield zygote, theirs


def orders(theirs: socket.socket) -> list[dict[str, Any]]:
    """The orders that have come in."""
    found = []
    with suppress(BlockingIOError):
        while (order := wire.receive(theirs)) is not None:
            found.append(order[0])
    return found


@pytest.mark.parametrize(
    ("was_ready", "message", "ended", "fate"),
    [
        (True, {"op": "died", "code": 3, "cpu": 0.5}, False, (Status.LOST, KILLED_OUTSIDE)),
        (True, {"op": "ended", "code": -signal.SIGKILL, "cpu": 0.5}, True, (Status.LOST, KILLED_OUTSIDE)),
        (
            *(True, {"op": "ended", "code": 3, "cpu": 0.5}, True),
            (Status.KILLED, "the process that kept the session's state ended with exit code 3"),
        ),
        (False, {"op": "ended", "code": 3, "cpu": 0.5}, True, (Status.LOST, KILLED_OUTSIDE)),  # it ran nothing yet
        (True, {"op": "ended"}, True, (Status.LOST, KILLED_OUTSIDE)),
    ],
)
async def test_the_end_of_a_session_and_of_a_call_are_told_apart(
    was_ready: bool, message: dict[str, Any], ended: bool, fate: tuple[Status, str]
) -> None:
    link = new_link(ZygoteClient(lambda *_: None, lambda _: None))
    try:
        link.was_ready = was_ready
        for _ in range(2):  # the same news twice changes nothing
            link.hear(message)
        assert (link.ended, link.end()) == (ended, fate)
        assert link._died.result() == Death(message.get("code", 0), message.get("cpu", 0.0))
    finally:
        await link.close()


async def test_what_was_ordered_for_a_session_that_ends_is_refused_and_nothing_else() -> None:
    heard: list[tuple[int, dict[str, Any]]] = []
    zygote = ZygoteClient(lambda session, message: heard.append((session, message)), lambda _: None)
    ordered: dict[tuple[str, int], asyncio.Future[Any]] = {}
    for key in (("fork", 1), ("close", 1), ("fork", 2)):
        ordered[key] = asyncio.get_running_loop().create_future()
        zygote._waiting[key] = deque([ordered[key]])
    zygote._dispatch({"op": "ended", "id": 1}, [])
    assert heard == [(1, {"op": "ended", "id": 1})]
    for key, future in ordered.items():
        assert future.done() is (key[1] == 1)
        if future.done():
            assert isinstance(future.exception(), OrderRefusedError)
    zygote._dispatch({"op": "failed", "of": "fork", "id": 2, "error": "no room"}, [])
    with pytest.raises(OrderRefusedError, match="no room"):
        await ordered["fork", 2]
    assert heard[1:] == []
    zygote._dispatch({"op": "failed", "of": "open", "id": 3, "error": "no room"}, [])  # nobody waits for an `open`
    assert heard[1:] == [(3, {"op": "ended", "of": "open", "id": 3, "error": "no room"})]
    zygote._dispatch({"op": "died", "id": 2}, [])
    assert heard[2:] == [(2, {"op": "died", "id": 2})]


async def test_an_answer_that_nobody_waits_for_any_more_leaves_nothing_open() -> None:
    """Whoever ordered it was cancelled: the descriptors that came with it are closed, and no session has ended."""
    heard: list[dict[str, Any]] = []
    zygote = ZygoteClient(lambda _, message: heard.append(message), lambda _: None)
    gone = [asyncio.get_running_loop().create_future() for _ in range(2)]
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    zygote._waiting["fork", 1] = deque([*gone, waiting])
    for future in gone:
        future.cancel()
    read, write = os.pipe()
    zygote._dispatch({"op": "fork", "id": 1}, [write])
    assert os.read(read, 1) == b""  # the other end is closed
    os.close(read)
    zygote._dispatch({"op": "failed", "of": "fork", "id": 1, "error": "no room"}, [])
    assert heard == []
    zygote._dispatch({"op": "fork", "id": 1, "pid": 7}, [])
    assert await waiting == ({"op": "fork", "id": 1, "pid": 7}, [])
    assert not zygote._waiting


async def test_whoever_asks_a_zygote_that_is_gone_hears_of_it_at_once() -> None:
    zygote = ZygoteClient(lambda *_: None, lambda _: None)
    with pytest.raises(SandboxLostError, match="have died; open a new session"):
        zygote.tell("close", 1)
    with pytest.raises(SandboxLostError):
        await asyncio.wait_for(zygote.order("close", 1), 10)


@pytest.mark.parametrize(
    ("was_ready", "killed", "blamed"), [(True, False, True), (False, False, False), (True, True, False)]
)
async def test_a_session_that_its_program_has_spoilt_is_ended_before_anybody_asks(
    was_ready: bool,
    killed: bool,
    blamed: bool,
    ends: tuple[ZygoteClient, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(times, "DEATH_SECONDS", 0.01)
    zygote, theirs = ends
    link = new_link(zygote)

    async def spoilt() -> None:
        if killed:
            link.hear({"op": "ended", "code": -signal.SIGKILL, "cpu": 0.5})
        raise GuestFaultError("a frame that is none")

    link.was_ready = was_ready
    link._get_ready(spoilt)
    assert link._prepared is not None
    await asyncio.wait((link._prepared,))
    assert isinstance(link._prepared.exception(), GuestFaultError)
    assert orders(theirs) == ([{"op": "close", "id": link.id}] if blamed else [])
    assert link.blame == ("a frame that is none" if blamed else "")
    link.hear({"op": "ended"})
    await link.close()


async def test_whoever_asks_for_the_next_call_does_not_wait_until_the_others_have_breathed(
    ends: tuple[ZygoteClient, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "BREATH_SECONDS", 1000.0)
    zygote, theirs = ends
    link = new_link(zygote)
    link._awaited.set()  # by the call before
    pidfd = os.pidfd_open(os.getpid())
    link._leaf = Leaf(os.getpid(), pidfd)
    link.prepare(keep=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)
    for _ in range(5):
        await asyncio.sleep(0)
    assert orders(theirs) == []
    asking = asyncio.create_task(link.ready())
    for _ in range(5):
        await asyncio.sleep(0)
    assert orders(theirs) == [{"op": "respawn", "id": link.id, "keep": True}]
    asking.cancel()
    link.hear({"op": "ended"})
    await link.close()


async def test_a_session_is_idle_from_when_it_is_ready_until_it_is_called() -> None:
    link = new_link(ZygoteClient(lambda *_: None, lambda _: None))
    leaf, go_on = link._leaf, asyncio.Event()
    assert not link._is_idle(leaf)

    async def steps() -> None:
        await go_on.wait()

    link._get_ready(steps)
    await asyncio.sleep(0)
    assert not link._is_idle(leaf)
    go_on.set()
    await link.ready()
    assert link._is_idle(leaf)
    assert not link._is_idle(Leaf())
    link._calling = True
    assert not link._is_idle(leaf)
    link._calling = False
    link.hear({"op": "ended"})
    assert not link._is_idle(leaf)
    await link.close()
