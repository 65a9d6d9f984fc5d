"""One sandbox session with named pictures: Python, typed tools and uploads work on the same `image_0`, `image_1`, ...

Every picture that is uploaded, shown by code or made by a tool gets the next number; Python has a Pillow image under
that name from its next call on, and tools look at it by that name. The interpreter starts with the first call of
Python, and a video has to be uploaded before that. Calls of one session are done one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field

from saccade.episode.workbench import of_run, of_tool
from saccade.errors import SaccadeError
from saccade.media.decode import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.execution import Execution
from saccade.sandbox.base import MIB, Binding, Sandbox, Session, SessionOptions, VideoFile
from saccade.tasks.media import OwnMedia, Taken, take
from saccade.tools.context import Numbering, ToolContext
from saccade.tools.definition import Xyxy, pixel_box
from saccade.tools.toolbox import Toolbox

LABEL: Final = "image_"
TEXT: Final = "last_output"
_OPTIONS: Final = SessionOptions(preload=("np", "plt", "Image", "cv2"))


class CallRefusedError(SaccadeError):
    """The request cannot be met here; the message is written for a model."""


class MediaFolder:
    """The media of a session and of its branches; the files are deleted when the last of them is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-session-")
        self.store = MediaStore(self._folder.name)
        self._users = 0

    def enter(self) -> MediaStore:
        self._users += 1
        return self.store

    def leave(self) -> None:
        """Note that a session uses it no longer."""
        self._users -= 1
        if not self._users:
            self._folder.cleanup()


@dataclass(frozen=True)
class SessionMedia:
    """Media of a session."""

    pictures: dict[str, ImagePart] = field(default_factory=dict)
    """By name, oldest first."""
    videos: dict[str, VideoPart] = field(default_factory=dict)
    """By the name of their variable."""
    uploaded: tuple[str, ...] = ()
    """Names of the pictures that were uploaded; they stay at a reset."""
    text: str = ""
    """What was printed last and was too long to be sent whole."""

    def copy(self) -> Self:
        return replace(self, pictures=dict(self.pictures), videos=dict(self.videos))


