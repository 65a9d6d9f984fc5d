"""What a person decided about the items of a folder: `review.jsonl`, a line for each decision; the last counts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import AwareDatetime, model_validator

from saccade.errors import SettingsError
from saccade.record.base import Name, Record, Text
from saccade.record.codec import append_line, read_lines, recover_lines

REVIEW: Final = "review.jsonl"


class ReviewDecision(Record):
    """One decision about one item."""

    id: Name
    """Of the trajectory or task."""
    verdict: Literal["keep", "drop", "open"]
    """`open` takes earlier decisions back."""
    answer: Text | None = None
    """The gold answer as corrected; None: as it was."""
    question: Text | None = None
    """The question as corrected, of a task that nobody has played; None: as it was."""
    note: Text = ""
    decided: AwareDatetime

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.verdict != "keep" and (self.answer is not None or self.question is not None):
            raise ValueError("only what is kept is corrected")
        return self


class DecisionLog:
    """The decisions of a folder, in memory and on the disk."""

    def __init__(self, folder: Path) -> None:
        """Reads what is there; a last line that was cut short is cut off. Raises `RecordError` for a broken line."""
        self._file = folder / REVIEW
        self._last: dict[str, ReviewDecision] = {}
        if self._file.exists():
            recover_lines(self._file)
            for decision in read_lines(self._file, ReviewDecision):
                self._keep(decision)

    def __len__(self) -> int:
        return len(self._last)

    def of(self, name: str) -> ReviewDecision | None:
        """The decision about an item; None if it is still open."""
        return self._last.get(name)

    def add(self, decision: ReviewDecision) -> None:
        """Keep a decision; it is on the disk when this returns. Raises `OSError` if the disk refuses."""
        append_line(self._file, decision)
        self._keep(decision)

    def _keep(self, decision: ReviewDecision) -> None:
        self._last.pop(decision.id, None)
        if decision.verdict != "open":
            self._last[decision.id] = decision


def decisions_in(folder: Path) -> DecisionLog:
    """The decisions about a folder that was reviewed. Raises `SettingsError` if nobody has begun to."""
    if not (folder / REVIEW).is_file():
        raise SettingsError(f"{folder} was not reviewed: it has no {REVIEW}. Begin with: saccade review {folder}")
    return DecisionLog(folder)


def now() -> datetime:
    """The time of a decision."""
    return datetime.now(UTC)
