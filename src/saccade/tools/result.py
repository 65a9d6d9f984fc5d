"""What a call of a tool gave back, in one frozen object; nothing in it is a mock of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image
from pydantic import JsonValue

from saccade.record.status import Status
from saccade.tools.problem import Problem


@dataclass(frozen=True, slots=True)
class ToolPicture:
    """A picture that a tool made, under a name that was free in the context."""

    name: str
    image: Image.Image


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Status, value, pictures and text of one call."""

    tool: str
    """The tool's own name, or the name that was asked for if there is no such tool."""
    status: Status
    """`OK`; `ERROR` with the model's mistake or the tool's failure; `REFUSED` if the tool is unavailable here;
    `OUT_OF_MEMORY`; `LOST` if a picture of the task cannot be decoded."""
    value: Mapping[str, JsonValue] | None = None
    """JSON that follows the tool's result schema; None unless the status is `OK`."""
    pictures: tuple[ToolPicture, ...] = ()
    text: str = ""
    """What the model reads: a summary of the result, or what went wrong and what to do. Empty if `LOST`."""
    problem: Problem | None = None
    """None if and only if the status is `OK`."""

    @property
    def ok(self) -> bool:
        """True if the tool did what it was asked to."""
        return self.status is Status.OK

    def images(self) -> dict[str, Image.Image]:
        """The pictures by name, as `ToolContext.extended` takes them."""
        return {picture.name: picture.image for picture in self.pictures}


def failed(tool: str, status: Status, problem: Problem) -> ToolResult:
    """A call that gave nothing. An outage of ours (`LOST`) has no text for the model."""
    return ToolResult(tool, status, text="" if status is Status.LOST else problem.message, problem=problem)
