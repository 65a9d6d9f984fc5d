"""What dialects read from an execution: the pictures they show, and why a call failed.

A lost execution is an outage of ours; no dialect may show it, and `reject_lost` holds that line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from saccade.record.content import ImagePart
from saccade.record.execution import Execution
from saccade.record.status import Status

_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.DOTALL)
_TIMEOUT = "TimeoutError"


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Why a call did not end well."""

    kind: str
    """Class of the exception, e.g. `ValueError`; for a call that was ended from outside, the name of such a class."""
    message: str
    """What the exception says, as `str` gives it; the class where it says nothing. Never empty."""


def reject_lost(execution: Execution) -> None:
    """Raise ValueError for a lost execution."""
    if execution.status is Status.LOST:
        raise ValueError("a lost execution is an outage of ours and is never shown to a model: end the episode instead")


def shown(execution: Execution, sources: Collection[str]) -> tuple[ImagePart, ...]:
    """The pictures that came from one of `sources`, in the order in which they were shown."""
    return tuple(picture.image for picture in execution.pictures if picture.source in sources)


def with_notes(text: str, execution: Execution) -> str:
    """`text` and, on lines of their own, what the sandbox says was cut or dropped."""
    if not execution.notes:
        return text
    return "\n".join([*([text.removesuffix("\n")] if text else []), *execution.notes]) + "\n"


def failure(execution: Execution) -> CallFailure:
    """The failure of an execution whose status is not ok."""
    reason = (execution.traceback or "").strip("\n")
    if execution.status is not Status.ERROR:
        kind = {Status.TIMEOUT: _TIMEOUT, Status.OUT_OF_MEMORY: "MemoryError"}.get(execution.status, "RuntimeError")
        return CallFailure(kind, reason or f"the call ended as {execution.status.value}")
    match = _EXCEPTION.fullmatch(_last_exception(reason))
    if match is None:
        return CallFailure("Exception", reason or "the code failed")
    return CallFailure(match["name"].rpartition(".")[2], match["message"] or match["name"])


def _last_exception(traceback: str) -> str:
    """The text of the last exception of a traceback: its first line after the last frame, and all that follows."""
    lines = traceback.split("\n")
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    start = frames[-1] + 1 if frames else 0
    while start < len(lines) and (lines[start].startswith((" ", "Traceback ")) or not lines[start]):
        start += 1
    return "\n".join(lines[start:])
