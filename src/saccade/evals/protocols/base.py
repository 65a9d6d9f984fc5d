"""What a protocol is: a row from each sample, and findings from all rows. Both are pure; rows are small.

So a run is read once, one trajectory at a time, for all protocols together.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat, NonNegativeInt

from saccade.core.disk import write_atomic
from saccade.core.registry import Registry, is_a
from saccade.episode.regions import PictureReader, Region, regions
from saccade.errors import RecordError, RegistryError
from saccade.evals.intervals import DRAWS, Interval, of_mean, wilson
from saccade.record.codec import dumps, loads
from saccade.record.content import SCHEMA_VERSION, Name, Record, SchemaVersion, Text
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.rewards.reward import JudgeVerdict

# What all findings have in common: whose run it was, rates with their intervals, a row for each sample.
#
# Intervals are 95%, by bootstrap over tasks: samples of one task are never taken for several; see `Rates`. A rate
# without a denominator has no value; it is never a zero.


class Rate(Record):
    """`count` of `of` samples, calls or pictures."""

    count: NonNegativeInt
    of: NonNegativeInt
    low: FiniteFloat | None = None
    """Of the interval, 0 to 1; None where none was asked for or `of` is 0."""
    high: FiniteFloat | None = None

    @property
    def value(self) -> float | None:
        """The share, 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None


class Mean(Record):
    """A mean over samples that have the number."""

    value: FiniteFloat
    samples: NonNegativeInt
    low: FiniteFloat
    high: FiniteFloat


class StudiedRun(Record):
    """The run that was looked at."""

    run: Text
    """Name of its folder."""
    models: tuple[Text, ...] = ()
    dialects: tuple[Text, ...] = ()
    samples: NonNegativeInt = 0
    """Looked at."""
    lost: NonNegativeInt = 0
    """Ended by an outage of ours, or not ended; left out of everything."""
    judge: Text = ""
    """Name of the model that judged pictures; empty if none was asked."""
    budget: Name = "qwen2.5-vl"
    """Name of the pixel budget by which visual tokens were estimated."""
    frames: Text = ""
    """How frames of videos were sampled before the episodes, e.g. `1 fps`; empty if they were not."""


class SampleRow(Record):
    """What every row says of its sample."""

    id: Name
    task: Name
    rollout: NonNegativeInt
    source: Text
    correct: FiniteFloat | None
    """Credit from 0 to 1; None if the sample was not graded."""

    @property
    def right(self) -> bool:
        """Full credit."""
        return self.correct == 1

    @property
    def wrong(self) -> bool:
        """Graded, and not full credit."""
        return self.correct is not None and self.correct < 1


