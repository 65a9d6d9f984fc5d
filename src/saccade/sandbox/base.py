"""The interface that every sandbox provider has: `Sandbox` opens sessions, a `Session` runs code.

Two providers live here: `LocalSandbox` (processes of this machine) and `RemoteSandbox` (the same over HTTP).
`saccade.sandbox.registry` finds providers by name; the plug-in `audit` tells whether one behaves.
"""

from __future__ import annotations

import asyncio
import json
import keyword
import unicodedata
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.core.settings import mistaken, mistakes_of
from saccade.errors import SandboxError
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import RunResult

if TYPE_CHECKING:
    from PIL.Image import Image

MIB = 1024 * 1024


class _Checked(BaseModel):
    """Settings whose mistakes are a `SettingsError` with the nearest names where they are made from Python."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise mistaken(mistakes_of(type(self), error), type(self).__name__) from None

        # What is read from a file or a request is checked by whoever reads it, with the place of each mistake.
        __init__.__pydantic_base_init__ = True


class Limits(_Checked):
    """Limits of a session. Every one is enforced from outside the guest's program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wall_seconds: float = Field(default=20.0, gt=0, le=86_400)
    """Longest wall time of one call, in seconds; the call is killed from outside at that moment."""
    cpu_seconds: int = Field(default=20, gt=0, le=86_400)
    """Most CPU time of one call, in whole seconds."""
    memory_bytes: int = Field(default=2048 * MIB, ge=64 * MIB)
    """Most memory that one process of the session may allocate beyond what the sandbox itself holds. With a memory
    cgroup, all processes of a session together may hold twice that (state before and after a call) and the workspace.
    """
    processes: int = Field(default=32, ge=4, le=4096)
    """Most processes and threads of one session. Exact with a control group; without one, a session and its branches
    together may have some hundreds more."""
    open_files: int = Field(default=256, ge=128, le=65_536)
    """Most open file descriptors of one process."""
    file_bytes: int = Field(default=64 * MIB, ge=0)
    """Largest single file."""
    workspace_bytes: int = Field(default=128 * MIB, ge=MIB)
    """Size of the private workspace."""
    workspace_files: int = Field(default=2048, ge=16)
    """Most files and folders in the workspace."""
    output_bytes: int = Field(default=MIB, ge=1024, le=64 * MIB)
    """Most bytes kept of stdout, and again of stderr; the rest is counted and dropped."""
    pictures: int = Field(default=16, ge=0, le=1024)
    """Most pictures returned by one call; further ones are counted and dropped."""
    picture_pixels: int = Field(default=12_800_000, ge=1024)
    """Most pixels of one returned picture; a larger one is scaled down to it."""
    total_pixels: int = Field(default=64_000_000, ge=1024)
    """Most pixels of all pictures of one call together; further pictures are counted and dropped."""


class StatePolicy(StrEnum):
    """What happens to a session's state when its code raises; published systems differ."""

    ROLLBACK = "rollback"
    """The session is exactly as it was before the call (CodeDance paper; the default)."""
    KEEP = "keep"
    """What ran before the exception stays (PyVision, Thyme training). A killed call is rolled back all the same."""
    CLEAR = "clear"
    """The session starts again with nothing but its first bindings (CodeDance repository)."""


@runtime_checkable
class LazyImage(Protocol):
    """A picture that is decoded when it is first needed; the media store hands these out."""

    @property
    def sha256(self) -> str:
        """Names the picture: equal for equal pixels only; 64 hexadecimal digits."""

    @property
    def mode(self) -> str:
        """L, RGB or RGBA."""

    @property
    def width(self) -> int:
        """Pixels."""

    @property
    def height(self) -> int:
        """Pixels."""

    def decode(self) -> Image:
        """Return the pixels, as a Pillow image of the stated mode and size."""


@dataclass(frozen=True, slots=True)
class VideoFile:
    """A video file of the workspace; bound to a name, it becomes a reader of its frames (`guest.video.VideoReader`)."""

    path: str
    """Path relative to the workspace."""


Binding = object
"""A value bound to a name: a `VideoFile`, a Pillow image, a `LazyImage` or a `Picture` (each becomes a Pillow image),
a numpy uint8 array (becomes one), or a JSON value."""


def check_name(name: str) -> None:
    """Raise `SandboxError` unless `name` can be that of a variable."""
    if unicodedata.normalize("NFKC", name) != name:
        raise SandboxError(f"{name!r} is read by Python as {unicodedata.normalize('NFKC', name)!r}: use that name.")
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
        raise SandboxError(f"{name!r} is not a name for a variable: use a Python identifier such as image_clue_0.")


def check_call(code: object, wall_seconds: object) -> None:
    """Raise `SandboxError` unless `code` is text and `wall_seconds` is a number above 0, or None."""
    if not isinstance(code, str):
        raise SandboxError(f"code is text, not {type(code).__name__}")
    is_number = isinstance(wall_seconds, int | float) and not isinstance(wall_seconds, bool)
    if wall_seconds is not None and not (is_number and wall_seconds > 0):  # type: ignore[operator]
        raise SandboxError(f"wall_seconds is a number above 0, not {str(wall_seconds)[:40]!r}")


def as_json(name: str, value: object) -> str:
    """Encode a value that is to be bound as `name`. Raises `SandboxError` if JSON cannot hold it."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SandboxError(
            f"{name!r} cannot be bound: {type(value).__name__} is neither a picture nor a JSON value ({error}). "
            "Pass a Pillow image, a uint8 array, a picture of the media store, a VideoFile, or plain JSON values."
        ) from error


class SessionOptions(_Checked):
    """How a session treats the code it is given. Data of a dialect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: StatePolicy = StatePolicy.ROLLBACK
    repairs: tuple[str, ...] = ()
    """Names of repair passes, see `guest.repairs.PASSES`; all off unless named."""
    path_aliases: Mapping[str, str] = Field(default_factory=dict)
    """For the repair `path_alias`: a path (or prefix) that the model writes -> the path in the workspace."""
    preload: tuple[str, ...] = ()
    """Names that are there from the start: any of np, plt, Image, cv2, math, os, json, re, io, random, ..."""
    last_expression: bool = True
    """Whether the value of a last expression is reported, as a notebook does."""


class Session(Protocol):
    """One persistent Python interpreter in the jail. Calls are run one after the other."""

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Run one cell; never raises for what the code does. `wall_seconds` may only shorten the limit."""

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Bind further names; they are there in the next call (a dialect binds observed pictures this way)."""

    async def branch(self, n: int) -> Sequence[Session]:
        """Return `n` new sessions that start from this one's state, variables, pictures and files included."""

    async def close(self) -> None:
        """End the session; idempotent."""


class Sandbox(Protocol):
    """A provider of sessions."""

    @property
    def limits(self) -> Limits:
        """What a call may use at most."""

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> Session:
        """Return a new session with `bindings` as variables and `files` (relative path -> bytes) in its workspace."""

    async def isolation(self) -> Isolation:
        """Return the isolation layers that are on, and why others are not."""

    async def close(self) -> None:
        """End every session and every process; idempotent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


T = TypeVar("T")


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which runs to its end even if the caller is cancelled; that is raised after it."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
