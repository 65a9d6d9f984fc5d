"""Pictures that stay with the client until a guest looks at them.

A lazy picture is bound by its name, mode and size. When a guest first touches its pixels, the provider calls `decode`
in a thread; that opens a *need*. Whichever call of the same client is being waited for is answered with the open needs,
the client sends the pixels (or says why it cannot), and asks for the call again.

The name of a lazy picture is the client's word, so pictures of different clients are kept apart.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from saccade.errors import DecodeError, SandboxError
from saccade.serve.sandbox_pictures import PictureStore, StoredPicture

if TYPE_CHECKING:
    from PIL.Image import Image

NEED_SECONDS = 120.0
"""How long a guest waits for its client to send pixels."""
REMEMBERED = 100_000
"""How many lazy pictures' hashes are kept."""


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
        """The pixels, asked from the client if they are not here. Blocks: never call it on the server's loop."""
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
        """The picture, from the store or from the client; for the provider's threads.

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
        """Names of the pictures that this client should send now."""
        with self._lock:
            return [name for owner, name in self._open if owner == client]

    async def opened(self, client: str) -> None:
        """Return as soon as this client should send something."""
        while not self.of(client):
            self._changed.clear()
            await self._changed.wait()

    def give(self, client: str, name: str, picture: StoredPicture) -> None:
        """The pixels have arrived: all who wait get them."""
        with self._lock:
            self._names[client, name] = picture.sha256
            while len(self._names) > REMEMBERED:
                self._names.popitem(last=False)
            waiter = self._open.pop((client, name), None)
        if waiter is not None:
            waiter.set_result(picture)

    def refuse(self, client: str, name: str, reason: str) -> None:
        """The client cannot decode the picture: all who wait get `DecodeError`."""
        with self._lock:
            waiter = self._open.pop((client, name), None)
        if waiter is not None:
            waiter.set_exception(DecodeError(f"the client cannot decode the picture: {reason}"))

    def close(self) -> None:
        """Let everybody go who still waits."""
        with self._lock:
            waiting, self._open = list(self._open.values()), {}
        for waiter in waiting:
            waiter.set_exception(SandboxError("the server is shutting down."))
