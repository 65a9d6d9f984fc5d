"""What people look through and rate: trajectories of runs, or tasks that nobody has played.

Kept in memory are ids and places; an item is read when it is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import MissingMediaError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import append_line, loads, read_ids, read_lines, recover_lines
from saccade.record.content import ImagePart, Message, Name, Record, Text, VideoPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.folder import TASKS


@dataclass
class ReviewItems:
    """Contents of one folder."""

    folder: Path
    of_tasks: bool
    names: tuple[str, ...]
    _starts: tuple[int, ...]
    _types: dict[str, str] = field(default_factory=dict)
    """sha256 -> MIME type, of the media of items that were shown."""

    @classmethod
    def open(cls, folder: Path) -> ReviewItems:
        """Return the items of a folder.

        Raises `SettingsError`: it holds neither trajectories nor records of tasks, or two items share an id;
        `RecordError`: a line cannot be read.
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
        """Return the item of that number, from 0. Raises `RecordError`."""
        with (self.folder / (TASKS if self.of_tasks else TRAJECTORIES)).open("rb") as file:
            file.seek(self._starts[number])
            line = file.readline()
        return loads(line, Task) if self.of_tasks else loads(line, Trajectory)

    def shown(self, number: int) -> dict[str, Any]:
        """Return the item as the page shows it: texts, and media by their sha256."""
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
        """Return the type and bytes of a picture or video of an item that was shown; None for anything else."""
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


# What a person decided about the items of a folder: `review.jsonl`, a line for each decision; the last counts.


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
        """Return the decision about an item; None if it is still open."""
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
    """Return the decisions about a folder that was reviewed. Raises `SettingsError` if nobody has begun to."""
    if not (folder / REVIEW).is_file():
        raise SettingsError(f"{folder} was not reviewed: it has no {REVIEW}. Begin with: saccade review {folder}")
    return DecisionLog(folder)


def now() -> datetime:
    """Return the time of a decision."""
    return datetime.now(UTC)


RATINGS: Final = "ratings.jsonl"


class Rating(Record):
    """What one person gave one trajectory; of two the later one counts."""

    id: Name
    """Of the trajectory."""
    task: Name
    source: Text
    rater: Name
    rating: Annotated[int, Field(ge=1, le=5)]
    note: Text = ""
    rated: AwareDatetime


class RatingLog:
    """The ratings in a run, in memory and on the disk."""

    def __init__(self, folder: Path) -> None:
        """Reads what is there; a last line that was cut short is cut off. Raises `RecordError` for a broken line."""
        self._file = folder / RATINGS
        self._last: dict[tuple[str, str], Rating] = {}
        if self._file.exists():
            recover_lines(self._file)
            self._last = {(one.rater, one.id): one for one in read_lines(self._file, Rating)}

    def of(self, rater: str, trajectory: str) -> Rating | None:
        """Return what a rater gave; None if nothing yet."""
        return self._last.get((rater, trajectory))

    def add(self, rating: Rating) -> None:
        """Keep a rating; it is on the disk when this returns. Raises `OSError` if the disk refuses."""
        append_line(self._file, rating)
        self._last[rating.rater, rating.id] = rating

    def all(self) -> tuple[Rating, ...]:
        return tuple(self._last.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """A trajectory on a sheet."""

    run: int
    """Which of the runs."""
    number: int
    """Which of its items."""
    id: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """One task, and the trajectory of each run in the order in which this rater sees them."""

    task: str
    source: str
    entries: tuple[Entry, ...]


def sheets(runs: Sequence[ReviewItems], rater: str, count: int, seed: int) -> list[Sheet]:
    """Return the sheets of a rater: `count` tasks of each source that every run has played, drawn by `seed`.

    Everyone with the same seed rates the same tasks; their order, and that on a sheet, are the rater's own. Of several
    rollouts of a task the first is rated. Raises `SettingsError`: a folder is no run, or the runs share no task;
    `RecordError`: a line cannot be read.
    """
    played: list[dict[str, tuple[str, Entry]]] = []
    for run, items in enumerate(runs):
        tasks: dict[str, tuple[int, str, Entry]] = {}
        for number, name in enumerate(items.names):
            item = items.read(number)
            if not isinstance(item, Trajectory):
                raise SettingsError(f"{items.folder} holds tasks that nobody has played: name runs to rate.")
            if item.task.id not in tasks or item.rollout < tasks[item.task.id][0]:
                tasks[item.task.id] = (item.rollout, item.task.source, Entry(run, number, name))
        played.append({task: (source, entry) for task, (_, source, entry) in tasks.items()})
    by_source: dict[str, list[str]] = defaultdict(list)
    for task in sorted(set.intersection(*map(set, played))):
        by_source[played[0][task][0]].append(task)
    if not by_source:
        raise SettingsError("the runs share no task, so no pair can be rated. Name runs over the same tasks.")
    drawn = [(source, task) for source, tasks in sorted(by_source.items())
             for task in Random(f"{seed} {source}").sample(tasks, min(count, len(tasks)))]  # fmt: skip
    own = Random(f"{seed} {rater}")
    own.shuffle(drawn)
    made = []
    for source, task in drawn:
        entries = [tasks[task][1] for tasks in played]
        own.shuffle(entries)
        made.append(Sheet(task, source, tuple(entries)))
    return made
