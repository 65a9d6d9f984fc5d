"""Reads the samples of a stored run as rows: what metrics, comparisons and exports need.

Rows come in the order of the tasks' ids (numbers in them by their value) and then of the rollouts, whatever order they
were stored in; so two runs that hold the same samples have the same rows, byte for byte.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import count, islice, product
from math import fsum
from operator import attrgetter
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from saccade.core.disk import atomic_file
from saccade.core.registry import Registry, has_members, install
from saccade.episode.run_folder import SETTINGS, TRAJECTORIES, trajectories_of
from saccade.errors import RecordError, SettingsError, UnavailableError
from saccade.evals.grades import BY_JUDGE, BY_RULE, JUDGE, Headline, score_named
from saccade.grading.registry import Grade, grade_of
from saccade.record.content import SCHEMA_VERSION
from saccade.record.task import right_choices
from saccade.record.trajectory import CORRECT, Score, StopReason, TokenCounts, Trajectory


class _Lean(BaseModel):
    """Reads a few fields and skips the others."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Task(_Lean):
    id: str
    question: str
    choices: tuple[str, ...] = ()
    answer: str | None = None
    source: str = ""
    split: str = ""
    tags: tuple[str, ...] = ()


class _Action(_Lean):
    kind: str
    text: str | None = None


class _Turn(_Lean):
    action: _Action
    execution: _Lean | None = None
    hosted: tuple[_Lean, ...] = ()
    tokens: TokenCounts = TokenCounts()
    dollars: float | None = None


class _Line(_Lean):
    schema_version: int
    id: str
    task: _Task
    rollout: int = 0
    turns: tuple[_Turn, ...] = ()
    stop: StopReason | None = None
    scores: tuple[Score, ...] = ()

    def score(self, name: str) -> float | None:
        """Return the value of a score, if there is one."""
        found = score_named(self.scores, name)
        return None if found is None else found.value

    @cached_property
    def grade(self) -> Grade:
        """Return what the grader said besides the credit."""
        found = score_named(self.scores, CORRECT)
        return grade_of("" if found is None else found.detail)

    @property
    def answer(self) -> str | None:
        last = self.turns[-1].action if self.turns else None
        return last.text if last is not None and last.kind == "answer" else None

    @property
    def sampled_tokens(self) -> int | None:
        sampled = [turn.tokens.sampled for turn in self.turns if turn.tokens.sampled is not None]
        return sum(sampled) if sampled else None

    @property
    def contexts(self) -> list[int]:
        return [turn.tokens.context for turn in self.turns if turn.tokens.context is not None]

    @property
    def prices(self) -> list[float | None]:
        return [turn.dollars for turn in self.turns]

    @property
    def no_verdict(self) -> str:
        judge = score_named(self.scores, BY_JUDGE)
        return "" if judge is None else grade_of(judge.detail).invalid


@dataclass(frozen=True, slots=True)
class Column:
    """How one field of `EvalRow` is made and shown."""

    of: Callable[[_Line], object]
    """Makes it from a trajectory."""
    export: str = ""
    """Its name in a table that is exported; empty if it is not in it."""
    shown: str = ""
    """Its heading in the gallery of a report, for numbers; empty if it is not in it."""
    digits: int = 0
    """After the point, in the gallery."""


def _made(of: Callable[[_Line], object], export: str = "", shown: str = "", digits: int = 0) -> dict[str, Column]:
    return {"column": Column(of, export, shown, digits)}