@dataclass(frozen=True, slots=True)
class SessionCall:
    """Result of a call, and the names of its pictures in order."""

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

    async def upload(self, media: OwnMedia, settings: OwnMediaSettings) -> tuple[tuple[str, ...], Taken]:
        """Take a picture, a document or a video, and return the names of its pictures or video here.

        Raises:
            MediaError: it is neither, broken, or too large.
            UnavailableError: it may be a video, and what reads videos is not installed.
            CallRefusedError: a video comes too late, or there is no room.
        """
        async with self._lock:
            self._check_room()
            taken = await asyncio.to_thread(take, media, self.store.limited(settings.limits), settings)
            pictures = [part for part in taken.parts if isinstance(part, ImagePart)]
            if pictures:
                self._check_room(len(pictures))
                names = tuple(self._keep(pictures))
                self.media = replace(self.media, uploaded=(*self.media.uploaded, *names))
                return names, taken
            [video] = (part for part in taken.parts if isinstance(part, VideoPart))
            if self._session is not None:
                raise CallRefusedError(
                    "A video can only be uploaded before the first call of run_python. Upload it without `session`, "
                    "which opens a new session, or call reset first."
                )
            name = f"video_{len(self.media.videos)}"
            self.media.videos[name] = video
            return (name,), taken

    async def view(self, name: str, box: Xyxy | None) -> tuple[str, ImagePart]:
        """Return a picture of the session, or the part of it in `box` (pixels), and what to call it.

        Raises:
            CallRefusedError: there is no such picture, or the box is in fractions of it.
            CallProblem: the box is empty or outside of it.
        """
        async with self._lock:
            part = self.media.pictures.get(name)
            if part is None:
                known = ", ".join(self.media.pictures) or "none yet; upload or show one"
                raise CallRefusedError(f"This session has no picture {name[:60]!r}. There are: {known}.")
            if box is None:
                return name, part
            if max(box) <= 1:
                raise CallRefusedError(
                    f"The box {list(box)} has fractions or a single pixel: `box` is in pixels of {name}, which is "
                    f"{part.width} × {part.height}."
                )
            edges = pixel_box(box, "pixels", (part.width, part.height))
            cut = await asyncio.to_thread(lambda: self.store.put_image(self.store.open(part).decode().crop(edges)))
            return f"{name}, {list(edges)}", cut

    def keep_text(self, text: str) -> str:
        """Keep the text for code to read, in place of the last one; return the name of its variable."""
        self.media = replace(self.media, text=text)
        if self._session is not None:
            self._session.bind({TEXT: text})
        return TEXT

    async def branch(self, count: int) -> Sequence[VisionSession]:
        """Return sessions that start from the state of this one, each with pictures of its own from then on."""
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
            bindings |= {TEXT: self.media.text} if self.media.text else {}
            self._session = await self._sandbox.open(bindings, files=files, options=_OPTIONS)
        return self._session

    def _keep(self, parts: Sequence[ImagePart]) -> tuple[str, ...]:
        new = {f"{LABEL}{number}": part for number, part in enumerate(parts, len(self.media.pictures))}
        self.media.pictures.update(new)
        if self._session is not None and new:
            self._session.bind({name: self.store.open(part) for name, part in new.items()})
        return tuple(new)

    def _check_room(self, more: int = 1) -> None:
        if len(self.media.pictures) + more > self._most:
            raise CallRefusedError(
                f"This session holds {len(self.media.pictures)} pictures, {more} more come, and {self._most} are "
                "allowed. Call reset, which keeps the uploaded ones, or open a new session."
            )


# A name has 128 random bits and only who opened or branched the session is given it, so no client reaches another's,
# over whatever connection. What is not used for some time is closed.

_log = logging.getLogger(__name__)


class McpSettings(BaseModel):
    """Sessions of an MCP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_sessions: int = Field(default=32, ge=1)
    """Most sessions at once, of all clients together."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session that is not used for so long is closed."""
    max_pictures: int = Field(default=256, ge=1)
    """Most pictures of one session; a call may pass it by the pictures that it shows itself."""
    max_upload_bytes: int = Field(default=64 * MIB, ge=1024)
    """Largest picture or video that is taken."""
    shown_pixels: int = Field(default=1_500_000, ge=28 * 28)
    """A larger picture goes to the client scaled down to it, with a line that says so; code and tools have it whole."""
    result_characters: int = Field(default=20_000, ge=1000)
    """Most characters of what a call printed in one result; the middle is cut out, and code has the whole."""
    result_picture_bytes: int = Field(default=1_000_000, ge=20_000)
    """Most bytes of all pictures in one result, as they are sent (base64); larger ones are scaled down."""
    folders: tuple[Path, ...] = ()
    """Folders of this machine from which pictures may be uploaded by path; none: by data only."""

    @property
    def media(self) -> OwnMediaSettings:
        return OwnMediaSettings(max_bytes=self.max_upload_bytes, max_video_bytes=self.max_upload_bytes)


@dataclass
class _Held:
    session: VisionSession
    last_used: float
    calls: int = 0


