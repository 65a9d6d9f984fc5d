"""Files of a provider's own sandbox: the pictures of the question in, and what the code left out.

The protocols differ in where such files lie; what is fetched, what is only named and what is said of the rest is here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from saccade.errors import ModelError
from saccade.models.base import MediaReader, Request
from saccade.models.hosted_calls import MOST_BYTES, MOST_FILES, PICTURE_ENDINGS, OpenCall, add_file
from saccade.record.base import clean_text
from saccade.record.content import ImagePart
from saccade.record.execution import ExecutionFile

_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_CLEANUP_SECONDS: Final = 15.0
_log = logging.getLogger(__name__)

Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Makes a request with the retries of its model."""


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """A file to lay into the sandbox."""

    name: str
    data: bytes
    mime: str

    @property
    def upload(self) -> tuple[str, bytes, str]:
        """As the client packages take it."""
        return self.name, self.data, self.mime


@dataclass(frozen=True, slots=True)
class LeftFile:
    """A file that the code left in the sandbox, and how it is read."""

    name: str
    size: int
    """Bytes, as the provider says."""
    read: Callable[[], Awaitable[bytes]]
    call: OpenCall
    """The call that it is shown with."""


def question_files(request: Request, media: MediaReader) -> tuple[SandboxFile, ...]:
    """The distinct pictures of the messages as they are stored, `image_0.png` and so on, in their order.

    Raises:
        MissingMediaError: `media` lacks one.
    """
    found: dict[str, ImagePart] = {}
    for message in request.messages:
        found |= {part.sha256: part for part in message.media if isinstance(part, ImagePart)}
    return tuple(
        SandboxFile(f"image_{number}{_SUFFIXES.get(part.mime, '.img')}", media.get_bytes(part.sha256), part.mime)
        for number, part in enumerate(found.values())
    )


async def fetch(left: Sequence[LeftFile], patiently: Patiently) -> None:
    """Read the pictures among the files into their calls; the others are named. What cannot be read is noted."""
    for number, file in enumerate(left):
        if number >= MOST_FILES:
            file.call.notes.append(f"{len(left) - number} more files were left in the sandbox and not fetched.")
            return
        is_picture = file.name.lower().endswith(PICTURE_ENDINGS)
        if is_picture and file.size <= MOST_BYTES:
            try:
                data = await patiently(file.read)
            except ModelError as error:
                file.call.notes.append(f"The file {clean_text(file.name)} could not be fetched: {error}")
                continue
            if data not in [picture.data for picture in file.call.pictures]:
                add_file(file.call, file.name, data)
            continue
        if is_picture:
            file.call.notes.append(f"The picture {clean_text(file.name)} is too large to be fetched.")
        file.call.files.append(ExecutionFile(path=clean_text(file.name), size=file.size))


async def tidy(who: str, what: str, undo: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Do all of `undo`; one that fails is a warning, for the provider deletes `what` later by itself."""
    for one in undo:
        try:
            async with asyncio.timeout(_CLEANUP_SECONDS):
                await one()
        except Exception as error:  # of the client package, of the connection, or the time
            _log.warning("%s: %s could not be deleted (%s); it expires by itself.", who, what, type(error).__name__)