class Findings(Record):
    """What a protocol found in a run."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    about: StudiedRun


class SampleExamples(Record):
    """A few samples of one kind, to be looked at."""

    kind: Name
    ids: tuple[Name, ...] = Field(max_length=10)
    """The first ones in the order of the tasks."""


MOST_EXAMPLES: Final = 10


def examples(named: Iterable[tuple[str, str]]) -> tuple[SampleExamples, ...]:
    """Return kinds and ids of samples as examples, by kind."""
    by_kind: dict[str, list[str]] = {}
    for kind, name in named:
        ids = by_kind.setdefault(kind, [])
        if len(ids) < MOST_EXAMPLES:
            ids.append(name)
    return tuple(SampleExamples(kind=kind, ids=tuple(by_kind[kind])) for kind in sorted(by_kind))


# Rates and means with intervals: the bootstrap over tasks, drawn once for all numbers of a run.
#
# Of each draw the ratio of two sums is taken, so a rate over a part of the samples (the right ones, say) has the
# interval of that ratio. A share of tasks that each have one trial has Wilson's interval. So has any other share for
# which all draws are the same (0 or 100 %, above all), as of one trial for each task: a bootstrap without a spread says
# nothing. The same input gives the same numbers.

Column: TypeAlias = Sequence[tuple[float, float]]
"""For each sample a number and its weight; (0, 0) for a sample that is not among those it is about."""

_AT_ONCE: Final = 2_000_000
"""Numbers held at a time."""
_ROUNDING: Final = 1e-12


class Rates:
    """Rates and means over the samples of one run."""

    def __init__(self, rows: Sequence[SampleRow], *, seed: int = 0) -> None:
        tasks = {task: number for number, task in enumerate(dict.fromkeys(row.task for row in rows))}
        self._places = np.array([tasks[row.task] for row in rows], dtype=np.int64)
        self._tasks = len(tasks)
        self._seed = seed

    def rate(self, hits: Iterable[bool | None]) -> Rate:
        """Return the share of True among those that are not None."""
        return self.rates([hits])[0]

    def mean(self, values: Iterable[float | None]) -> Mean | None:
        """Return the mean of those that are not None; None if all are."""
        return self.means([values])[0]

    def rates(self, columns: Iterable[Iterable[bool | None]]) -> list[Rate]:
        """Return `rate` of several at once, which is much quicker."""
        return self.shares([[(0, 0) if hit is None else (int(hit), 1) for hit in column] for column in columns])

    def shares(self, columns: Iterable[Iterable[tuple[int, int]]]) -> list[Rate]:
        """Compute rates of things of which a sample has several, such as calls: for each how many, and of how many."""
        listed = [list(column) for column in columns]
        return [
            Rate(count=round(total), of=round(weight), low=low, high=high)
            for (total, weight), (low, high) in zip(map(_sums, listed), self._intervals(listed, True), strict=True)
        ]

    def credits(self, columns: Iterable[Iterable[float | None]]) -> list[Mean | None]:
        """Means of credit, from 0 to 1: as avg@k over tasks, with the interval that a summary gives the same number."""
        return [self._credit(column) for column in columns]

    def _credit(self, column: Iterable[float | None]) -> Mean | None:
        of_task: dict[int, list[float]] = defaultdict(list)
        for place, value in zip(self._places, column, strict=True):
            if value is not None:
                of_task[int(place)].append(value)
        if not of_task:
            return None
        values = [fmean(credits) for credits in of_task.values()]
        low, high = of_mean(values).interval
        return Mean(value=fmean(values), samples=sum(map(len, of_task.values())), low=low, high=high)

    def means(self, columns: Iterable[Iterable[float | None]]) -> list[Mean | None]:
        """Means of amounts; their intervals have no width where all amounts are equal."""
        listed = [[(0.0, 0.0) if value is None else (value, 1.0) for value in column] for column in columns]
        return [
            None if low is None or high is None else Mean(value=total / count, samples=round(count), low=low, high=high)
            for (total, count), (low, high) in zip(map(_sums, listed), self._intervals(listed, False), strict=True)
        ]

    def _intervals(self, columns: Sequence[Column], shares: bool) -> list[Interval | tuple[None, None]]:
        if not columns or not self._tasks:
            return [(None, None)] * len(columns)
        pairs = np.array(columns, dtype=np.float64)
        drawn = self._ratios(self._by_task(pairs[..., 0]), self._by_task(pairs[..., 1]))
        return [self._interval(column, ratios, shares) for column, ratios in zip(columns, drawn.T, strict=True)]

    def _interval(self, column: Column, ratios: npt.NDArray[np.float64], shares: bool) -> Interval | tuple[None, None]:
        inside = {int(place) for place, (_, weight) in zip(self._places, column, strict=True) if weight}
        if not inside:
            return None, None
        total, weight = _sums(column)
        interval = _percentiles(ratios)
        single = weight == len(inside) and all(value in (0, 1) for value, _ in column)
        if not shares or (interval.high - interval.low > _ROUNDING and not single):
            return interval
        return wilson(total / weight * len(inside), len(inside))

    def _by_task(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums over the samples of each task: tasks × columns."""
        sums = [np.bincount(self._places, weights=column, minlength=self._tasks) for column in values]
        return np.stack(sums, axis=1)

    def _ratios(self, values: npt.NDArray[np.float64], known: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return draws × columns; NaN where a draw holds no sample of a column."""
        random = np.random.default_rng(self._seed)
        block = max(1, _AT_ONCE // self._tasks)
        ratios = []
        for start in range(0, DRAWS, block):
            rows = min(block, DRAWS - start)
            drawn = random.integers(0, self._tasks, (rows, self._tasks)) + np.arange(rows)[:, None] * self._tasks
            weights = np.bincount(drawn.ravel(), minlength=rows * self._tasks).reshape(rows, self._tasks)
            below = weights @ known
            ratios.append(np.divide(weights @ values, below, out=np.full_like(below, np.nan), where=below > 0))
        return np.concatenate(ratios)


def _sums(column: Column) -> tuple[float, float]:
    return sum(value for value, _ in column), sum(weight for _, weight in column)


def _percentiles(ratios: npt.NDArray[np.float64]) -> Interval:
    low, high = np.percentile(ratios[~np.isnan(ratios)], (2.5, 97.5))
    return Interval(float(low), float(high))


# Findings of any protocol as plain tables, from their stored form: a `Rate`, a `Mean` or a number is a line, a mapping
# of them a line for each key, a list of records a table. Rows of samples and what the run was are not shown.


_HIDDEN = frozenset({"schema_version", "about", "rows", "protocol"})
_RATE, _MEAN = frozenset({"count", "of"}), frozenset({"value", "samples", "low", "high"})
_LONGEST = 160
"""Characters of a text in a cell."""

Data: TypeAlias = Mapping[str, object]
"""Findings as JSON holds them."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table: heads, and rows of as many cells."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plain_data(findings: Findings) -> Data:
    """Return findings as JSON holds them."""
    data = json.loads(dumps(findings))
    assert isinstance(data, dict)
    return data


def plain_lines(findings: Data) -> dict[str, str]:
    """Return name -> value of everything that is one line."""
    return dict(_lines("", findings))


def plain_grids(findings: Data) -> tuple[TextTable, ...]:
    """Return the lists of records, each as a table."""
    return tuple(_grid(name, rows) for name, rows in _shown(findings) if _is_list_of_records(rows))


def _shown(data: Data) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in data.items() if name not in _HIDDEN)


