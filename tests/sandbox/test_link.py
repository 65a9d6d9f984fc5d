"""What a link makes of the zygote's news, and who is refused when a session ends. No process is started here."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxLostError
from saccade.record.status import Status
from saccade.sandbox.fate import KILLED_OUTSIDE, Death
from saccade.sandbox.gate import Gate
from saccade.sandbox.house import House
from saccade.sandbox.limits import Limits
from saccade.sandbox.link import Link
from saccade.sandbox.shared_images import SharedImages
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteClient

pytestmark = linux_only


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
    house = House(ZygoteClient(lambda *_: None, lambda _: None), Limits(), SharedImages(), Gate(), ())
    link = Link(house)
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