@dataclass(frozen=True, slots=True)
class EvalRow:
    """One sample of an evaluation, as results.jsonl keeps it.

    A field is a column: this one entry computes it from a trajectory, and adds it to rows, exports and galleries.
    """

    id: str = field(metadata=_made(lambda line: line.id))
    task: str = field(metadata=_made(lambda line: line.task.id, "task_id"))
    """Id of the task."""
    rollout: int = field(metadata=_made(lambda line: line.rollout, "rollout"))
    source: str = field(metadata=_made(lambda line: line.task.source, "source"))
    split: str = field(metadata=_made(lambda line: line.task.split))
    tags: tuple[str, ...] = field(metadata=_made(lambda line: line.task.tags))
    question: str = field(metadata=_made(lambda line: line.task.question))
    choices: tuple[str, ...] = field(metadata=_made(lambda line: line.task.choices))
    gold: str | None = field(metadata=_made(lambda line: line.task.answer, "gold"))
    answer: str | None = field(metadata=_made(lambda line: line.answer))
    """What the episode ended with."""
    correct: float | None = field(metadata=_made(lambda line: line.score(CORRECT), "", "credit", 2))
    """From 0 to 1; None if the task could not be graded, or was not."""
    extracted: str = field(metadata=_made(lambda line: line.grade.extracted, "extracted"))
    grader: str = field(metadata=_made(lambda line: line.grade.grader, "grader"))
    reason: str = field(metadata=_made(lambda line: line.grade.reason, "reason"))
    stop: str = field(metadata=_made(lambda line: line.stop.value if line.stop else "", "stop"))
    turns: int = field(metadata=_made(lambda line: len(line.turns), "turns", "turns"))
    calls: int = field(
        metadata=_made(
            lambda line: sum((turn.execution is not None) + len(turn.hosted) for turn in line.turns), "calls", "calls"
        )
    )
    """Executions of code and of tools, those of a provider's own sandbox included."""
    context_tokens: int | None = field(metadata=_made(lambda line: max(line.contexts, default=None)))
    """The longest context that it read."""
    read_tokens: int | None = field(
        default=None,
        metadata=_made(
            lambda line: sum(line.contexts) if line.turns and len(line.contexts) == len(line.turns) else None,
            "read_tokens",
            "tokens read",
        ),
    )
    """Tokens that it read in all turns together; None if a turn does not say."""
    sampled_tokens: int | None = field(
        default=None,
        metadata=_made(lambda line: line.sampled_tokens, "sampled_tokens", "written"),
    )
    """Tokens that the model wrote; None if its backend does not say."""
    dollars: float | None = field(
        default=None,
        metadata=_made(lambda line: _total(line.prices), "dollars", "cost, $", 4),
    )
    """Price of all its turns; None if that of one is not known."""
    by_rule: float | None = field(default=None, metadata=_made(lambda line: line.score(BY_RULE), "hit_by_rule"))
    """The rule's verdict, where a judge was asked too."""
    by_judge: float | None = field(default=None, metadata=_made(lambda line: line.score(BY_JUDGE), "hit_by_judge"))
    no_verdict: str = field(default="", metadata=_made(lambda line: line.no_verdict, "no_verdict"))
    """Why the judge gave none: `malformed`, `outage`, `refused`; empty if it did, or was not asked."""

    @property
    def headline(self) -> Headline:
        """Whose verdict `correct` is."""
        return "judge" if self.grader.startswith(JUDGE) else "rule"

    @property
    def judgement(self) -> str:
        """Return the judge's verdict: `right`, `wrong`, `invalid` (asked, and no verdict), or `none` (not asked)."""
        if self.by_judge is None:
            return "invalid" if self.no_verdict else "none"
        return "right" if self.by_judge >= 0.5 else "wrong"


COLUMNS: Final[Mapping[str, Column]] = {made.name: made.metadata["column"] for made in fields(EvalRow)}
"""How each field of `EvalRow` is made and shown."""


def read_rows(run: Path) -> list[EvalRow]:
    """Read the rows of a run folder, in order; of two trajectories of one id the later one counts. Raises
    `SettingsError` if it is no run folder, `RecordError` if a trajectory cannot be read.
    """
    if not (run / TRAJECTORIES).is_file() and (run / SETTINGS).is_file():
        return []  # begun, and nothing came of it yet
    rows = {row.id: row for row in _rows(trajectories_of(run))}
    return sorted(rows.values(), key=row_order)


def row_of(trajectory: Trajectory) -> EvalRow:
    """Make the row of a trajectory that was read already."""
    return _row(_Line.model_validate(trajectory, from_attributes=True))