def _lines(before: str, data: Data) -> Iterator[tuple[str, str]]:
    for name, value in _shown(data):
        words = f"{before}{name.replace('_', ' ')}"
        if isinstance(value, Mapping) and not _is_number(value):
            yield from _lines(f"{words}: ", value)
        elif not _is_list_of_records(value):
            yield words, _text(value)


def _grid(name: str, rows: object) -> TextTable:
    assert isinstance(rows, Sequence)
    heads = tuple(dict.fromkeys(field for row in rows for field in row if field not in _HIDDEN))
    cells = tuple(tuple(_text(row.get(field)) for field in heads) for row in rows)
    return TextTable(name.replace("_", " "), tuple(head.replace("_", " ") for head in heads), cells)


def _is_list_of_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _is_number(value: Data) -> bool:
    return set(value) >= _RATE or set(value) == _MEAN


def _text(value: object) -> str:
    match value:
        case None | [] | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}"
        case {"count": int(count), "of": int(of), **more}:
            share = f"{100 * count / of:.1f} %" if of else "–"
            return f"{share}{_ends(more, 100)}, {count:,} of {of:,}"
        case {"value": int() | float() as mean, "samples": int(samples), **more}:
            return f"{mean:,.4g}{_ends(more, 1)}, {samples:,} samples"
        case list():
            return _cut(", ".join(map(_text, value)))
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _ends(more: Mapping[Any, object], scale: float) -> str:
    low, high = more.get("low"), more.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return ""
    return f" ({scale * low:,.3g}–{scale * high:,.3g})"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


