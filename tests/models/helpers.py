"""What the tests of the clients share: media in memory, messages, and a clock that never waits."""

from __future__ import annotations

import hashlib
from io import BytesIO
from typing import Any

from PIL import Image

from saccade.core.retry import Clock
from saccade.models.base import Request
from saccade.models.endpoint import Endpoint
from saccade.record.content import ImagePart, Message, TextPart, VideoPart


class Media:
    """Bytes by their sha256."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}

    def get_bytes(self, sha256: str) -> bytes:
        return self.stored[sha256]

    def put(self, image: Image.Image, format_: str = "PNG", mime: str = "image/png", **options: Any) -> ImagePart:
        buffer = BytesIO()
        image.save(buffer, format_, **options)
        name = hashlib.sha256(buffer.getvalue()).hexdigest()
        self.stored[name] = buffer.getvalue()
        return ImagePart(sha256=name, width=image.width, height=image.height, mime=mime)


def said(role: str, *parts: str | ImagePart | VideoPart) -> Message:
    return Message.model_validate(
        {"role": role, "parts": [TextPart(text=part) if isinstance(part, str) else part for part in parts]}
    )


def ask(*parts: str | ImagePart | VideoPart, **fields: Any) -> Request:
    return Request((said("system", "Look."), said("user", *(parts or ("What?",)))), **fields)


class Waits(list[float]):
    """A clock that notes every wait and waits for none; its draws are the middle."""

    def clock(self) -> Clock:
        async def sleep(seconds: float) -> None:
            self.append(seconds)

        return Clock(sleep=sleep, draw=lambda: 0.0)


def endpoint(url: str, waits: Waits | None = None, **fields: Any) -> Endpoint:
    clock = (Waits() if waits is None else waits).clock()
    return Endpoint(fields.pop("model", "gpt-4.1"), base_url=url, clock=clock, **fields)
