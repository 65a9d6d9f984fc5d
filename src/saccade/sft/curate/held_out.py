"""Test sets that training data must not touch: a file of tasks with its media, or a file of lines with pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.errors import RecordError, SaccadeError, SettingsError
from saccade.media.decode import decode
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.settings import Settings
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class HeldOutItem:
    """One question of a test set."""

    name: str
    """`set/id`."""
    question: str
    pictures: tuple[Image.Image, ...]


class HeldOut(Settings):
    """A test set under a name.

    Without `images`, `file` holds tasks (as `saccade worlds sample` writes them) beside their folder `media`. With it,
    `file` is a JSON list or JSON lines, in which each row names its pictures relative to `images`.
    """

    name: str
    file: Path
    images: Path | None = None
    question: str = "question"
    """Field of a row that holds the question; it may be missing."""
    image: str = "image"
    """Field of a row that holds the path of a picture, or a list of them."""
    id: str = "id"
    """Field of a row that names it; its number where it is missing."""

    def items(self) -> Iterator[HeldOutItem]:
        """The questions with their pictures, decoded one after the other.

        Raises:
            SettingsError: the file or a picture cannot be read; a test set that is not read whole protects nothing.
        """
        try:
            yield from self._rows() if self.images is not None else self._tasks()
        except (OSError, ValueError, SaccadeError) as error:
            raise SettingsError(f"the test set {self.name} cannot be read: {error}") from error

    def _tasks(self) -> Iterator[HeldOutItem]:
        store = MediaStore(self.file.parent / "media")
        for task in read_lines(self.file, Task):
            parts = [item.part for item in task.media if isinstance(item.part, ImagePart)]
            pictures = tuple(store.open(part).decode() for part in parts)
            yield HeldOutItem(f"{self.name}/{task.id}", task.question, pictures)

    def _rows(self) -> Iterator[HeldOutItem]:
        text = self.file.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, filter(str.strip, _lines(text)))
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or self.image not in row:
                raise RecordError(f"{self.file}, row {number + 1} has no field {self.image!r}")
            yield HeldOutItem(
                f"{self.name}/{row.get(self.id, number)}", str(row.get(self.question, "")), self._pictures(row)
            )

    def _pictures(self, row: dict[str, Any]) -> tuple[Image.Image, ...]:
        named = row[self.image]
        folder = self.images or self.file.parent
        return tuple(decode((folder / path).read_bytes()) for path in (named if isinstance(named, list) else [named]))


def _lines(text: str) -> list[str]:
    return text.split("\n")
