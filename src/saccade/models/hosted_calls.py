"""Calls of a provider's own sandbox while they come in, and as they are recorded.

Provider-neutral: the wire modules open a call, fill it and say how it ended. What is not understood is kept as text and
said in a note, never dropped. No IO but storing pictures.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import MediaError, ModelRefusedError
from saccade.models.base import MediaKeeper, MediaReader, Request
from saccade.record.base import clean_text
from saccade.record.content import ImagePart
from saccade.record.execution import Execution, ExecutionFile, ExecutionPicture, PictureSource
from saccade.record.hosted_call import HostedCall
from saccade.record.status import Status

MOST_FILES: Final = 32
"""Files that are fetched of one answer."""
MOST_BYTES: Final = 20 * 1024 * 1024
"""Of one file that is fetched."""
PICTURE_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
UNANSWERED: Final = "The provider's sandbox did not say what came of this call."


@dataclass(slots=True)
class OpenPicture:
    """A picture that came back and is not stored yet."""

    data: bytes
    source: PictureSource
    path: str | None = None


@dataclass(slots=True)
class OpenCall:
    """A call whose outcome may still be coming."""

    tool: str
    at: int
    code: str = ""
    language: str = "python"
    call_id: str | None = None
    container: str = ""
    status: Status | None = None
    """None until the provider says how it ended."""
    stdout: str = ""
    stderr: str = ""
    reason: str = ""
    """Why it did not end well."""
    pictures: list[OpenPicture] = field(default_factory=list)
    files: list[ExecutionFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def need_keeper(media: MediaReader, who: str) -> MediaKeeper:
    """`media`, into which pictures can be put. Raises `ModelRefusedError` if they cannot."""
    if not isinstance(media, MediaKeeper):
        raise ModelRefusedError(
            f"{who} is asked to run code in its own sandbox, and there is no store for the pictures that come back. "
            "Give a MediaStore as the media."
        )
    return media


def refuse_hosted(request: Request, who: str) -> None:
    """Raise `ModelRefusedError` if the request is for a provider's sandbox, which `who` has not."""
    if request.hosted:
        raise ModelRefusedError(
            f"{who} has no sandbox of its own that runs code. Use responses, anthropic or gemini, or a dialect whose "
            "code runs here."
        )


def kept(calls: Sequence[OpenCall], media: MediaKeeper) -> tuple[HostedCall, ...]:
    """The calls as they are recorded, their pictures put into `media`; one that cannot be read is said in a note."""
    return tuple(_kept(call, media) for call in calls)


def _kept(call: OpenCall, media: MediaKeeper) -> HostedCall:
    notes = list(call.notes)
    pictures: list[ExecutionPicture] = []
    for number, item in enumerate(call.pictures):
        try:
            image: ImagePart = media.put_bytes(item.data)
        except MediaError as error:
            notes.append(f"Picture {item.path or number} came back and cannot be read: {error}")
        else:
            pictures.append(ExecutionPicture(image=image, source=item.source, path=item.path))
    status = Status.LOST if call.status is None else call.status
    reason = call.reason or (UNANSWERED if call.status is None else "")
    return HostedCall(
        tool=clean_text(call.tool)[:200] or "unknown",
        language=call.language,
        code=clean_text(call.code),
        at=call.at,
        call_id=None if call.call_id is None else clean_text(call.call_id),
        container=clean_text(call.container),
        execution=Execution(
            status=status,
            stdout=clean_text(call.stdout),
            stderr=clean_text(call.stderr),
            traceback=clean_text(reason) or None,
            pictures=tuple(pictures),
            files=tuple(call.files),
            notes=tuple(map(clean_text, notes)),
        ),
    )


def add_file(call: OpenCall, name: str, data: bytes) -> None:
    """A file that the call left: a picture by its ending, or else only its name and size."""
    if name.lower().endswith(PICTURE_ENDINGS):
        call.pictures.append(OpenPicture(data, "file", clean_text(name)))
    else:
        call.files.append(ExecutionFile(path=clean_text(name), size=len(data)))


def add_url(call: OpenCall, url: str) -> None:
    """A picture as a `data:` URL; any other address is noted and not fetched.

    Raises:
        OutageError: its base64 is none.
    """
    head, comma, data = url.partition(",")
    if not (url.startswith("data:image/") and comma and head.endswith(";base64")):
        call.notes.append(f"A picture came back as an address, which is not fetched: {url[:200]}")
        return
    call.pictures.append(OpenPicture(decoded(data), "display"))


def decoded(text: str) -> bytes:
    """The bytes of base64. Raises `OutageError` for what is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OutageError("sent a picture of its sandbox that is no base64.") from error


def as_json(data: Mapping[str, Any]) -> str:
    """Arguments of a call as readable text."""
    return json.dumps(data, ensure_ascii=False, indent=2, default=str)
