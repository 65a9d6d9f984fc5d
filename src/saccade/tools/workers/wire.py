"""Send messages between this process and a worker: pickled frames over a socket pair, both ends of one user.

A call travels with its context; pictures of a media store travel as the names of their files and are decoded in the
worker. What comes back are the results, with the pixels of new pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from saccade.tools.base import ToolCallInput
from saccade.tools.context import ToolResult
from saccade.tools.registry import ToolSource


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Calls of one tool, to be done together; without any, the tool is loaded."""

    source: ToolSource
    calls: tuple[ToolCallInput, ...]


class WorkerState(StrEnum):
    """How far a worker is."""

    READY = "ready"
    """It has started and waits for jobs."""
    LOADED = "loaded"
    """The tool of the job is there with its weights; the call begins."""


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """The job could not be done, for no fault of the calls."""

    detail: str


WorkerReply = WorkerState | WorkerFault | list[ToolResult]
