"""`python -m benchmarks grading`: our verdicts next to a benchmark's own, on answers that real models gave.

An official verdict is no truth: MMMU-Pro's takes a random option where it reads none, and MathVista's lets a language
model read the answer. So what is printed is where both differ, with examples, for a person to judge.

Two forms of stored answers are read, told apart by the fields of their rows:

MMMU-Pro    JSON lines: `id`, `options` (a Python list, as text), `answer` (a letter), `response`, `if_right`
MathVista   one JSON object of rows, or lines: `question_type`, `answer_type`, `choices`, `answer`, `response`,
            `true_false`
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from saccade.errors import DataError, GradingError
from saccade.grading.base import Verdict
from saccade.grading.number_words import literal_list
from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

_MMMU: Final = ("options", "answer", "response", "if_right")
_MATHVISTA: Final = ("question_type", "answer_type", "choices", "answer", "response", "true_false")
_GRADERS: Final = {"integer": "number-rounded", "float": "number-rounded", "list": "list", "text": "text"}
FORMS: Final = f"MMMU-Pro ({', '.join(_MMMU)}) and MathVista ({', '.join(_MATHVISTA)})"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer of a model, and what the benchmark said of it."""

    task: Task
    """Its gold answer is None where the row names no option."""
    grader: str
    response: str | None
    right: bool


