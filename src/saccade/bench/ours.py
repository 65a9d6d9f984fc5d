"""Saccade's local sandbox as a contender: through its sync face, all isolation layers on.

The zygote is up before anything is measured (starting it is a row of its own), as a server of sandboxes has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from saccade.bench.peer import PHOTO_NAME, Output
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.sync import SyncSandbox, SyncSession

if TYPE_CHECKING:
    from PIL.Image import Image


class PhotoFile:
    """A picture file as a `LazyImage`."""

    mode = "RGB"

    def __init__(self, path: Path) -> None:
        from PIL import Image

        self._path = path
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with Image.open(path) as image:
            self.width, self.height = image.size

    def decode(self) -> Image:
        from PIL import Image

        with Image.open(self._path) as image:
            return image.convert("RGB")


class SaccadeSession:
    """A session of ours."""

    def __init__(self, session: SyncSession) -> None:
        self.session = session

    def run(self, code: str) -> Output:
        """Run one cell."""
        result = self.session.run(code)
        return Output(result.stdout, len(result.pictures), failed=not result.ok)

    def branch(self, n: int) -> Sequence[SaccadeSession]:
        """`n` copies of the session."""
        return [SaccadeSession(session) for session in self.session.branch(n)]

    def close(self) -> None:
        """End the session."""
        self.session.close()


class Saccade:
    """The local sandbox."""

    name = "saccade"
    install = "pip install saccade"
    slow = False
    parallel = True
    libraries_at_start = True
    keeps_state = True
    shows_images = True
    picture_setup = ""

    def __init__(self) -> None:
        self._box = SyncSandbox(LocalSandbox())
        self._photos: dict[Path, PhotoFile] = {}

    def start(self, photo: Path | None = None) -> SaccadeSession:
        """A new session."""
        if photo is None:
            return SaccadeSession(self._box.open())
        if photo not in self._photos:
            self._photos[photo] = PhotoFile(photo)
        return SaccadeSession(self._box.open({PHOTO_NAME: self._photos[photo]}))

    def isolation(self) -> Isolation:
        """The layers that are on."""
        return self._box.isolation()

    def __enter__(self) -> Self:
        self._box.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._box.close()