class VisionSessions:
    """Opens, finds and closes sessions over one provider, which is started already. Use it as an async context."""

    def __init__(self, sandbox: Sandbox, tools: Toolbox, settings: McpSettings) -> None:
        self._sandbox, self._tools, self.settings = sandbox, tools, settings
        self._held: dict[str, _Held] = {}
        self._coming = 0
        """Branches that are being opened."""

    async def __aenter__(self) -> Self:
        self._reaper = asyncio.create_task(self._reap())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._reaper.cancel()
        with suppress(asyncio.CancelledError):
            await self._reaper
        await asyncio.gather(*(self.close(name) for name in list(self._held)), return_exceptions=True)

    def __len__(self) -> int:
        return len(self._held)

    def use(self, name: str | None) -> _Use:
        """Return a context that gives name and session; None opens a new one, which is closed again if the call fails.

        Raises:
            CallRefusedError: there is no such session, or no room for another.
        """
        return _Use(self, name)

    async def branch(self, name: str, count: int) -> list[str]:
        """Return names of `count` new sessions that start from the state of `name`. Raises as `use` does."""
        self._admit(count)
        self._coming += count
        try:
            async with self.use(name) as (_, session):
                made = await session.branch(count)
        finally:
            self._coming -= count
        return [self._hold(branch) for branch in made]

    async def close(self, name: str) -> None:
        """Close a session. Raises `CallRefusedError` if there is none."""
        held = self.find(name)
        del self._held[name]
        await held.session.close()

    def open(self) -> str:
        """Return the name of a new session. Raises `CallRefusedError` if there is no room for it."""
        self._admit(1)
        settings = self.settings
        return self._hold(VisionSession(self._sandbox, self._tools, MediaFolder(), most=settings.max_pictures))

    def find(self, name: str) -> _Held:
        """Return the medium of a name. Raises `CallRefusedError` if there is none."""
        held = self._held.get(name)
        if held is None:
            raise CallRefusedError(
                "There is no such session: it was closed, or not used for "
                f"{self.settings.idle_seconds:.0f} s. Call again without `session`, which opens a new one."
            )
        return held

    def _hold(self, session: VisionSession) -> str:
        name = secrets.token_hex(16)
        self._held[name] = _Held(session, asyncio.get_running_loop().time())
        return name

    def _admit(self, count: int) -> None:
        held = len(self._held) + self._coming
        if held + count > self.settings.max_sessions:
            raise CallRefusedError(
                f"{held} sessions are open, and {self.settings.max_sessions} are allowed. Continue in one "
                "by its name, or end those that are not needed with close_session."
            )

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(5.0, self.settings.idle_seconds / 4))
            oldest = loop.time() - self.settings.idle_seconds
            idle = [name for name, held in self._held.items() if not held.calls and held.last_used < oldest]
            if idle:
                _log.info("%d sessions are closed: not used for %.0f s.", len(idle), self.settings.idle_seconds)
            await asyncio.gather(*(self.close(name) for name in idle), return_exceptions=True)


class _Use:
    """A session while a call uses it."""

    def __init__(self, sessions: VisionSessions, name: str | None) -> None:
        self._sessions, self._new = sessions, name is None
        self._name = sessions.open() if name is None else name

    async def __aenter__(self) -> tuple[str, VisionSession]:
        self._held = self._sessions.find(self._name)
        self._held.calls += 1
        return self._name, self._held.session

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._held.calls -= 1
        self._held.last_used = asyncio.get_running_loop().time()
        if self._new and kind is not None:
            with suppress(CallRefusedError):
                await self._sessions.close(self._name)


def inside(path: str, folders: Sequence[Path]) -> Path:
    """Return the file at `path`, links followed, if it is in one of `folders`.

    Raises:
        CallRefusedError: it does not, or there is no such file.
    """
    if not folders:
        raise CallRefusedError(
            "This server takes no paths: it was started without --folder. Upload the picture as `data` (base64)."
        )
    roots = [folder.resolve() for folder in folders]
    with suppress(OSError, RuntimeError, ValueError):  # names that no file has: of nobody's home, too long, with a NUL
        full = Path(path).expanduser()
        real = (full if full.is_absolute() else roots[0] / full).resolve()
        if any(real.is_relative_to(root) for root in roots) and real.is_file():
            return real
    listed = ", ".join(map(str, roots))
    raise CallRefusedError(f"There is no file {path[:200]!r} in the folders that may be read: {listed}.")
