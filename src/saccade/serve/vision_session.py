"""One sandbox session with named pictures: Python, typed tools and uploads work on the same `image_0`, `image_1`, ...

Every picture that is uploaded, shown by code or made by a tool gets the next number; Python has a Pillow image under
that name from its next call on, and tools look at it by that name. The interpreter starts with the first call of
Python, and a video has to be uploaded before that. Calls of one session are done one after the other.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from saccade.episode.executions import of_run, of_tool
from saccade.errors import SaccadeError
from saccade.media.settings import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.execution import Execution
from saccade.sandbox.base import Binding, Sandbox, Session, SessionOptions, VideoFile
from saccade.tasks.own_media import OwnMedia, Taken, take
from saccade.tools.context import Numbering, ToolContext
from saccade.tools.toolbox import Toolbox

LABEL: Final = "image_"
_OPTIONS: Final = SessionOptions(preload=("np", "plt", "Image", "cv2"))


class CallRefusedError(SaccadeError):
    """What was asked for cannot be done here; the message is written for a model."""


class MediaFolder:
    """The media of a session and of its branches; the files are deleted when the last of them is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-session-")
        self.store = MediaStore(self._folder.name)
        self._users = 0

    def enter(self) -> MediaStore:
        """One more session uses it."""
        self._users += 1
        return self.store

    def leave(self) -> None:
        """A session uses it no longer."""
        self._users -= 1
        if not self._users:
            self._folder.cleanup()


@dataclass(frozen=True)
class SessionMedia:
    """What a session can look at."""

    pictures: dict[str, ImagePart] = field(default_factory=dict)
    """By name, oldest first."""
    videos: dict[str, VideoPart] = field(default_factory=dict)
    """By the name of their variable."""
    uploaded: tuple[str, ...] = ()
    """Names of the pictures that were uploaded; they stay at a reset."""

    def copy(self) -> Self:
        return replace(self, pictures=dict(self.pictures), videos=dict(self.videos))


@dataclass(frozen=True, slots=True)
class SessionCall:
    """What a call gave back, and the names of its pictures in their order."""

    execution: Execution
    names: tuple[str, ...]


class VisionSession:
    """See the module's head."""

    def __init__(
        self, sandbox: Sandbox, tools: Toolbox, folder: MediaFolder, *, most: int, media: SessionMedia | None = None
    ) -> None:
        """`most` pictures are kept; further ones are refused."""
        self.store = folder.enter()
        self.media = media or SessionMedia()
        self._sandbox, self._tools, self._folder, self._most = sandbox, tools, folder, most
        self._session: Session | None = None
        self._lock = asyncio.Lock()

    async def run(self, code: str) -> SessionCall:
        """Run a cell of Python.

        Raises:
            SandboxError: the sandbox itself failed.
            CallRefusedError: there is no room for further pictures.
        """
        async with self._lock:
            self._check_room()
            session = await self._opened()
            execution = await of_run(await session.run(code), self.store)
            return SessionCall(execution, self._keep([picture.image for picture in execution.pictures]))

    async def call(self, name: str, arguments: object) -> SessionCall:
        """Call a typed tool; a wrong call is an execution too. Raises `CallRefusedError` as `run` does."""
        async with self._lock:
            self._check_room()
            pictures = {key: self.store.open(part) for key, part in self.media.pictures.items()}
            videos = {key: self.store.path(part.sha256) for key, part in self.media.videos.items()}
            numbering = Numbering(LABEL, len(self.media.pictures))
            context = ToolContext(pictures, videos, numbering=numbering)
            result = await self._tools.call_async(name, arguments, context)
            execution = await of_tool(result, self.store)
            return SessionCall(execution, self._keep([picture.image for picture in execution.pictures]))

    async def upload(self, media: OwnMedia, settings: OwnMediaSettings) -> tuple[str, Taken]:
        """Take a picture or a video; gives its name here.

        Raises:
            MediaError: it is neither, broken, or too large.
            UnavailableError: it may be a video, and what reads videos is not installed.
            CallRefusedError: a video comes too late, or there is no room.
        """
        async with self._lock:
            self._check_room()
            taken = await asyncio.to_thread(take, media, self.store.limited(settings.limits), settings)
            if isinstance(taken.part, ImagePart):
                (name,) = self._keep([taken.part])
                self.media = replace(self.media, uploaded=(*self.media.uploaded, name))
                return name, taken
            if self._session is not None:
                raise CallRefusedError(
                    "A video can only be uploaded before the first call of run_python. Upload it without `session`, "
                    "which opens a new session, or call reset first."
                )
            name = f"video_{len(self.media.videos)}"
            self.media.videos[name] = taken.part
            return name, taken

    async def branch(self, count: int) -> Sequence[VisionSession]:
        """Sessions that start from the state of this one, each with pictures of its own from then on."""
        async with self._lock:
            opened = await (await self._opened()).branch(count)
            return [self._branched(session) for session in opened]

    async def reset(self) -> None:
        """Start anew with what was uploaded: no variables, no files, no picture that code or a tool made."""
        async with self._lock:
            await self._end()
            kept = [self.media.pictures[name] for name in self.media.uploaded]
            names = tuple(f"{LABEL}{number}" for number in range(len(kept)))
            self.media = SessionMedia(dict(zip(names, kept, strict=True)), self.media.videos, names)

    async def close(self) -> None:
        """End the session and give its files back; call it once."""
        await self._end()
        self._folder.leave()

    def _branched(self, session: Session) -> VisionSession:
        made = VisionSession(self._sandbox, self._tools, self._folder, most=self._most, media=self.media.copy())
        made._session = session
        return made

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _opened(self) -> Session:
        if self._session is None:
            bindings: dict[str, Binding] = {name: self.store.open(part) for name, part in self.media.pictures.items()}
            paths = {name: f"{name}.{part.mime.rpartition('/')[2]}" for name, part in self.media.videos.items()}
            files = {paths[name]: self.store.get_bytes(part.sha256) for name, part in self.media.videos.items()}
            bindings |= {name: VideoFile(path) for name, path in paths.items()}
            self._session = await self._sandbox.open(bindings, files=files, options=_OPTIONS)
        return self._session

    def _keep(self, parts: Sequence[ImagePart]) -> tuple[str, ...]:
        new = {f"{LABEL}{number}": part for number, part in enumerate(parts, len(self.media.pictures))}
        self.media.pictures.update(new)
        if self._session is not None and new:
            self._session.bind({name: self.store.open(part) for name, part in new.items()})
        return tuple(new)

    def _check_room(self) -> None:
        if len(self.media.pictures) >= self._most:
            raise CallRefusedError(
                f"This session holds {len(self.media.pictures)} pictures, and {self._most} are allowed. Call reset, "
                "which keeps the uploaded ones, or open a new session."
            )
