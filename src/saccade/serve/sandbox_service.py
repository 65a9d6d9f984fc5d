"""What a sandbox server does for each request, without HTTP: frames in, frames out.

Sessions live in `SessionTable`, pictures in `PictureStore`, pictures that stay with the client in
`AwaitedPictures`; this ties them to the provider.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.errors import ProtocolError, SandboxError, SettingsError
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import Binding, Sandbox, Session, SessionOptions
from saccade.sandbox.limits import MIB
from saccade.sandbox.remote_codec import pack_result, picture_names, unpack_bindings
from saccade.sandbox.result import PictureMode
from saccade.serve.sandbox_lazy import AwaitedPictures, ClientPicture
from saccade.serve.sandbox_pictures import PictureStore, verified
from saccade.serve.sandbox_sessions import SessionTable

T = TypeVar("T")


class ServeSettings(BaseModel):
    """What a sandbox server lends out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_sessions: int = Field(default=256, ge=1)
    """Most sessions at once, of all clients together."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session that is not used for so long is closed."""
    max_body_bytes: int = Field(default=512 * MIB, ge=MIB)
    """Largest message of a client."""
    answer_seconds: float = Field(default=30.0, gt=0)
    """Work that takes longer is answered with "still working", and the client asks again: it need not take a full
    server for a lost one, and no proxy between them closes a silent connection."""
    picture_bytes: int = Field(default=1024 * MIB, ge=MIB)
    """Most bytes of uploaded pictures (as PNG) that are kept."""


class MissingPicturesError(SandboxError):
    """The client has to send pixels first: `missing` by their hash, `lazy` by the client's own name."""

    def __init__(self, *, missing: list[str], lazy: list[str]) -> None:
        super().__init__("pictures are missing; send them and repeat the request.")
        self.missing = missing
        self.lazy = lazy


class SandboxService:
    """A provider (already started), lent out by name. Use it as an async context."""

    def __init__(self, sandbox: Sandbox, settings: ServeSettings) -> None:
        self.sandbox = sandbox
        self.settings = settings
        self._table = SessionTable(settings.max_sessions, settings.idle_seconds)
        self._pictures = PictureStore(settings.picture_bytes)
        # Not the loop's own threads: the provider blocks those while it waits for pixels that arrive through here.
        self._threads = ThreadPoolExecutor(4, "saccade-serve")

    async def __aenter__(self) -> Self:
        self._needs = AwaitedPictures(self._pictures)
        self._reaper = asyncio.create_task(self._table.reap())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._reaper.cancel()
        with suppress(asyncio.CancelledError):
            await self._reaper
        self._needs.close()
        await self._table.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def sessions(self) -> int:
        """Number of sessions that are open."""
        return len(self._table)

    async def put_picture(self, sha256: str, png: bytes) -> None:
        """Keep a picture whose pixels have that hash."""
        self._pictures.add(await self._off_loop(lambda: verified(sha256, png)))

    async def answer_need(self, client: str, name: str, body: bytes) -> None:
        """The body is a frame of `picture` (the hash of uploaded pixels) or `failed` (a reason)."""
        fields, _ = wire.unpack(body)
        if "failed" in fields:
            self._needs.refuse(client, name, wire.text(fields, "failed")[:1000])
            return
        sha256 = wire.text(fields, "picture")
        pictures = self._pictures.find([sha256])
        if not pictures:
            raise MissingPicturesError(missing=[sha256], lazy=[])
        self._needs.give(client, name, pictures[sha256])

    async def open(self, client: str, name: str, body: bytes) -> None:
        """Open a session; the body is a frame of `bindings`, `files` (paths, contents as blobs) and `options`."""
        fields, blobs = wire.unpack(body)
        wire.keys(fields, frozenset({"bindings", "files", "options"}))
        paths = wire.texts(fields, "files")
        if len(paths) != len(blobs):
            raise ProtocolError("another number of files is named than is sent.")
        options = _options(fields["options"])
        bindings = await self._bindings(client, fields["bindings"])
        files = dict(zip(paths, blobs, strict=True))

        async def start() -> Session:
            return await self.sandbox.open(bindings, files=files, options=options)

        await self._table.open(name, hashlib.sha256(body).hexdigest(), start)

    async def end(self, name: str) -> None:
        """Close a session; idempotent."""
        await self._table.end(name)

    async def branch(self, name: str, body: bytes) -> None:
        """Open branches; the body is a frame of `names`."""
        fields, _ = wire.unpack(body)
        names = wire.texts(wire.keys(fields, frozenset({"names"})), "names", most=self.settings.max_sessions)
        if len(set(names)) != len(names) or not all(wire.is_hex(branch, 32) for branch in names):
            raise ProtocolError("branches need different names of 32 hexadecimal digits.")
        if names:
            await self._table.branch(name, names)

    async def run(self, client: str, name: str, number: int, body: bytes) -> bytes:
        """The result frame of a call; the body is a frame of `code`, `wall_seconds` and `bindings`.

        Raises `MissingPicturesError` while the call waits for pixels of this client; the call continues meanwhile.
        """
        fields, _ = wire.unpack(body)
        wire.keys(fields, frozenset({"code", "wall_seconds", "bindings"}))
        code, seconds = wire.text(fields, "code"), wire.optional_number(fields, "wall_seconds")
        bindings = await self._bindings(client, fields["bindings"])

        async def start(session: Session) -> bytes:
            if bindings:
                session.bind(bindings)
            result = await session.run(code, wall_seconds=seconds)
            return await self._off_loop(lambda: pack_result(result))

        call = await self._table.call(name, number, start)
        needed = asyncio.create_task(self._needs.opened(client))
        try:
            await asyncio.wait({call, needed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            needed.cancel()
        if not call.done():
            raise MissingPicturesError(missing=[], lazy=self._needs.of(client))
        return await self._table.answer(name, call)

    async def cancel(self, name: str, number: int) -> None:
        """Cancel a call."""
        await self._table.cancel(name, number)

    async def _bindings(self, client: str, fields: object) -> dict[str, Binding]:
        names = picture_names(fields)
        pictures = self._pictures.find(names)
        if len(pictures) != len(names):
            raise MissingPicturesError(missing=sorted(names - pictures.keys()), lazy=[])

        def lazy(sha256: str, mode: PictureMode, width: int, height: int) -> ClientPicture:
            return ClientPicture(client, sha256, mode, width, height, self._needs)

        return await self._off_loop(lambda: unpack_bindings(fields, pictures, lazy))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _options(fields: object) -> SessionOptions | None:
    if fields is None:
        return None
    try:
        return SessionOptions.model_validate(fields)
    except ValidationError as error:
        raise SettingsError(f"the session's options cannot be used: {error}") from error
