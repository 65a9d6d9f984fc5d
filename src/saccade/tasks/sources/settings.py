"""Describe a source: as text on a command line, as a `[[source]]` table in a recipe or a file of sources.

    visual-search            a generated world; `visual-search:test` its test split
    vstar, chartqa:train     a benchmark by its card; a split of it; `card.toml` your own card
    photos/, rows.jsonl      a folder or a file
    my_code.py:NAME          a card or a world in your own code
    mix.toml                 a file of `[[source]]` tables; `vista-worlds`: a bundled one
    chartqa:train=0.7        any of these with a weight

Nothing is opened here.
"""

from __future__ import annotations

import json
import logging
import math
import random
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from threading import Lock
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, FiniteFloat, PositiveFloat, PositiveInt

from saccade.core.settings import Settings
from saccade.errors import DataError, MediaError, RecordError, SettingsError
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import BoxOrder, BoxScale, Names, as_tuple

# Tasks that cannot be made are counted, listed with their reasons and skipped, so that one broken picture ends no run;
# more than a share of them do.


_log = logging.getLogger(__name__)
LEFT_OUT: Final = "left-out.jsonl"
"""File in a run's folder: a line for each task that was left out, with its id and the reason."""
MOST_BROKEN: Final = 0.2
BROKEN: Final = (DataError, RecordError, MediaError)
"""What a task raises that cannot be made of its row."""

Share = Annotated[float, Field(ge=0, le=1)]


def too_many(broken: int, total: int, most: float) -> bool:
    """Tell whether so many broken tasks of `total` are more than the share `most`; one alone never is."""
    return broken > max(1, most * total)


def refusal(broken: int, total: int, most: float, first: str) -> DataError:
    """Return the error that ends a run with too many broken tasks."""
    return DataError(
        f"{broken:,} of {total:,} tasks cannot be made, more than the share that a run leaves out (most_broken = "
        f"{most:g}). The first: {first} `saccade tasks check` lists all, `saccade tasks write` makes a source of the "
        "others; or raise most_broken."
    )


class BrokenTasks:
    """The tasks of a run that were left out. Safe to use from several threads; several processes share a file."""

    def __init__(self, total: int, most: float = MOST_BROKEN, file: Path | None = None) -> None:
        """Count among `total` tasks, of which the share `most` may be broken, and list them in `file`."""
        self._total, self._most, self._file = total, most, file
        self._reasons: dict[str, str] = {}
        self._lock = Lock()

    @property
    def reasons(self) -> dict[str, str]:
        """Return why each task was left out, by its id: those of this process, and those that the file lists."""
        listed = {}
        if self._file is not None and self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                try:
                    item = json.loads(line)
                    listed[str(item["id"])] = str(item["reason"])
                except (ValueError, KeyError, TypeError):
                    continue  # cut short by the end of a process
        return listed | self._reasons

    def made(self, name: str, make: Callable[[], Task]) -> Task | None:
        """Return what `make` gives; None if the task cannot be made.

        Raises:
            DataError: these are too many by now.
        """
        try:
            return make()
        except BROKEN as error:
            self._add(name, str(error))
            return None

    def _add(self, name: str, reason: str) -> None:
        with self._lock:
            known = self.reasons
            if name not in known:
                self._reasons[name] = reason
                _log.warning("The task %s is left out: %s", name, reason)
                if self._file is not None:
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    with self._file.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps({"id": name, "reason": reason}, ensure_ascii=False) + "\n")
            count = len(known | self._reasons)
        if too_many(count, self._total, self._most):
            raise refusal(count, self._total, self._most, f"{name}: {reason}")


_NAMED = 5


@dataclass(frozen=True, slots=True)
class FoundAgain:
    """Where the tasks of a run are now."""

    names: Mapping[str, str]
    """Id in the run -> id today."""
    gone: tuple[str, ...]
    """Tasks of the run that are not there any more, in its order."""
    foreign: tuple[str, ...]
    """Ids of today's tasks that the run was not begun with, or that say something else now."""

    def said(self) -> str:
        """Name the first of those that are gone."""
        more = f" and {len(self.gone) - _NAMED:,} more" if len(self.gone) > _NAMED else ""
        return ", ".join(self.gone[:_NAMED]) + more