def answer_files(folder: Path) -> list[Path]:
    """Return the files of `folder` that hold answers, by name.

    Raises:
        DataError: there is no such folder, or no `.json` or `.jsonl` in it.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder. Name one with stored answers in the forms of {FORMS}.")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file())
    if not files:
        raise DataError(f"{folder} holds no .json or .jsonl file. The forms that are read: {FORMS}.")
    return files


def stored_answers(path: Path) -> list[StoredAnswer]:
    """Return the answers of one file, in its order.

    Raises:
        DataError: it is no JSON, or a row has neither form; names the row.
    """
    return [_stored(row, name, path) for name, row in _rows(path)]


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            data: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            data = json.loads(text)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}.") from error
    if isinstance(data, Mapping):
        data = [{"id": name, **row} if isinstance(row, Mapping) else row for name, row in data.items()]
    if not isinstance(data, list) or not data:
        raise DataError(f"{path} holds no rows. The forms that are read: {FORMS}.")
    for number, row in enumerate(data, start=1):
        if not isinstance(row, Mapping):
            raise DataError(f"row {number} of {path} is no JSON object. The forms that are read: {FORMS}.")
        yield str(row.get("id", row.get("pid", number))), row


def _stored(row: Mapping[str, Any], name: str, path: Path) -> StoredAnswer:
    missing = [[field for field in form if field not in row] for form in (_MMMU, _MATHVISTA)]
    if all(missing):
        lacking = min(missing, key=len)
        raise DataError(
            f"row {name} of {path} lacks {', '.join(lacking)}. Each row needs the answer and the official verdict. "
            f"The forms that are read: {FORMS}."
        )
    mmmu = not missing[0]
    verdict = row["if_right" if mmmu else "true_false"]
    if not isinstance(verdict, bool):
        raise DataError(f"row {name} of {path} has {verdict!r} for its official verdict, which is true or false.")
    response = (
        row["response"][0] if isinstance(row["response"], list) and len(row["response"]) == 1 else row["response"]
    )
    task, grader = _mmmu_task(row, name) if mmmu else _mathvista_task(row, name)
    return StoredAnswer(task, grader, response if isinstance(response, str) else None, verdict)


def _mmmu_task(row: Mapping[str, Any], name: str) -> tuple[Task, str]:
    options = row["options"]
    if isinstance(options, str):
        options = literal_list(options)
    choices = tuple(str(option) for option in options or ())
    place = ord(str(row["answer"])[:1] or "?") - ord("A")
    gold = choices[place] if 0 <= place < len(choices) else None
    return _choice(name, choices, gold), "choice"


def _choice(name: str, choices: tuple[str, ...], gold: str | None) -> Task:
    kind = AnswerType.CHOICE if choices else AnswerType.TEXT
    return Task(id=name, question="-", choices=choices, answer=gold, answer_type=kind)


def _mathvista_task(row: Mapping[str, Any], name: str) -> tuple[Task, str]:
    gold = None if row["answer"] in (None, "") else str(row["answer"])
    if row["question_type"] == "multi_choice":
        choices = tuple(str(choice) for choice in row["choices"] or ())
        gold = gold if gold in choices else None
        return _choice(name, choices, gold), "choice"
    grader = _GRADERS.get(str(row["answer_type"]), "text")
    return Task(id=name, question="-", answer=gold), grader


_SHOWN = 160


class GraderSide(StrEnum):
    """Who accepts an answer."""

    BOTH = "both"
    OURS = "ours alone"
    THEIRS = "theirs alone"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """One answer with both verdicts."""

    file: str
    task: str
    grader: str
    gold: str
    side: GraderSide
    read: bool
    reason: str
    response: str


@dataclass(frozen=True, slots=True)
class GradingFigures:
    """What is counted of one file, or of all."""

    name: str
    answers: int
    ungraded: int
    """Rows whose gold answer is missing or unreadable; in no other figure."""
    agree: int
    ours_alone: int
    theirs_alone: int
    unread: int
    """Answers in which we read none, or several: refusals to answer are among them."""

    def share(self, number: int) -> float:
        """Return `number` in percent of the answers that were graded."""
        return 100 * number / max(1, self.answers - self.ungraded)


def judge_folder(folder: Path) -> list[tuple[str, list[GradedAnswer], int]]:
    """Return each file's name, its answers with both verdicts, and how many of its rows could not be graded.

    Raises:
        DataError: the folder or a row has none of the forms that are read.
    """
    verdicts = []
    for path in answer_files(folder):
        stored = stored_answers(path)
        judged = [one for one in (_judged(path.name, answer) for answer in stored) if one is not None]
        verdicts.append((path.name, judged, len(stored) - len(judged)))
    return verdicts


def figures(name: str, judged: Sequence[GradedAnswer], ungraded: int) -> GradingFigures:
    """Count these answers."""
    sides = [one.side for one in judged]
    ours, theirs = sides.count(GraderSide.OURS), sides.count(GraderSide.THEIRS)
    unread = sum(not one.read for one in judged)
    return GradingFigures(name, len(judged) + ungraded, ungraded, len(judged) - ours - theirs, ours, theirs, unread)


def grading_table(rows: Sequence[GradingFigures]) -> Table:
    """Show the figures as a table."""
    shown = Table(title="python -m benchmarks grading", title_justify="left")
    shown.add_column("file")
    for column in ("answers", "not gradable", "agreement", "ours alone", "theirs alone", "unread"):
        shown.add_column(column, justify="right")
    for row in rows:
        counts = (row.ours_alone, row.theirs_alone, row.unread)
        cells = [f"{count} ({row.share(count):.2f} %)" for count in counts]
        shown.add_row(row.name, str(row.answers), str(row.ungraded), f"{row.share(row.agree):.2f} %", *cells)
    return shown


def examples(judged: Sequence[GradedAnswer], most: int) -> Iterator[str]:
    """Yield some answers of each kind on which both differ, or that were not read, evenly over the files."""
    kinds = {
        "accepted by us alone": [one for one in judged if one.side is GraderSide.OURS],
        "accepted by them alone": [one for one in judged if one.side is GraderSide.THEIRS],
        "unread": [one for one in judged if not one.read],
    }
    for title, ones in kinds.items():
        step = max(1, len(ones) // max(1, most))
        picked = ones[::step][:most]
        yield f"{title}: {len(ones)}" + (f", {len(picked)} of them:" if picked else "")
        for one in picked:
            tail = " ".join(one.response.split())[-_SHOWN:]
            yield f"  {one.file} {one.task} [{one.grader}] gold {one.gold[:60]!r}: {one.reason}"
            yield f"    ... {tail!r}"


def as_json(rows: Sequence[GradingFigures]) -> dict[str, Any]:
    """Return the figures for a file."""
    return {"figures": [asdict(row) for row in rows]}


def unread_lines(judged: Sequence[GradedAnswer]) -> str:
    """Return unread answers as lines of JSON, each whole, for a person who says whether a reader sees one in it."""
    return "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in judged if not one.read)


def _judged(file: str, answer: StoredAnswer) -> GradedAnswer | None:
    try:
        verdict: Verdict = load_grader(answer.grader).grade(answer.response, answer.task)
    except GradingError:
        return None
    side = {
        (True, True): GraderSide.BOTH,
        (True, False): GraderSide.OURS,
        (False, True): GraderSide.THEIRS,
        (False, False): GraderSide.NEITHER,
    }[verdict.accepted, answer.right]
    return GradedAnswer(
        file,
        answer.task.id,
        answer.grader,
        answer.task.answer or "",
        side,
        verdict.read,
        verdict.reason,
        answer.response or "",
    )