def row_order(row: EvalRow) -> tuple[Sequence[tuple[int, str]], int, str]:
    """Return the order of rows by task and rollout."""
    return natural(row.task), row.rollout, row.id


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts `t2` before `t10`."""
    return tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d{1,18})", text))


def _rows(file: Path) -> Iterator[EvalRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                data = _Line.model_validate_json(line)
            except ValidationError as error:
                raise RecordError(f"{file}, line {number} is no trajectory: {error.errors()[0]['msg']}") from error
            if data.schema_version != SCHEMA_VERSION:
                raise RecordError(f"{file}, line {number} has schema version {data.schema_version}.")
            yield _row(data)


def _row(line: _Line) -> EvalRow:
    values: dict[str, Any] = {name: column.of(line) for name, column in COLUMNS.items()}
    return EvalRow(**values)


def _total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None of nothing, or if one value is not known."""
    known = [value for value in values if value is not None]
    return fsum(known) if known and len(known) == len(values) else None


# Dollars come from the table of prices that held when a turn was made. Calls that failed and were tried again, samples
# that failed and a judge's calls are not counted.


@dataclass(frozen=True, slots=True)
class Known:
    """A sum over the samples of which the number is known."""

    amount: float
    samples: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens and dollars that some samples cost."""

    samples: int
    read: Known
    """Tokens that the model read in all turns together, again and again."""
    written: Known
    """Tokens that the model wrote."""
    dollars: Known


def spent(rows: Sequence[EvalRow]) -> Spent:
    """Sum up what `rows` cost."""
    return Spent(
        samples=len(rows),
        read=_known(row.read_tokens for row in rows),
        written=_known(row.sampled_tokens for row in rows),
        dollars=_known(row.dollars for row in rows),
    )


def spent_text(totals: Spent) -> list[str]:
    """Write the costs as lines for a terminal; none where nothing is known."""
    lines = []
    if totals.read.samples or totals.written.samples:
        read, written = (
            f"{known.amount:,.0f}{_of(known, totals)}" if known.samples else "an unknown number"
            for known in (totals.read, totals.written)
        )
        lines.append(f"tokens: {read} read in all turns, {written} written")
    if totals.dollars.samples:
        lines.append(f"cost: {dollars_text(totals.dollars.amount)}{_of(totals.dollars, totals)}")
    elif lines:
        lines.append("cost: unknown, for the model is not in the table of prices")
    return lines


def dollars_text(dollars: float) -> str:
    """Write a price, small ones with more digits."""
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def _known(values: Iterable[float | None]) -> Known:
    known = [value for value in values if value is not None]
    return Known(fsum(known), len(known))


def _of(known: Known, overall: Spent) -> str:
    """Says of how many samples it is known, where it is not known of all."""
    return "" if known.samples == overall.samples else f" (known of {known.samples:,} of {overall.samples:,} samples)"


_log = logging.getLogger(__name__)

Cell = str | int | float | None
Table = Sequence[Mapping[str, Cell]]

_OWN: Final = {
    **{column.export: attrgetter(name) for name, column in COLUMNS.items() if column.export},
    "headline": attrgetter("headline"),
    "judge": attrgetter("judgement"),
}
"""Columns that VLMEvalKit lacks: name -> the value of a row."""
_HEADS: Final = ("index", "question", "answer", "category", "split", "prediction", "hit", *_OWN)
"""Of a table without rows, so without options."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_XLSX_CHARACTERS: Final = 32_767
"""Of one cell."""