def found_again(before: Sequence[tuple[str, str]], today: Iterable[tuple[str, str]]) -> FoundAgain:
    """Match tasks, each an id and what it says, that a run was begun with to those of today."""
    now = dict(today)
    names = {name: name for name, content in before if now.get(name) == content}
    others: dict[str, list[str]] = defaultdict(list)
    for name, content in reversed(now.items()):
        if name not in names and content:
            others[content].append(name)
    for name, content in before:
        if name not in names and others.get(content):
            names[name] = others[content].pop()
    taken = set(names.values())
    gone = tuple(name for name, _ in before if name not in names)
    return FoundAgain(names, gone, tuple(name for name in now if name not in taken))


_WEIGHT = re.compile(r"(?P<name>.*)=(?P<weight>[-+]?([0-9]*\.?[0-9]+(e[-+]?[0-9]+)?|nan|inf))", re.DOTALL | re.I)


class FieldNames(Settings):
    """Names of a task's fields in the rows of a file, where they are not the usual ones (`row_tasks.USUAL`)."""

    id: Names = ()
    question: Names = ()
    images: Names = ()
    videos: Names = ()
    answer: Names = ()
    choices: Names = ()
    boxes: Names = ()
    category: Names = ()
    answer_is: Literal["text", "letter", "letter-or-text", "index-0", "index-1"] = "letter-or-text"
    """How a gold answer names its choice."""
    boxes_are: BoxOrder = "xyxy"
    boxes_scale: BoxScale = 0
    """What the numbers of boxes run to along each side; 0: they are pixels."""


class SourceSettings(Settings):
    """One source of tasks and its settings."""

    name: str = Field(min_length=1)
    split: str = ""
    """Empty: the only one, the card's own, or for a world the command's."""
    weight: PositiveFloat | None = None
    """Its share is this over the sum of all weights. All sources of a list have a weight, or none has."""
    most: PositiveInt | None = None
    """Largest number of tasks, drawn by `seed`, nested for smaller numbers; of a world the first ones."""
    seed: int = 0
    tags: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Only tasks with one of these tags; `*` in a tag stands for anything."""
    without: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """No tasks with one of these tags."""
    grader: str = ""
    """Grader of its tasks, in place of the source's own."""
    open: bool | None = None
    """Whether only a model can tell that an answer is wrong; None: as in the source."""
    search: bool = False
    """Whether all its tasks are about finding something in a picture, for rewards of visual search."""
    category: str = ""
    """Becomes the tag `category=...` of all its tasks."""
    reward: dict[str, bool | int | FiniteFloat | str] = Field(default_factory=dict)
    """Reward parameters of its tasks, in place of the run's."""
    prefix: str = ""
    """Prefix of its tasks' ids, where two sources have the same ones."""
    question: str = ""
    """Asked about every picture or video of a folder without questions."""
    data: str = ""
    """Folder of a card's data; empty: from the command or `SACCADE_DATA`."""
    media: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Further folders to search for the media of a file's rows."""
    fields: FieldNames = FieldNames()
    """Unusual field names of a file's rows."""
    encoding: str = Field("", pattern=r"^[A-Za-z0-9_-]*$")
    """Of the text of a TSV or CSV, by Python's name, as in `cp1251`; empty: found out."""
    knobs: dict[str, bool | int | FiniteFloat | str | list[str]] = Field(default_factory=dict)
    """Knobs of a generated world."""

    def __str__(self) -> str:
        """Return the name with its split, without the weight."""
        return f"{self.name}:{self.split}" if self.split else self.name


def parse_source(text: str) -> SourceSettings:
    """Parse `NAME` or `NAME=WEIGHT`; a split stays part of the name, see `resolve.py`. Raises `SettingsError` if there
    is nothing before the weight, or the weight is no number above 0.
    """
    match = None if Path(text).exists() else _WEIGHT.fullmatch(text)
    name, weight = (match["name"], float(match["weight"])) if match else (text, None)
    if not name.strip() or (weight is not None and not 0 < weight < math.inf):
        raise SettingsError(f"{text!r} is no source: write NAME or NAME=WEIGHT with a weight above 0, as in maze=0.5.")
    return SourceSettings(name=name, weight=weight)


