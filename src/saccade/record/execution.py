"""Record the result of an action: typed status, text, pictures by sha256, and how it was run.

The stored counterpart of what a sandbox or a tool returns; the pixels themselves are in the media store.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from saccade.record.content import ImagePart, Name, Record, Text

# How an execution ended: a type, never a substring of some text.


class Status(StrEnum):
    """How one call of a sandbox or a tool ended.

    `lost` is an outage of ours: it is never shown to a model as its mistake and never enters a loss.
    Every other status is the doing of the program that was run.
    """

    OK = "ok"
    """The code ran to its end; its state is kept."""
    ERROR = "error"
    """The code raised an exception (or does not compile)."""
    TIMEOUT = "timeout"
    """The code ran longer than the wall or CPU limit and was killed."""
    KILLED = "killed"
    """The process of the call died: a signal, `os._exit`, a segmentation fault."""
    OUT_OF_MEMORY = "out_of_memory"
    """The code asked for more memory than the limit."""
    REFUSED = "refused"
    """The code ended, but left something that may not stay (a running thread or process), or broke the rules."""
    LOST = "lost"
    """Our own processes, host or network failed. Not the program's fault."""


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
    """Kind of the failure of a typed tool's call, as `saccade.tools.context` names it."""
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


# A call of a provider's own sandbox: code that ran there while the model wrote its turn, and what came of it.
#
# The provider decides what is told: some name the exit status, others print the error among the output only.


class HostedCall(Record):
    """One call, in the order in which the calls were made."""

    tool: Name
    """As the provider names it, e.g. `code_interpreter` or `bash_code_execution`."""
    language: Text = "python"
    """Of `code`: `python`, `bash`, or `json` for the arguments of a tool that takes no code."""
    code: Text = ""
    at: NonNegativeInt = 0
    """Characters of the turn's text that were written before the call."""
    call_id: Text | None = None
    """The provider's identifier."""
    container: Text = ""
    """The provider's name of the sandbox, where it tells one."""
    execution: Execution
    """Pictures are those that the protocol gives back. Its status is `lost` where the provider's sandbox was out of
    order, or never answered."""
