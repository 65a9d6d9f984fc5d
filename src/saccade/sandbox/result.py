"""The result of one call: text, pictures and a typed status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from saccade.record.execution import Status

if TYPE_CHECKING:
    from PIL.Image import Image

PictureMode = Literal["L", "RGB", "RGBA"]
PictureSource = Literal["figure", "show", "display", "value", "file"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that the guest showed, as raw pixels.

    `data` holds `width * height * len(mode)` bytes, rows from top to bottom. `source` tells how it was shown: a
    matplotlib figure, `Image.show` (or `cv2.imshow`), `display(...)`, the last expression, or an image file newly
    written to the workspace, whose path relative to the workspace is then `path`.
    """

    source: PictureSource
    mode: PictureMode
    width: int
    height: int
    data: bytes = field(repr=False)
    path: str | None = None

    def image(self) -> Image:
        """Return the picture as a Pillow image (a copy of the pixels)."""
        from PIL import Image

        return Image.frombytes(self.mode, (self.width, self.height), self.data)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the call created or changed in the workspace."""

    path: str
    """Path relative to the workspace."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that a named repair pass made to the model's code."""

    name: str
    note: str


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent in the parts of a call, as seen by the host (`wall`) and by the guest (the others)."""

    wall: float = 0.0
    run: float = 0.0
    """Running the code."""
    cpu: float = 0.0
    """CPU time of the code."""
    capture: float = 0.0
    """Rendering figures, reading new files, writing pixels out."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """All that one call gave back.

    `committed` says whether the state after the call is the session's state now; if it is False the session stands
    exactly where it stood before. `notes` are sentences about what was cut or dropped, which a model may read.
    `layers` names the isolation layers that were on.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """`repr` of the last expression, or None; `data` is the value itself."""
    traceback: str | None = None
    """Short traceback of user frames, or the reason why the call ended; None if it ended well."""
    pictures: tuple[Picture, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    repairs: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()
    committed: bool = False
    timings: Timings = Timings()
    layers: tuple[str, ...] = ()
    plain: Any = field(default=None, compare=False)
    """What `data` gives, but for pictures."""

    @property
    def data(self) -> Any:
        """The value of the last expression itself, a copy; None where it is no plain data, or too much.

        Plain are None, numbers, texts, lists, tuples (as lists) and dicts of texts to such, as in JSON, up to some
        60,000 characters; numpy arrays of numbers up to 4 MiB; and pictures, as Pillow images.
        """
        shown = next((picture for picture in self.pictures if picture.source == "value"), None)
        return self.plain if shown is None else shown.image()

    @property
    def text(self) -> str:
        """Everything printed: stdout, then stderr."""
        return self.stdout + self.stderr

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end and its state was kept."""
        return self.status is Status.OK
