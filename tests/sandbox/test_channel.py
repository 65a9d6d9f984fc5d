"""The host's end of a session's socket, with a hostile other end."""

import array
import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.guest import wire
from saccade.sandbox.channel import GuestChannel, GuestFaultError, parse


def never() -> asyncio.Future[None]:
    """What is never done."""
    return asyncio.get_running_loop().create_future()


@pytest.fixture
def ends() -> Iterator[tuple[GuestChannel, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = GuestChannel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


Ends = tuple[GuestChannel, socket.socket]


async def test_a_message_and_its_answer(ends: Ends) -> None:
    channel, guest = ends
    channel.send({"op": "run", "code": "x = 'ä\ud800'"})
    received = wire.receive(guest)
    assert received == ({"op": "run", "code": "x = 'ä\ud800'"}, [])
    guest.send(b'{"op":"ready","pid":5}')
    assert await channel.expect("ready", 1, never()) == {"op": "ready", "pid": 5}


async def test_a_large_message_travels_whole(ends: Ends) -> None:
    channel, guest = ends
    code = "x = 1\n" * 100_000
    read_end, write_end = os.pipe()
    channel.send({"op": "run", "code": code}, [read_end])
    received = wire.receive(guest)
    assert received is not None
    message, fds = received
    assert (message["code"], len(fds)) == (code, 1)
    for fd in (read_end, write_end, *fds):
        os.close(fd)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"5", b"[" * 40_000, b'"' + b"x" * 40_000, b"1" * 40_000])
async def test_what_is_no_object_is_a_fault(ends: Ends, body: bytes) -> None:
    channel, guest = ends
    guest.send(body)
    with pytest.raises(GuestFaultError):
        await asyncio.wait_for(channel.receive_unless(never()), 5)


async def test_a_frame_holds_no_lists(ends: Ends) -> None:
    channel, guest = ends
    guest.send(b'{"op":"result","call":[' + b"[]," * 15_000 + b"0]}")
    with pytest.raises(GuestFaultError, match="more than 1 lists and objects"):
        await channel.receive_unless(never())
    guest.send(b'{"op":"a[{\\"{","pid":5}')
    assert await channel.receive_unless(never()) == {"op": 'a[{"{', "pid": 5}


async def test_a_frame_that_is_too_large_is_a_fault(ends: Ends) -> None:
    channel, guest = ends
    guest.send(json.dumps({"op": "x" * (wire.MAX_FRAME + 10)}).encode())
    with pytest.raises(GuestFaultError, match="too large"):
        await channel.receive_unless(never())


async def test_descriptors_of_a_guest_are_not_taken(ends: Ends) -> None:
    channel, guest = ends
    before = len(os.listdir("/proc/self/fd"))
    fds = array.array("i", [guest.fileno()] * 50)
    guest.sendmsg([b'{"op":"ready"}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    assert await channel.receive_unless(never()) == {"op": "ready"}
    assert len(os.listdir("/proc/self/fd")) == before


async def test_silence_and_the_wrong_word_are_faults(ends: Ends) -> None:
    channel, guest = ends
    with pytest.raises(GuestFaultError, match="did not say 'ready'"):
        await channel.expect("ready", 0.01, never())
    guest.send(b'{"op":"adopt"}')
    with pytest.raises(GuestFaultError, match="'adopt' instead of 'ready'"):
        await channel.expect("ready", 1, never())


async def test_a_guest_that_does_not_read_does_not_block_the_host(ends: Ends) -> None:
    channel, _guest = ends

    def send_without_end() -> None:
        for _ in range(100_000):
            channel.send({"op": "run", "code": "x" * 1000})

    with pytest.raises(GuestFaultError, match="does not take orders"):
        send_without_end()


async def test_drain_forgets_what_the_dead_have_said(ends: Ends) -> None:
    channel, guest = ends
    for _ in range(20):
        guest.send(b"garbage")
    channel.drain()
    guest.send(b'{"op":"ready"}')
    assert await channel.receive_unless(never()) == {"op": "ready"}


@given(st.binary(max_size=300))
def test_parse_gives_an_object_or_a_fault(body: bytes) -> None:
    with contextlib.suppress(GuestFaultError):
        assert isinstance(parse(body, 10), dict)


async def test_who_waits_hears_of_the_end(ends: Ends) -> None:
    channel, _ = ends
    over = never()
    asyncio.get_running_loop().call_later(0.01, over.set_result, None)
    with pytest.raises(GuestFaultError, match="ended before it said 'ready'"):
        await channel.expect("ready", 30, over)
