"""Send JSON and pictures over HTTP to a server that samples, with retries of outages and typed failures."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from saccade.core.http import Server, checked_address, is_outage
from saccade.core.retry import ENGINE_RETRY, Clock, OutageError, RetryPolicy, retry_after
from saccade.errors import ModelLostError, ModelRefusedError
from saccade.models.failures import ApiKey, find_key
from saccade.models.pictures import EncodedPicture
from saccade.record.content import ImagePart

_PIECE = 1 << 18
"""Bytes of a picture read at once: faster than handing the read to a thread."""


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A picture as a `data:` URL in a file."""

    path: Path
    size: int
    """Bytes of the URL."""

    @property
    def mark(self) -> str:
        """Placeholder of the URL in a request until it is sent."""
        return f"picture:{self.path.name}"


@dataclass(slots=True)
class _Folder:
    """A temporary folder, its files and the number of requests that use it."""

    place: tempfile.TemporaryDirectory[str]
    made: dict[str, asyncio.Task[PictureFile]] = field(default_factory=dict)
    users: int = 0


class PictureFiles:
    """The files of one engine, made when first needed; deleted by `clear` or after the last request that needs them."""

    def __init__(self, encode: Callable[[ImagePart], EncodedPicture]) -> None:
        """`encode` makes the picture that servers are sent; it is called in threads."""
        self._encode = encode
        self._folder: _Folder | None = None

    @asynccontextmanager
    async def files_of(self, parts: Sequence[ImagePart]) -> AsyncIterator[tuple[PictureFile, ...]]:
        """Provide the files of pictures for the block; concurrent requests share them.

        Raises `MediaError`: one cannot be read; `ModelLostError`: there is no room for one.
        """
        if self._folder is None:
            place = tempfile.TemporaryDirectory(prefix="saccade-pictures-", ignore_cleanup_errors=True)
            self._folder = _Folder(place)
        folder = self._folder
        folder.users += 1
        try:
            yield tuple(await asyncio.gather(*(self._made(part, folder) for part in parts)))
        finally:
            folder.users -= 1
            self._clean(folder)

    def clear(self) -> None:
        """Delete them all; those of a running request when it ends."""
        folder, self._folder = self._folder, None
        if folder is not None:
            self._clean(folder)

    def _clean(self, folder: _Folder) -> None:
        if folder is not self._folder and not folder.users:
            folder.place.cleanup()

    async def _made(self, part: ImagePart, folder: _Folder) -> PictureFile:
        task = folder.made.get(part.sha256)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            path = Path(folder.place.name) / part.sha256
            task = folder.made[part.sha256] = asyncio.create_task(asyncio.to_thread(self._write, part, path))
        return await asyncio.shield(task)

    def _write(self, part: ImagePart, path: Path) -> PictureFile:
        url = self._encode(part).url.encode()
        try:
            path.write_bytes(url)
        except OSError as error:
            raise ModelLostError(
                f"a picture for the engine cannot be written to {path.parent}: {error.strerror or error}. Set TMPDIR "
                "to a folder with room."
            ) from error
        return PictureFile(path, len(url))


@dataclass(frozen=True, slots=True)
class StreamedBody:
    """A request's body as JSON, in which pictures are read when they are sent."""

    texts: tuple[bytes, ...]
    """JSON before, between and after the pictures."""
    pictures: tuple[PictureFile, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.texts)) + sum(picture.size for picture in self.pictures)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in order. Raises OSError if a picture's file is gone."""
        for number, text in enumerate(self.texts):
            yield text
            if number < len(self.pictures):
                with self.pictures[number].path.open("rb") as file:
                    while piece := file.read(_PIECE):
                        yield piece


def streamed_body(body: Mapping[str, Any], pictures: Sequence[PictureFile]) -> StreamedBody:
    """Make a body that holds the marks of `pictures`, in order. Raises ValueError if one is missing."""
    left = json.dumps(body, separators=(",", ":")).encode()
    texts = []
    for picture in pictures:
        before, mark, left = left.partition(f'"{picture.mark}"'.encode())
        if not mark:
            raise ValueError(f"the request does not hold {picture.mark}")
        texts.append(before + b'"')
        left = b'"' + left
    return StreamedBody((*texts, left), tuple(pictures))


T = TypeVar("T")

_LONGEST_DETAIL = 400
"""Characters of a server's own words in a message."""


class Connection:
    """One server. Not bound to an event loop until the first request."""

    def __init__(
        self,
        address: str,
        *,
        retry: RetryPolicy = ENGINE_RETRY,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect with the key of the environment, SACCADE_ENGINE_API_KEY, where the server needs one.

        Args:
            address: `http://host:port`, without `/v1`.
            retry: how often and how long.
            clock: how to wait between tries.
            transport: another way than the network's.

        Raises `SettingsError`: `address` is none.
        """
        self.address = engine_address(address)
        self._key: ApiKey = find_key("engine", needed=False)
        secret = self._key.reveal()
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._server = Server(
            self.address, headers, retry=retry, seconds=retry.seconds, clock=clock, transport=transport
        )

    async def get(self, path: str) -> Any:
        """Get JSON from the server. Raises as `ask`."""
        return await self._server.ask("GET", path, lambda response: self._json(response, path))

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the server's answer as JSON, None for an empty one. Raises as `ask`."""
        return await self.ask(path, body, lambda answer: answer)

    async def ask(
        self, path: str, body: dict[str, Any] | None, read: Callable[[Any], T], pictures: Sequence[PictureFile] = ()
    ) -> T:
        """Return `read` of the server's answer to a POST; an `OutageError` of `read` is retried too.

        `body` holds marks in place of `pictures`, whose files are sent.

        Raises `ModelLostError`: it cannot be reached or kept failing, after all tries; `ModelRefusedError`: it refuses;
        no retry can help.
        """
        sent = None if body is None else streamed_body(body, pictures)
        headers = {} if sent is None else {"content-type": "application/json", "content-length": str(sent.size)}
        content = b"" if sent is None else sent.pieces
        return await self._server.ask(
            "POST", path, lambda response: read(self._json(response, path)), content, headers=headers
        )

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._server.close()

    def _json(self, response: httpx.Response, path: str) -> Any:
        if not response.is_success:
            status, words = response.status_code, self._key.hide(_words(response))
            if is_outage(response):
                raise OutageError(f"{self.address}{path} failed ({status}): {words}.", retry_after(response.headers))
            raise ModelRefusedError(f"{self.address}{path} refused ({status}): {words}.")
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise OutageError(f"{self.address}{path} sent an answer that is not JSON.") from None


def _words(response: httpx.Response) -> str:
    """Extract the server's message."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    while isinstance(body, dict) and (inner := next((body[k] for k in ("error", "message", "detail") if k in body), 0)):
        body = inner
    text = body if isinstance(body, str) else json.dumps(body)
    return text.strip().rstrip(".")[:_LONGEST_DETAIL] or "no reason given"


def engine_address(address: str) -> str:
    """Normalise `address`. Raises `SettingsError` unless it is one of a server."""
    return checked_address(address, "the engine's", 8000, "a key goes into SACCADE_ENGINE_API_KEY").removesuffix("/v1")
