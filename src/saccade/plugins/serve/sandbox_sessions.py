"""Holds the sessions and pictures of a sandbox server's clients: idempotent by name, bounded, closed when idle.

A client names its sessions and numbers its calls. Asking twice for the same thing gives the same answer and does it
once: a repeated `open` waits for the first, a repeated `run` gets the stored bytes. A name that was closed is never
opened again, so a request that arrives late cannot leave a session behind. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from saccade.errors import DecodeError, ProtocolError, SandboxError, TooLargeError
from saccade.sandbox.base import Session
from saccade.sandbox.remote_codec import read_png

if TYPE_CHECKING:
    from PIL.Image import Image

_log = logging.getLogger(__name__)

REMEMBERED = 100_000
"""How many names of closed sessions, and of clients' pictures, are kept."""
RESULT_SECONDS = 300.0
"""How long the answer of a call is kept for a client that asks again."""
T = TypeVar("T")


class SessionError(SandboxError):
    """A request that does not fit the sessions that are here; `kind` is what the client is told."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class _Hosted:
    """A session and its newest call."""

    opened: asyncio.Task[Session]
    fingerprint: str
    """Of what it was opened from; the same name with another fingerprint is a conflict."""
    last_used: float
    number: int = 0
    call: asyncio.Task[bytes] | None = None

    @property
    def busy(self) -> bool:
        return not self.opened.done() or (self.call is not None and not self.call.done())


class SessionTable:
    """At most `max_sessions` sessions by name; one that is not used for `idle_seconds` is closed by `reap`."""

    def __init__(self, max_sessions: int, idle_seconds: float) -> None:
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._hosted: dict[str, _Hosted] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._closing = False

    def __len__(self) -> int:
        return len(self._hosted)

    async def open(self, name: str, fingerprint: str, start: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        """Open a session under `name` by `start`, or wait for the one that is being opened under it."""
        hosted = self._hosted.get(name)
        if hosted is None:
            self._admit([name])
            hosted = self._host(name, fingerprint, asyncio.create_task(start()))
        elif hosted.fingerprint != fingerprint:
            raise SessionError("conflict", f"session {name} was opened with other contents; choose another name.")
        await self._opened(hosted)

    async def branch(self, name: str, names: Sequence[str]) -> None:
        parent = self._find(name)
        session = await self._opened(parent)
        fingerprint = f"branch of {name}: {' '.join(names)}"
        known = [self._hosted[branch] for branch in names if branch in self._hosted]
        if not known:
            self._admit(names)
            made = asyncio.create_task(_listed(session.branch(len(names))))
            known = [
                self._host(branch, fingerprint, asyncio.create_task(_picked(made, index)))
                for index, branch in enumerate(names)
            ]
        elif len(known) != len(names) or any(hosted.fingerprint != fingerprint for hosted in known):
            raise SessionError("conflict", "some of these branches are other sessions; choose other names.")
        for hosted in known:
            await self._opened(hosted)
        self._touch(parent)

    async def call(
        self, name: str, number: int, start: Callable[[Session], Coroutine[Any, Any, bytes]]
    ) -> asyncio.Task[bytes]:
        """Return the task that answers call `number` of a session; `start` begins it unless it was begun before.

        Hand the task to `answer`, any number of times.
        """
        hosted = self._find(name)
        session = await self._opened(hosted)
        if number < hosted.number:
            raise SessionError("conflict", f"call {number} of session {name} is over and its answer is gone.")
        if number > hosted.number:
            if hosted.call is not None:
                await asyncio.wait({hosted.call})
            if self._hosted.get(name) is not hosted:
                raise self._unknown(name)
            if number > hosted.number:
                hosted.number = number
                hosted.call = _quiet(asyncio.create_task(start(session)))
        if hosted.call is None or number != hosted.number:
            raise SessionError("cancelled", f"call {number} of session {name} was cancelled or its answer is gone.")
        self._touch(hosted)
        return hosted.call

    async def answer(self, name: str, call: asyncio.Task[bytes]) -> bytes:
        """Wait for a call. It continues if the waiter is cancelled, since another may ask for it again."""
        try:
            return await _result_of(call)
        finally:
            if name in self._hosted:
                self._touch(self._hosted[name])

    async def cancel(self, name: str, number: int) -> None:
        """Cancel call `number`; one that has not arrived yet is not made when it does."""
        hosted = self._find(name)
        if number < hosted.number:
            return
        call = hosted.call
        if number > hosted.number:
            hosted.number, hosted.call = number, None
        elif call is not None:
            call.cancel()
        if call is not None:
            await asyncio.wait({call})
        self._touch(hosted)

    async def end(self, name: str, reason: str = "it was closed") -> None:
        """Close the session and never open its name again; idempotent."""
        self._ended.setdefault(name, reason)
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        hosted = self._hosted.pop(name, None)
        if hosted is None:
            return
        if hosted.call is not None and not hosted.call.done():
            hosted.call.cancel()
            await asyncio.wait({hosted.call})
        await asyncio.wait({hosted.opened})
        if not hosted.opened.cancelled() and hosted.opened.exception() is None:
            await hosted.opened.result().close()

    async def reap(self) -> None:
        """Close idle sessions until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(5.0, self._idle_seconds / 4))
            now = loop.time()
            for hosted in self._hosted.values():
                if hosted.call is not None and hosted.call.done() and now - hosted.last_used > RESULT_SECONDS:
                    hosted.call = None
            idle = [
                name
                for name, hosted in self._hosted.items()
                if not hosted.busy and now - hosted.last_used > self._idle_seconds
            ]
            reason = f"it was not used for {self._idle_seconds:.0f} s"
            if idle:
                _log.info("%d sessions are closed: not used for %.0f s.", len(idle), self._idle_seconds)
            await asyncio.gather(*(self.end(name, reason) for name in idle), return_exceptions=True)

    async def close(self) -> None:
        """Close every session and open none any more."""
        self._closing = True
        ends = [self.end(name, "the server is shutting down") for name in list(self._hosted)]
        await asyncio.gather(*ends, return_exceptions=True)

    def _admit(self, names: Sequence[str]) -> None:
        if self._closing:
            raise SessionError("lost", "the server is shutting down.")
        for name in names:
            if name in self._ended:
                raise self._unknown(name)
        if len(self._hosted) + len(names) > self._max_sessions:
            raise SessionError(
                "full",
                f"the server holds {len(self._hosted)} sessions and may hold {self._max_sessions}; "
                "close some, or start it with a larger --max-sessions.",
            )

    def _host(self, name: str, fingerprint: str, opened: asyncio.Task[Session]) -> _Hosted:
        hosted = _Hosted(_quiet(opened), fingerprint, asyncio.get_running_loop().time())
        self._hosted[name] = hosted

        def forget_failure(task: asyncio.Task[Session]) -> None:
            failed = task.cancelled() or task.exception() is not None
            if failed and self._hosted.get(name) is hosted:
                del self._hosted[name]

        opened.add_done_callback(forget_failure)
        return hosted

    async def _opened(self, hosted: _Hosted) -> Session:
        session = await _result_of(hosted.opened)
        self._touch(hosted)
        return session

    def _touch(self, hosted: _Hosted) -> None:
        hosted.last_used = asyncio.get_running_loop().time()

    def _find(self, name: str) -> _Hosted:
        hosted = self._hosted.get(name)
        if hosted is None:
            raise self._unknown(name)
        return hosted

    def _unknown(self, name: str) -> SessionError:
        if name in self._ended:
            return SessionError("gone", f"session {name} is gone: {self._ended[name]}.")
        return SessionError("unknown_session", f"this server knows no session {name}; it may have been restarted.")


