"""Formats in which one trajectory is one row: the codec says how, and this reads and writes the files.

A row is written only if reading it would give back what the format promises to hold; otherwise it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from saccade.errors import RecordError, SaccadeError
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import Trajectory
from saccade.training.sft.curate.stage import Media
from saccade.training.sft.formats import conversation
from saccade.training.sft.formats.base import ConversionOptions, Refused, TrajectorySource
from saccade.training.sft.formats.conversation import ConversationFacts
from saccade.training.sft.formats.files import MediaIn, MediaOut, Row, find_rows, read_rows, write_jsonl

Parts = tuple[ImagePart | VideoPart, ...]


class Codec(Protocol):
    """How one trajectory is kept in one row."""

    @property
    def dialect(self) -> str:
        """The dialect of rows that name none; empty if the format has none of its own."""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the part of a row that holds the fields of `labels`."""

    def held(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory as the format holds it. Raises `RecordError` if it cannot hold it at all."""

    def media(self, trajectory: Trajectory) -> Parts:
        """Return the media of the row, in their order there."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """Return the row of a trajectory that is `held`. Raises `RecordError` if it has none."""

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """Return the media that a row names. Raises `RecordError` or `MediaError`."""

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """Return the trajectory of a row. Raises `RecordError`."""


@dataclass(frozen=True, slots=True)
class ConversationCodec:
    """Base of codecs whose rows hold a whole conversation and name its media in order."""

    dialect: str = ""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take labels from the row itself."""
        return row

    def held(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory as conversations hold it."""
        return conversation.held(trajectory)

    def media(self, trajectory: Trajectory) -> Parts:
        """Return those of the conversation."""
        return conversation.flatten(trajectory).media


def _no_files(folder: Path) -> None:
    """Write no file next to the rows."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format of one row for each trajectory."""

    codec: Codec
    file: str = "data.jsonl"
    save: Callable[[Path, Iterable[Row]], None] = write_jsonl
    beside: Callable[[Path], None] = _no_files
    """Writes further files into the folder."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        file = find_rows(path)
        media = MediaIn(options.images or file.parent, store)
        return TrajectorySource(self._read(file, options, media), store)

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        refused: list[Refused] = []
        out = MediaOut(media, folder, options.root)
        self.save(folder / self.file, self._rows(trajectories, out, refused))
        self.beside(folder)
        return refused

    def _read(self, file: Path, options: ConversionOptions, media: MediaIn) -> Iterator[Trajectory | Refused]:
        ids: set[str] = set()
        for number, row in enumerate(read_rows(file)):
            if isinstance(row, str):
                yield Refused(row=number, reason=row)
                continue
            own = self.codec.labels(row)
            name = clean_text(str(own.get("id") or "")) or f"{file.stem}-{number}"
            name = f"{name}-{number}" if name in ids else name
            ids.add(name)
            try:
                about = _about(own, name, options.dialect or _text(own, "dialect") or self.codec.dialect)
                yield self.codec.decode(row, self.codec.read_media(row, media), about)
            except (SaccadeError, OSError, ValueError, KeyError, TypeError) as error:
                yield Refused(row=number, id=name, reason=clean_text(str(error)) or type(error).__name__)

    def _rows(self, trajectories: Iterable[Trajectory], out: MediaOut, refused: list[Refused]) -> Iterator[Row]:
        for number, trajectory in enumerate(trajectories):
            try:
                yield self._row(trajectory, out)
            except RecordError as error:
                refused.append(Refused(row=number, id=trajectory.id, reason=str(error)))

    def _row(self, trajectory: Trajectory, out: MediaOut) -> Row:
        held = self.codec.held(trajectory)
        row = self.codec.encode(held, out)
        about = _about(self.codec.labels(row), held.id, held.provenance.dialect)
        again = self.codec.decode(row, self.codec.media(held), about)
        if again != held:
            raise RecordError(f"reading the row would not give it back: {difference(held, again)}")
        return row


def labels(trajectory: Trajectory) -> Row:
    """Return the fields of a row that say what the trajectory is; trainers leave them aside."""
    task = trajectory.task
    return {
        "id": trajectory.id,
        "dialect": trajectory.provenance.dialect,
        "task": task.id,
        "question": task.question,
        "answer": task.answer,
        "source_dataset": task.source,
    }


def _about(row: Mapping[str, Any], name: str, dialect: str) -> ConversationFacts:
    """Read the fields of `labels`; rows of other projects may lack all of them."""
    question, answer = row.get("question"), row.get("answer")
    return ConversationFacts(
        id=name,
        dialect=dialect,
        task=_text(row, "task"),
        question=clean_text(question) if isinstance(question, str) else None,
        answer=None if answer is None else clean_text(str(answer)),
        source=_text(row, "source_dataset"),
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def difference(one: Trajectory, other: Trajectory) -> str:
    """Describe the first difference of two trajectories."""
    for name in ("prompt", "turns", "task", "stop"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine == theirs:
            continue
        if name == "turns" and len(mine) == len(theirs):
            at = next(number for number in range(len(mine)) if mine[number] != theirs[number])
            return f"turn {at} would be {theirs[at].action.kind} for {mine[at].action.kind}, or its text another"
        return f"its {name} would differ"
    return "it would differ"
