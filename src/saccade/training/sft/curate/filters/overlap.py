"""Trajectories whose pictures or questions are in a test set that will be measured on."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import cv2
import numpy as np
from PIL import Image
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from saccade.core.settings import Settings
from saccade.errors import RecordError, SaccadeError, SettingsError
from saccade.media.decode import decode
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.curate.pipeline import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Media,
    each,
    normal_text,
    task_pictures,
)

# Test sets that training data must not touch: a file of tasks with its media, or a file of lines with pictures.


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
    where they are. Without `images`, it holds tasks (as `saccade worlds sample` writes them) next to their folder
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
        """Yield the questions with their pictures, decoded one after the other.

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


# Fingerprints that near-duplicate pictures share, and an index that finds them.
#
# A fingerprint is a difference hash of 256 bits (is a cell brighter than its left neighbour, on a 17x16 grid) and the
# mean colours of an 8x8 grid, which tell apart pictures with large plain areas. Scaling, recompression and slight
# changes of brightness leave both nearly as they were; crops, rotations and mirror images do not, and are not found.


BITS = 256
_NOISE = 2.0
"""Grey levels by which neighbours must differ, so that noise in plain areas sets no bits."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Part in which near-duplicates agree."""

    bits: int
    colours: bytes
    """RGB of 8x8 cells, row by row."""

    def near(self, other: Fingerprint, bits: int, colour: float) -> bool:
        """Tell whether at most `bits` bits differ, and the mean difference of colours is at most `colour` (of 255)."""
        if (self.bits ^ other.bits).bit_count() > bits:
            return False
        mine, theirs = (np.frombuffer(item.colours, np.uint8).astype(np.int16) for item in (self, other))
        return float(np.abs(mine - theirs).mean()) <= colour


