"""What is wrong with a row, as data: a benchmark with broken rows is still read, and nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import DataError

_SHORT = 120


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that gives no task."""

    file: str
    """Name of the file that holds it; empty for rows that come from no file."""
    row: int
    """Its number in that file, from 0."""
    field: str
    """The field of the task, or of the row, that could not be had; `row` if all of it."""
    reason: str

    def __str__(self) -> str:
        """For a person: rows count from 1, without a head and blank lines."""
        return f"{self.file or 'rows'}, row {self.row + 1}, {self.field}: {self.reason}"


class FieldError(DataError):
    """A field of a task cannot be had from a row; loaders turn it into a `RowProblem`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def short(value: object) -> str:
    """A value as a message shows it."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
