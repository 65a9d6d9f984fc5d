"""What went wrong in a call of a tool, as a type, with one text for the model and one for the person.

Kinds feed the error taxonomy of VISTA (E1 schema, E2 argument name, E3 argument format, E5 tool output). Whether an
argument had the right content (E4) and whether the model reasoned well (E6) cannot be seen from one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """What kind of thing went wrong."""

    SCHEMA = "schema"
    """The call does not have the shape of a call: no such tool, no object of arguments, a missing argument."""
    ARGUMENT_NAME = "argument_name"
    """An argument that the tool does not have."""
    ARGUMENT_FORMAT = "argument_format"
    """A value of the wrong type, range, length or order; a box outside its picture."""
    UNKNOWN_IMAGE = "unknown_image"
    """An image or a video that the episode does not have."""
    TOOL_FAILURE = "tool_failure"
    """The tool itself failed, or gave a result that breaks its own schema."""
    UNAVAILABLE = "unavailable"
    """The tool needs something that is not installed here."""

    @property
    def vista(self) -> str | None:
        """The class of VISTA's taxonomy: `E1`, `E2`, `E3` or `E5`; None for an unavailable tool."""
        return _VISTA[self]


_VISTA: dict[ProblemKind, str | None] = {
    ProblemKind.SCHEMA: "E1",
    ProblemKind.ARGUMENT_NAME: "E2",
    ProblemKind.ARGUMENT_FORMAT: "E3",
    ProblemKind.UNKNOWN_IMAGE: "E3",
    ProblemKind.TOOL_FAILURE: "E5",
    ProblemKind.UNAVAILABLE: None,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call gave nothing."""

    kind: ProblemKind
    message: str
    """For the model: what happened, why, what to do."""
    detail: str = ""
    """For the person who runs the episode; never shown to the model. Empty where `message` says it all."""


class CallProblem(Exception):  # noqa: N818 - it is caught inside this package and leaves it as a `Problem`
    """Raised by `Tool.run` and its helpers for what the model wrote; `Tool.call` turns it into a result."""

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(kind, message)


def wrong_format(message: str) -> CallProblem:
    """A value of the wrong range, order or size, to be raised."""
    return CallProblem(ProblemKind.ARGUMENT_FORMAT, message)