def fingerprint(image: Image.Image) -> Fingerprint:
    """Return the fingerprint of a picture; alpha is laid on white."""
    pixels = _rgb(image)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    cells = cv2.resize(grey, (17, 16), interpolation=cv2.INTER_AREA)
    brighter = (cells[:, 1:] - cells[:, :-1]) > _NOISE
    colours = cv2.resize(pixels.astype(np.float32), (8, 8), interpolation=cv2.INTER_AREA)
    return Fingerprint(
        bits=int.from_bytes(np.packbits(brighter).tobytes(), "big"),
        colours=colours.round().astype(np.uint8).tobytes(),
    )


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of stored pictures, each picture decoded once."""

    media: Media
    _known: dict[str, Fingerprint] = field(default_factory=dict)

    def of(self, part: ImagePart) -> Fingerprint:
        """Return the fingerprint of a picture. Raises `MediaError` if it is not there, or cannot be read."""
        if part.sha256 not in self._known:
            self._known[part.sha256] = fingerprint(decode(self.media.get_bytes(part.sha256)))
        return self._known[part.sha256]


@dataclass
class NearIndex:
    """Finds fingerprints that are near: within `bits` bits some band of the bits is the same."""

    bits: int
    colour: float
    _bands: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    _known: list[tuple[Fingerprint, str]] = field(default_factory=list)

    def add(self, print_: Fingerprint, name: str) -> None:
        for key in self._keys(print_):
            self._bands[key].append(len(self._known))
        self._known.append((print_, name))

    def near(self, print_: Fingerprint) -> Iterator[str]:
        """Yield names of those that are near, in the order in which they were added."""
        numbers = {index for key in self._keys(print_) for index in self._bands.get(key, ())}
        for index in sorted(numbers):
            known, name = self._known[index]
            if known.near(print_, self.bits, self.colour):
                yield name

    def _keys(self, print_: Fingerprint) -> Iterator[tuple[int, int]]:
        # Of more bands than bits may differ, one at least does not differ at all.
        bands = self.bits + 1
        for band in range(bands):
            low, high = band * BITS // bands, (band + 1) * BITS // bands
            yield band, (print_.bits >> low) & ((1 << (high - low)) - 1)


def _rgb(image: Image.Image) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


class Contamination(FilterSettings):
    """Leaves out trajectories with a picture (or question) that is in one of the named test sets.

    Every picture counts: those of the task, and any other that the prompt shows. Videos are not compared.
    """

    ABOUT_TASKS = True

    sets: tuple[HeldOut, ...] = Field(min_length=1)
    match: Literal["pictures", "both", "either"] = "pictures"
    """A near picture; a near picture with the same question; or one of the two. Questions of some sets are the same
    for all their pictures, so that a question alone says little."""
    bits: int = Field(default=10, ge=0, lt=BITS)
    """Bits of 256 in which the hashes of near pictures may differ."""
    color: NonNegativeFloat = 8.0
    """Mean difference of colour, of 255, that near pictures may have."""

    def start(self, around: FilterContext) -> FilterStage:
        """Return the stage, which has read all test sets. Raises `SettingsError` for one that cannot be read."""
        pictures = NearIndex(self.bits, self.color)
        questions: dict[str, set[str]] = {}
        pairs: set[tuple[str, str]] = set()
        for chosen in self.sets:
            for item in chosen.items():
                words = normal_text(item.question)
                if words:
                    questions.setdefault(words, set()).add(item.name)
                pairs.add((item.name, words))
                for image in item.pictures:
                    pictures.add(fingerprint(image), item.name)

        prints = Fingerprints(around.media)

        def decide(trajectory: Trajectory) -> FilterOutcome:
            words = normal_text(trajectory.task.question)
            shown = {part.sha256: part for part in task_pictures(trajectory)}
            prompt = (part for message in trajectory.prompt for part in message.media)
            shown |= {part.sha256: part for part in prompt if isinstance(part, ImagePart)}
            near = [name for part in shown.values() for name in pictures.near(prints.of(part))]
            if self.match == "both":
                near = [name for name in near if (name, words) in pairs]
            if near:
                return Drop(f"picture of {_set(near[0])}", near[0])
            if self.match == "either" and words in questions:
                name = min(questions[words])
                return Drop(f"question of {_set(name)}", name)
            return KEEP

        return each(decide)


def _set(name: str) -> str:
    return name.partition("/")[0]


# Trajectories that show the model the same thing again: pictures that look alike, questions in the same words.


class Duplicates(FilterSettings):
    """Leaves out trajectories whose question and pictures came before; the first ones stay.

    Two tasks are alike if every picture of the one has a near one among those of the other, as many on both sides, and
    the questions have the same words. Videos are compared by their bytes.
    """

    ABOUT_TASKS = True

    match: Literal["both", "pictures", "question"] = "both"
    """Parts that must be alike; a task without pictures is compared by its question only."""
    keep: PositiveInt = 1
    """How many that are alike stay, such as several rollouts of one task."""
    bits: int = Field(default=10, ge=0, lt=BITS)
    """Bits of 256 in which the hashes of near pictures may differ."""
    color: NonNegativeFloat = 8.0
    """Mean difference of colour, of 255, that near pictures may have."""

    def start(self, around: FilterContext) -> FilterStage:
        return each(_Seen(self, around).decide)


class _Seen:
    """Content of the trajectories that came before, by which duplicates are found."""

    def __init__(self, settings: Duplicates, around: FilterContext) -> None:
        self._settings, self._prints = settings, Fingerprints(around.media)
        self._indices: dict[tuple[str, ...], NearIndex] = {}
        """One for each wording, number of pictures, and set of videos."""
        self._counts: dict[str, int] = {}
        self._alone: dict[tuple[str, ...], str] = {}
        """The first trajectory of those without pictures to compare."""

    def decide(self, trajectory: Trajectory) -> FilterOutcome:
        first = self._first_like(trajectory)
        self._counts[first] = self._counts.get(first, 0) + 1
        if self._counts[first] <= self._settings.keep:
            return KEEP
        return Drop("duplicate", f"like {first}")

    def _first_like(self, trajectory: Trajectory) -> str:
        """Return the id of the first trajectory that this one is like; its own if there is none."""
        pictures = task_pictures(trajectory)
        others = sorted(item.part.sha256 for item in trajectory.task.media if item.part.kind == "video")
        compared = 0 if self._settings.match == "question" else len(pictures)
        wording = (normal_text(trajectory.task.question), *map(normal_text, trajectory.task.choices))
        words = () if self._settings.match == "pictures" and (pictures or others) else wording
        key = (str(compared), *(others if self._settings.match != "question" else ()), *words)
        if not compared:
            return self._alone.setdefault(key, trajectory.id)
        index = self._indices.setdefault(key, NearIndex(self._settings.bits, self._settings.color))
        prints = [self._prints.of(part) for part in pictures]
        others_near = [set(index.near(print_)) for print_ in prints[1:]]
        for first in index.near(prints[0]):
            if all(first in near for near in others_near):
                return first
        for print_ in prints:
            index.add(print_, trajectory.id)
        return trajectory.id