async def _result_of(task: asyncio.Task[T]) -> T:
    """Wait for the task's result. The task continues if the waiter is cancelled, since another may ask for it."""
    await asyncio.wait({task})
    if task.cancelled():
        raise SessionError("cancelled", "this was cancelled.")
    return task.result()


def _quiet(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Return the task with its exception marked as seen, since perhaps no request asks for it."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _listed(branches: Awaitable[Sequence[Session]]) -> Sequence[Session]:
    return await branches


async def _picked(made: asyncio.Task[Sequence[Session]], index: int) -> Session:
    return (await asyncio.shield(made))[index]


# The pictures of a sandbox server: uploaded by clients, named by the hash of their pixels, bounded in bytes.
#
# What is stored was decoded and hashed here first. The least recently used pictures are dropped when there is no more
# room; a client is then asked to send them again. Nothing is written to disk.


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """An uploaded picture; a `LazyImage` for any sandbox provider."""

    sha256: str
    mode: str
    width: int
    height: int
    png: bytes = field(repr=False)

    def decode(self) -> Image:
        """Decode the pixels to a new Pillow image."""
        return read_png(self.png).image()


class PictureStore:
    """Uploaded pictures, at most `max_bytes` of PNG altogether. Safe from many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pictures: OrderedDict[str, StoredPicture] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, names: Iterable[str]) -> dict[str, StoredPicture]:
        """Return the named pictures that are here; they count as just used."""
        pictures = {}
        with self._lock:
            for name in names:
                picture = self._pictures.get(name)
                if picture is not None:
                    self._pictures.move_to_end(name)
                    pictures[name] = picture
        return pictures

    def add(self, picture: StoredPicture) -> None:
        """Keep a picture that `verified` returned; raises `TooLargeError` if it is larger than the limit for all."""
        if len(picture.png) > self._max_bytes:
            raise TooLargeError(
                f"a picture of {len(picture.png)} bytes is over the server's room of {self._max_bytes} bytes for all "
                "pictures; scale it down or raise picture_bytes in its settings file."
            )
        with self._lock:
            if picture.sha256 in self._pictures:
                return
            self._pictures[picture.sha256] = picture
            self._bytes += len(picture.png)
            while self._bytes > self._max_bytes:
                _, dropped = self._pictures.popitem(last=False)
                self._bytes -= len(dropped.png)


def verified(sha256: str, png: bytes) -> StoredPicture:
    """Decode the picture in `png` and check its pixels against the hash; raises `ProtocolError`. Call off the loop."""
    pixels = read_png(png)
    if pixels.sha256() != sha256:
        raise ProtocolError("the pixels do not have the sha256 under which they were sent.")
    return StoredPicture(sha256, pixels.mode, pixels.width, pixels.height, png)


# A lazy picture is bound by its name, mode and size. When a guest first touches its pixels, the provider calls `decode`
# in a thread; that opens a *need*. Whichever call of the same client is being waited for is answered with the open
# needs, the client sends the pixels (or says why it cannot), and asks for the call again.
#
# The name of a lazy picture is the client's word, so pictures of different clients are kept apart.

NEED_SECONDS = 120.0
"""How long a guest waits for its client to send pixels."""


@dataclass(frozen=True, slots=True)
class ClientPicture:
    """A picture whose pixels its client has; a `LazyImage` for any sandbox provider."""

    client: str
    name: str
    """The client's sha256 for it."""
    mode: str
    width: int
    height: int
    needs: AwaitedPictures = field(repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """A name that no other client's picture has."""
        return hashlib.sha256(f"{self.client} {self.name}".encode()).hexdigest()

    def decode(self) -> Image:
        """Decode the pixels, asking the client for missing ones. Blocks: never call it on the server's loop."""
        return self.needs.ask(self.client, self.name).decode()


class AwaitedPictures:
    """Which pictures are being waited for, by client. Make it on the server's event loop."""

    def __init__(self, pictures: PictureStore) -> None:
        self._pictures = pictures
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._open: dict[tuple[str, str], Future[StoredPicture]] = {}
        self._changed = asyncio.Event()

    def ask(self, client: str, name: str) -> StoredPicture:
        """Return the picture from the store or from the client; for the provider's threads.

        Raises:
            DecodeError: the client cannot decode it.
            SandboxError: the client does not send it in time.
        """
        if threading.get_ident() == self._thread:
            raise SandboxError("a picture of a client was decoded on the event loop; the provider must use a thread.")
        with self._lock:
            known = self._pictures.find([self._names.get((client, name), "")])
            if known:
                return next(iter(known.values()))
            waiter = self._open.setdefault((client, name), Future())
        self._loop.call_soon_threadsafe(self._changed.set)
        try:
            return waiter.result(NEED_SECONDS)
        except FutureTimeoutError:
            with self._lock:
                self._open.pop((client, name), None)
            raise SandboxError(
                f"the client did not send the pixels of a picture within {NEED_SECONDS:.0f} s."
            ) from None

    def of(self, client: str) -> list[str]:
        """Name the pictures that this client should send now."""
        with self._lock:
            return [name for owner, name in self._open if owner == client]

    async def opened(self, client: str) -> None:
        """Return as soon as this client should send something."""
        while not self.of(client):
            self._changed.clear()
            await self._changed.wait()

    def give(self, client: str, name: str, picture: StoredPicture) -> None:
        """Hand the pixels to every waiter."""
        with self._lock:
            self._names[client, name] = picture.sha256
            while len(self._names) > REMEMBERED:
                self._names.popitem(last=False)
            waiter = self._open.pop((client, name), None)
        if waiter is not None:
            waiter.set_result(picture)

    def refuse(self, client: str, name: str, reason: str) -> None:
        """Raise `DecodeError` in every waiter: the client cannot decode the picture."""
        with self._lock:
            waiter = self._open.pop((client, name), None)
        if waiter is not None:
            waiter.set_exception(DecodeError(f"the client cannot decode the picture: {reason}"))

    def close(self) -> None:
        with self._lock:
            waiting, self._open = list(self._open.values()), {}
        for waiter in waiting:
            waiter.set_exception(SandboxError("the server is shutting down."))
