"""What an action gave back: typed status, text, pictures by sha256, and how it was run.

The stored counterpart of what a sandbox or a tool returns; the pixels themselves are in the media store.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from saccade.record.base import Name, Record, Text
from saccade.record.content import ImagePart
from saccade.record.status import Status

PictureSource = Literal["figure", "show", "display", "value", "file", "tool"]


class ExecutionPicture(Record):
    """A picture that came back, and how it was shown."""

    image: ImagePart
    source: PictureSource
    path: Text | None = None
    """Path in the workspace, for a picture that was written as a file."""


class ExecutionFile(Record):
    """A file that the call created or changed."""

    path: Text
    """Path relative to the workspace."""
    size: NonNegativeInt
    """Bytes."""


class ExecutionRepair(Record):
    """A change that a named repair pass made to the model's code."""

    name: Name
    note: Text = ""


class ExecutionTimings(Record):
    """Seconds spent in the parts of a call: as seen by the host (`wall`) and by the guest (the others)."""

    wall: NonNegativeFloat = 0.0
    run: NonNegativeFloat = 0.0
    cpu: NonNegativeFloat = 0.0
    capture: NonNegativeFloat = 0.0
    """Rendering figures, reading new files, writing pixels out."""


class Execution(Record):
    """The outcome of running one action."""

    status: Status
    stdout: Text = ""
    stderr: Text = ""
    value: Text | None = None
    """`repr` of the last expression, or what a tool returned as text."""
    traceback: Text | None = None
    """Short traceback of user frames, or the reason why the call ended; None if it ended well."""
    problem: Name | None = None
    """Kind of the failure of a typed tool's call, as `saccade.tools.problem` names it."""
    pictures: tuple[ExecutionPicture, ...] = ()
    files: tuple[ExecutionFile, ...] = ()
    repairs: tuple[ExecutionRepair, ...] = ()
    notes: tuple[Text, ...] = ()
    """Sentences about what was cut or dropped, which a model may read."""
    committed: bool = False
    """Whether the session's state is the one after the call; if not, it stands where it stood before."""
    timings: ExecutionTimings = ExecutionTimings()
    layers: tuple[Text, ...] = ()
    """Names of the isolation layers that were on."""