R = TypeVar("R", bound=SampleRow)
F = TypeVar("F", bound=Findings)


@dataclass(frozen=True)
class Studied:
    """One sample, and what protocols may ask about it."""

    trajectory: Trajectory
    book: PictureReader
    verdicts: tuple[tuple[JudgeVerdict, ...], ...] | None = None
    """A model's verdicts, for each turn one for each picture; None if no model was asked."""
    budget: str = "qwen2.5-vl"
    """Name of the pixel budget by which visual tokens are estimated."""

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Where the sample looked; decodes pictures, so it is found when first asked for."""
        return regions(self.trajectory, self.book)

    @property
    def head(self) -> dict[str, Any]:
        """The fields that every row begins with."""
        one = self.trajectory
        return {
            "id": one.id,
            "task": one.task.id,
            "rollout": one.rollout,
            "source": one.task.source,
            "correct": next((score.value for score in one.scores if score.name == CORRECT), None),
        }


@dataclass(frozen=True, slots=True)
class Protocol(Generic[R, F]):
    """One study of a stored run: how a sample becomes a row, and rows become findings."""

    name: str
    title: str
    kind: type[F]
    """What it finds."""
    row: Callable[[Studied], R]
    findings: Callable[[Sequence[R], StudiedRun], F]
    """Of rows in the order of tasks and rollouts."""


AnyProtocol: TypeAlias = Protocol[Any, Any]
"""A protocol, whatever it finds."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")  # findings are in a file of that name

PROTOCOLS: Final = Registry[AnyProtocol](
    "protocols",
    {
        "faithfulness@1": "saccade.evals.protocols.faithfulness:PROTOCOL",
        "errors@1": "saccade.evals.protocols.errors:PROTOCOL",
        "tool_use@1": "saccade.evals.protocols.tool_use:PROTOCOL",
        "tokens@1": "saccade.evals.protocols.confidence:TOKENS",
        "confidence@1": "saccade.evals.protocols.confidence:PROTOCOL",
    },
    is_a(Protocol, "a saccade.evals.protocols.base.Protocol"),
)


def load_protocol(name: str) -> AnyProtocol:
    """Load the protocol that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: there is none (suggests the nearest), it cannot be imported, it is no protocol, or a
    protocol of the user's own has a name that is taken or that cannot be a file's.
    """
    protocol = PROTOCOLS.load(name)
    if PROTOCOLS.code(name) is not None:
        if PROTOCOLS.has(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}, which is taken. Give it one of its own.")
        if not _NAME.fullmatch(protocol.name):
            raise RegistryError(f"{name} has the name {protocol.name!r}; use letters, digits, _ and - alone.")
    return protocol


def recorded_protocol(name: str) -> AnyProtocol:
    """Return the protocol that stored findings name; no code is run for it. Raises `RegistryError`."""
    return PROTOCOLS.load_recorded(name)


def protocol_names() -> tuple[str, ...]:
    """Return all names, without versions."""
    return PROTOCOLS.names()


FOLDER = "protocols"
REPLIES = "replies"
"""Folder in which a judge's replies are kept, next to the findings."""


def findings_file(run: Path, name: str, out: Path | None = None) -> Path:
    """Return where the findings of protocol `name` lie: in the folder `out`, or in the run's own."""
    return (run / FOLDER if out is None else out) / f"{name}.json"


def write_findings(file: Path, findings: Findings) -> None:
    """Write findings; the file appears complete or not at all."""
    write_atomic(file, dumps(findings) + "\n")


def read_findings(run: Path, name: str) -> Findings | None:
    """Return the stored findings of a run; None if there are none. Raises `RegistryError` if there is no such protocol,
    `RecordError` if the file cannot be read.
    """
    file = findings_file(run, name)
    kind = recorded_protocol(name).kind
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        findings = loads(text, kind)
    except RecordError as error:
        raise type(error)(f"{file}: {error}") from error
    assert isinstance(findings, Findings)
    return findings
