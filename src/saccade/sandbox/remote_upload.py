"""Sending a request together with the pictures that the server turns out to lack.

A request first goes without pixels. If the server answers that it lacks some, they are uploaded and the request is
repeated, which is safe because every request may be. Lazy images are decoded only when a guest looks at them, and
once for all calls that wait for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from saccade.errors import ProtocolError, SandboxError
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import LazyImage
from saccade.sandbox.remote_codec import Outgoing
from saccade.sandbox.remote_http import Http, HttpReply
from saccade.sandbox.remote_pixels import RawPixels, from_lazy

ROUNDS = 5
"""How often one picture is sent for one request: the server may drop it again to make room for others."""
UPLOAD_SECONDS = 120.0


class Uploads:
    """The pictures of one client; `find_lazy` knows the lazy images of its open sessions by sha256."""

    def __init__(self, http: Http, find_lazy: Callable[[str], LazyImage | None]) -> None:
        self._http = http
        self._find_lazy = find_lazy
        self._answering: dict[str, asyncio.Task[None]] = {}

    async def send(self, method: str, path: str, body: bytes, outgoing: Outgoing, seconds: float) -> HttpReply:
        """Send a request, and again whenever pictures were missing; `seconds` bounds each attempt.

        Raises what `Http.request` raises, and `SandboxError` if the server drops pictures before they are used.
        """
        sent: Counter[str] = Counter()
        while True:
            reply = await self._http.request(method, path, body, seconds=seconds)
            if reply.code != 409:
                return reply
            fields = reply.json()
            missing, lazy = wire.texts(fields, "missing"), wire.texts(fields, "lazy")
            sent.update([*missing, *lazy])
            if not sent or max(sent.values()) > ROUNDS:
                raise SandboxError(
                    "the server dropped pictures before they were used; give it more room (picture_bytes in its "
                    "settings file) or bind fewer pictures at once."
                )
            for sha256 in missing:
                await self._upload(sha256, outgoing)
            await asyncio.gather(*(self._answer_once(sha256) for sha256 in lazy))

    async def _upload(self, sha256: str, outgoing: Outgoing) -> None:
        pixels = outgoing.pixels.get(sha256)
        if pixels is None:
            raise ProtocolError("the server asks for a picture that was not announced.")
        png = await asyncio.to_thread(pixels.png)
        await self._http.request("PUT", f"/v1/media/{sha256}", png, seconds=UPLOAD_SECONDS)

    async def _answer_once(self, sha256: str) -> None:
        """Answer a need, or wait for the answer that is under way for another call."""
        task = self._answering.get(sha256)
        if task is None:
            task = self._answering[sha256] = asyncio.create_task(self._answer(sha256))
            task.add_done_callback(lambda _: self._answering.pop(sha256, None))
        await asyncio.shield(task)

    async def _answer(self, sha256: str) -> None:
        path = f"/v1/lazy/{sha256}"
        lazy = self._find_lazy(sha256)
        try:
            if lazy is None:
                raise SandboxError("no open session of this client binds it any more")
            pixels = await asyncio.to_thread(_decoded, lazy)
        except Exception as error:  # `decode` is foreign code; whatever it raises goes to the guest as a failed read
            reason = f"{type(error).__name__}: {error}"
            await self._http.request("PUT", path, wire.pack({"failed": reason}), seconds=UPLOAD_SECONDS)
            return
        name = await asyncio.to_thread(pixels.sha256)
        await self.send("PUT", path, wire.pack({"picture": name}), Outgoing({}, {name: pixels}), UPLOAD_SECONDS)


def _decoded(lazy: LazyImage) -> RawPixels:
    pixels = from_lazy(lazy)
    if (pixels.width, pixels.height) != (lazy.width, lazy.height):
        raise SandboxError(
            f"the picture has {pixels.width}x{pixels.height} pixels, not the {lazy.width}x{lazy.height} that it states"
        )
    return pixels