def check_weights(sources: Sequence[SourceSettings]) -> bool:
    """Tell whether the sources have weights. Raises `SettingsError` if only some do."""
    weighted = [source for source in sources if source.weight is not None]
    if weighted and len(weighted) < len(sources):
        bare = ", ".join(str(source) for source in sources if source.weight is None)
        raise SettingsError(
            f"{bare} has no weight, and other sources have one. Give every source a weight (as in maze=0.5), or none: "
            "then every task counts alike."
        )
    return bool(weighted)


# Take turns among sources with shares: at every place comes the source that is furthest behind its share.
#
# So shares hold in every stretch, and a longer sequence begins with the shorter one. Also shuffle choices by a seed.


class Turns:
    """An endless sequence of turns."""

    def __init__(self, shares: Sequence[float]) -> None:
        """Take `shares` above 0; they are normalised."""
        total = sum(shares)
        self.shares = tuple(share / total for share in shares)
        """They sum to 1."""
        self._row: list[int] = []
        self._places: tuple[list[int], ...] = tuple([] for _ in shares)

    def at(self, place: int) -> tuple[int, int]:
        """Return whose turn it is at `place` (from 0), and how many turns it had before."""
        self._fill(place + 1)
        turn = self._row[place]
        return turn, bisect_left(self._places[turn], place)

    def counts(self, length: int) -> tuple[int, ...]:
        """Count each source's turns among the first `length`."""
        self._fill(length)
        return tuple(bisect_left(places, length) for places in self._places)

    def _fill(self, length: int) -> None:
        while len(self._row) < length:
            done = len(self._row) + 1
            behind = [done * share - len(had) for share, had in zip(self.shares, self._places, strict=True)]
            turn = behind.index(max(behind))
            self._places[turn].append(len(self._row))
            self._row.append(turn)


def most_in_shares(shares: Sequence[float], sizes: Sequence[int]) -> int:
    """Return how many tasks can be taken so that shares hold and none is taken twice."""
    total = sum(shares)
    return int(min(size * total / share for share, size in zip(shares, sizes, strict=True)) + 1e-9)


_KEPT = "choices-kept"
_SEED = "choices-seed="
# Options that speak of others by place or letter would change their meaning.
_BY_PLACE = re.compile(
    r"\b(?:above|below|these|preceding|following|previous)\b|\b(?:both|neither|either|all|only)\s+\(?[A-H]\)?(?:\W|$)"
    r"|\b[A-H]\)?\s(?:and|or|&)\s\(?[A-H]\b",
    re.IGNORECASE,
)


def rotations(choices: Sequence[str]) -> int:
    """Return in how many orders choices are shown where each is to stand in each place once; 1 where order matters.

    That is so for choices that refer to others by place, and for bare letters, whose texts stand in the picture.
    """
    bare = all(choice.strip(" ().:") == letter for choice, letter in zip(choices, ascii_uppercase, strict=False))
    by_place = any(_BY_PLACE.search(choice) for choice in choices)
    return 1 if len(choices) < 2 or len(set(choices)) < len(choices) or bare or by_place else len(choices)


def rotated(task: Task, turn: int, name: str) -> Task:
    """Return the task with its choices moved on by `turn` places; `name` tells such variants from others."""
    grouped = any(tag.startswith("group=") for tag in task.tags)
    return task.model_copy(
        update={
            "id": f"{task.id}/{name}-{turn}",
            "choices": (*task.choices[turn:], *task.choices[:turn]),
            "tags": (*task.tags, *(() if grouped else (f"group={task.id}", f"variant={name}-{turn}"))),
        }
    )


def shuffled(task: Task, seed: int) -> Task:
    """Shuffle a task's choices by `seed` and its id, for sources that always list the gold option first (V*).

    A tag records the seed. Choices that refer to others by place ("all of the above", "both A and B") keep their order,
    and the tag says so. The question is not inspected.
    """
    if len(task.choices) < 2:
        return task
    if any(_BY_PLACE.search(choice) for choice in task.choices):
        return task.model_copy(update={"tags": (*task.tags, _KEPT)})
    choices = list(task.choices)
    random.Random(f"{seed}:{task.id}").shuffle(choices)
    return task.model_copy(update={"choices": tuple(choices), "tags": (*task.tags, f"{_SEED}{seed}")})
