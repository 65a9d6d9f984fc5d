"""The host's end of a session's socket. Whatever is read here was written by a hostile program.

A flood of frames stays in the kernel's buffer of that session. Descriptors that a guest sends are never taken.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Sequence
from typing import Any

from saccade.guest import wire

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON, or the rest of the text where it has no end: each byte is looked at once."""


class GuestFaultError(Exception):
    """The guest broke the protocol; the message says how. Not an error of ours, and never raised to a caller."""


class GuestChannel:
    """Frames to and from one session."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop: asyncio.AbstractEventLoop | None = None

    def send(self, message: wire.WireMessage, fds: Sequence[int] = ()) -> None:
        """Send one message without blocking. Raises `GuestFaultError` if the guest does not read or is gone."""
        try:
            wire.send(self._sock, message, fds)
        except OSError as error:
            raise GuestFaultError(f"the session does not take orders: {error}") from error

    async def receive_unless(self, over: asyncio.Future[Any]) -> dict[str, Any] | None:
        """Return the next frame, or None if `over` is done before one has come."""
        self._loop = loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake(_future: object = None) -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(self._sock.fileno(), wake)
        over.add_done_callback(wake)
        try:
            await ready
        finally:
            over.remove_done_callback(wake)
            # The socket may have been closed meanwhile.
            if self._sock.fileno() >= 0:
                loop.remove_reader(self._sock.fileno())
        try:
            body = self._sock.recv(wire.MAX_FRAME + 1)
        except BlockingIOError:
            return None
        except OSError as error:
            if self._sock.fileno() < 0 and over.done():
                return None
            raise GuestFaultError(f"the session's socket broke: {error}") from error
        if not body:
            raise GuestFaultError("the session closed its socket")
        if len(body) > wire.MAX_FRAME:
            raise GuestFaultError("a frame is too large")
        return parse(body, most_containers=1)

    async def expect(self, op: str, seconds: float, unless: asyncio.Future[Any]) -> dict[str, Any]:
        """Return the next frame, an `op`. Raises `GuestFaultError` if it is none, late, or `unless` is done before."""
        try:
            frame = await asyncio.wait_for(self.receive_unless(unless), seconds)
        except TimeoutError:
            raise GuestFaultError(f"the session did not say {op!r} within {seconds:g} s") from None
        if frame is None:
            raise GuestFaultError(f"the session's process ended before it said {op!r}")
        if frame.get("op") != op:
            said = frame.get("error") if frame.get("op") == "failed" else frame.get("op")
            raise GuestFaultError(f"the session said {str(said)[:500]!r} instead of {op!r}")
        return frame

    def drain(self, most: int = 10_000) -> None:
        """Throw away what a dead process of the session has left in the socket."""
        for _ in range(most):
            try:
                # An empty packet looks like a closed socket; the zygote tells if it is one.
                self._sock.recv(1)
            except BlockingIOError:
                return
            except OSError as error:
                raise GuestFaultError(f"the session's socket broke: {error}") from error
        raise GuestFaultError("the session's socket is being flooded")

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self._loop is not None and self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
        self._sock.close()


def parse(body: bytes, most_containers: int) -> dict[str, Any]:
    """Return a guest's JSON object, refused before it is made if it holds more. Raises `GuestFaultError`."""
    try:
        # Read as it is counted: the parser would also take bytes that are UTF-16.
        text = body.decode()
        bare = _STRING.sub("", text)
        if bare.count("[") + bare.count("{") > most_containers:
            raise GuestFaultError(f"JSON of more than {most_containers:,} lists and objects")
        value = json.loads(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise GuestFaultError(f"not JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise GuestFaultError("not a JSON object")
    return value
