"""The items of a folder that a person looks through: trajectories of a run, or tasks that nobody has played.

Kept in memory are ids and places; an item is read when it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import MissingMediaError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import loads, read_ids
from saccade.record.content import ImagePart, Message, VideoPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.folder import TASKS


@dataclass
class ReviewItems:
    """What lies in one folder."""

    folder: Path
    of_tasks: bool
    names: tuple[str, ...]
    _starts: tuple[int, ...]
    _types: dict[str, str] = field(default_factory=dict)
    """sha256 -> MIME type, of the media of items that were shown."""

    @classmethod
    def open(cls, folder: Path) -> ReviewItems:
        """The items of a folder.

        Raises:
            SettingsError: it holds neither trajectories nor records of tasks, or two items share an id.
            RecordError: a line cannot be read.
        """
        tasks = (folder / TASKS).is_file()
        file = folder / (TASKS if tasks else TRAJECTORIES)
        if not file.is_file():
            raise SettingsError(
                f"{folder} holds nothing to review: no {TRAJECTORIES} and no {TASKS}. Name a run, or write tasks of "
                f"any source into a folder first: saccade tasks write SOURCE --out {folder}"
            )
        names = tuple(read_ids(file, Task if tasks else Trajectory))
        if len(set(names)) < len(names):
            raise SettingsError(f"{file} has two items of one id, so a decision would not say which. Mend it.")
        return cls(folder, tasks, names, tuple(_starts(file)))

    def read(self, number: int) -> Trajectory | Task:
        """The item of that number, from 0. Raises `RecordError`."""
        with (self.folder / (TASKS if self.of_tasks else TRAJECTORIES)).open("rb") as file:
            file.seek(self._starts[number])
            line = file.readline()
        return loads(line, Task) if self.of_tasks else loads(line, Trajectory)

    def shown(self, number: int) -> dict[str, Any]:
        """The item as the page shows it: texts, and media by their sha256."""
        item = self.read(number)
        task = item if isinstance(item, Task) else item.task
        view: dict[str, Any] = {
            "id": item.id,
            "question": task.question,
            "choices": list(task.choices),
            "answer": task.answer,
            "source": task.source,
            "tags": list(task.tags),
            "media": [{"name": one.name, **self._media(one.part)} for one in task.media],
            "evidence": [{"image": box.image, "xyxy": list(box.xyxy), "label": box.label} for box in task.evidence],
            "turns": [],
        }
        if isinstance(item, Trajectory):
            view |= {
                "final": item.answer,
                "stop": str(item.stop or ""),
                "scores": [[score.name, score.value] for score in item.scores],
                "turns": [
                    {"text": turn.text, "calls": [f"{call.name} {call.arguments}" for call in turn.calls]}
                    | self._observed(turn.observation)
                    for turn in item.turns
                ],
            }
        return view

    def media(self, sha256: str) -> tuple[str, bytes] | None:
        """Type and bytes of a picture or video of an item that was shown; None for anything else."""
        kind = self._types.get(sha256)
        try:
            return None if kind is None else (kind, MediaStore(self.folder / MEDIA).get_bytes(sha256))
        except MissingMediaError:
            return None

    def _media(self, part: ImagePart | VideoPart) -> dict[str, Any]:
        self._types[part.sha256] = part.mime
        return {"kind": part.kind, "sha256": part.sha256, "width": part.width, "height": part.height}

    def _observed(self, message: Message | None) -> dict[str, Any]:
        if message is None:
            return {"back": "", "pictures": []}
        return {"back": message.text, "pictures": [self._media(part) for part in message.media]}


def _starts(file: Path) -> Iterator[int]:
    start = 0
    with file.open("rb") as lines:
        for line in lines:
            yield start
            start += len(line)