def export(rows: Sequence[EvalRow], path: Path, form: str = "") -> None:
    """Write the rows to `path` as `form`, or as its suffix says: jsonl, csv, tsv, parquet or xlsx.

    Raises `SettingsError`: the form is another; `UnavailableError`: parquet or xlsx is asked for, and what writes it is
    not installed.
    """
    suffix = form or path.suffix.lstrip(".").lower()
    if suffix not in WRITERS:
        raise SettingsError(f"{suffix or path} is no form of a table: name one of {', '.join(WRITERS)} with --format.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        WRITERS[suffix](table(rows), partial)


def table(rows: Sequence[EvalRow]) -> list[dict[str, Cell]]:
    """Return the rows with the same columns each."""
    letters = _letters(max((len(row.choices) for row in rows), default=0))
    return [_cells(number, row, letters) for number, row in enumerate(rows)]


def _letters(most: int) -> tuple[str, ...]:
    """Return a to Z, then AA, AB and on."""
    every = ("".join(letters) for length in count(1) for letters in product(ascii_uppercase, repeat=length))
    return tuple(islice(every, most))


def _cells(number: int, row: EvalRow, letters: Sequence[str]) -> dict[str, Cell]:
    options = dict(zip(letters, row.choices, strict=False))
    right = right_choices(row.gold, row.choices)
    letter = ", ".join(next(name for name, text in options.items() if text == one) for one in right)
    return {
        "index": number,
        "question": row.question,
        **{name: options.get(name) for name in letters},
        "answer": letter or row.gold,
        "category": row.tags[0] if row.tags else None,
        "split": row.split,
        "prediction": row.answer,
        "hit": row.correct,
        **{name: value(row) for name, value in _OWN.items()},
    }


def _columns(data: Table) -> list[str]:
    return list(data[0]) if data else list(_HEADS)


def _jsonl(data: Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data), encoding="utf-8")


def _separated(separator: str) -> Callable[[Table, Path], None]:
    def write(data: Table, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _columns(data), delimiter=separator, lineterminator="\n")
            writer.writeheader()
            writer.writerows(data)

    return write


def _parquet(data: Table, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UnavailableError(f"parquet needs pyarrow: {install('data')}") from error
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(data)), path)


def _xlsx(data: Table, path: Path) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError as error:
        raise UnavailableError(f"xlsx needs openpyxl: {install('data')}") from error
    book = Workbook(write_only=True)
    sheet = book.create_sheet("samples")

    def cell(value: Cell) -> object:
        if not isinstance(value, str):
            return value
        made = WriteOnlyCell(sheet, _UNPRINTABLE.sub("\ufffd", value)[:_XLSX_CHARACTERS])
        made.data_type = "s"  # a text that begins with = stays a text
        return made

    sheet.append(_columns(data))
    for row in data:
        sheet.append([cell(value) for value in row.values()])
    book.save(path)
    _say_what_is_lost(data)


def _say_what_is_lost(data: Table) -> None:
    texts = [value for row in data for value in row.values() if isinstance(value, str)]
    cut = sum(len(text) > _XLSX_CHARACTERS for text in texts)
    if cut:
        _log.warning("%d text(s) cut: a cell of xlsx holds %d characters. jsonl has all.", cut, _XLSX_CHARACTERS)
    replaced = sum(_UNPRINTABLE.search(text) is not None for text in texts)
    if replaced:
        _log.warning("%d text(s) have \ufffd for control characters, which xlsx cannot hold. jsonl has all.", replaced)


WRITERS: Mapping[str, Callable[[Table, Path], None]] = {
    "jsonl": _jsonl,
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "parquet": _parquet,
    "xlsx": _xlsx,
}
"""Form -> what writes it."""


class EpisodeExport(Protocol):
    """Writes episodes in another format, or sends them to a service (`saccade export --to NAME`).

    Packages register theirs by an entry point of the group `saccade.exports`.
    """

    items: str
    """The things that are written, for a message: `spans`."""
    file_name: str
    """Name of the file in the run's folder, where none is given."""

    def export(self, episodes: Iterable[Trajectory], target: Path | str, *, content: bool) -> int:
        """Write the episodes to a file, or send them to the address `target`; return the number of items.

        Args:
            episodes: recorded ones, each once.
            target: a file, or an address as text.
            content: also export texts, code and output.

        Raises `UnavailableError`: a package that it needs is not installed; `SettingsError`: the episodes cannot be
        written or delivered.
        """


EXPORTS: Final = Registry[EpisodeExport]("exports", {}, has_members(("items", "file_name", "export")))
