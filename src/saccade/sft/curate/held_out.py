"""Test sets that training data must not touch: a file of tasks with its media, or a file of lines with pictures."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from PIL import Image
from pydantic import model_validator

from saccade.errors import RecordError, SaccadeError, SettingsError
from saccade.media.decode import decode
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.settings import Settings
from saccade.record.task import Task
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks


@dataclass(frozen=True, slots=True)
class HeldOutItem:
    """One question of a test set."""

    name: str
    """`set/id`."""
    question: str
    pictures: tuple[Image.Image, ...]


class HeldOut(Settings):
    """A test set under a name.

    `source` names any source of tasks (`saccade.tasks.sources`): a benchmark, a file, a folder. Or else `file` says
    where they lie. Without `images`, it holds tasks (as `saccade worlds sample` writes them) beside their folder
    `media`. With it, it is a JSON list or JSON lines, in which each row names its pictures relative to `images`.
    """

    name: str
    source: str = ""
    file: Path | None = None
    images: Path | None = None
    question: str = "question"
    """Field of a row that holds the question; it may be missing."""
    image: str = "image"
    """Field of a row that holds the path of a picture, or a list of them."""
    id: str = "id"
    """Field of a row that names it; its number where it is missing."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.source) == (self.file is not None):
            raise ValueError(f"the test set {self.name} needs either `source` or `file`")
        return self

    def items(self) -> Iterator[HeldOutItem]:
        """The questions with their pictures, decoded one after the other.

        Raises:
            SettingsError: the file or a picture cannot be read; a test set that is not read whole protects nothing.
        """
        try:
            if self.source:
                yield from self._of_source()
            elif self.file is not None:
                yield from self._rows(self.file) if self.images is not None else self._tasks(self.file)
        except (OSError, ValueError, SaccadeError) as error:
            raise SettingsError(f"the test set {self.name} cannot be read: {error}") from error

    def _of_source(self) -> Iterator[HeldOutItem]:
        tasks = open_tasks([self.source], SourceDefaults(split="test"))
        if tasks.problems:
            raise RecordError(f"{len(tasks.problems)} of its rows give no task, the first: {tasks.problems[0]}")
        with tempfile.TemporaryDirectory(prefix="saccade-held-out-") as folder:
            for name in tasks.ids:
                store = MediaStore(Path(folder) / "media")
                yield self._item(tasks.make(name, store), store)
                shutil.rmtree(store.root, ignore_errors=True)  # a test set may be large

    def _tasks(self, file: Path) -> Iterator[HeldOutItem]:
        store = MediaStore(file.parent / "media")
        for task in read_lines(file, Task):
            yield self._item(task, store)

    def _item(self, task: Task, store: MediaStore) -> HeldOutItem:
        parts = [item.part for item in task.media if isinstance(item.part, ImagePart)]
        pictures = tuple(store.open(part).decode() for part in parts)
        return HeldOutItem(f"{self.name}/{task.id}", task.question, pictures)

    def _rows(self, file: Path) -> Iterator[HeldOutItem]:
        text = file.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, filter(str.strip, _lines(text)))
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or self.image not in row:
                raise RecordError(f"{file}, row {number + 1} has no field {self.image!r}")
            pictures = self._pictures(row, self.images or file.parent)
            yield HeldOutItem(f"{self.name}/{row.get(self.id, number)}", str(row.get(self.question, "")), pictures)

    def _pictures(self, row: dict[str, Any], folder: Path) -> tuple[Image.Image, ...]:
        named = row[self.image]
        return tuple(decode((folder / path).read_bytes()) for path in (named if isinstance(named, list) else [named]))


def _lines(text: str) -> list[str]:
    return text.split("\n")
