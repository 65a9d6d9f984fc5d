"""Stored answers of models with a benchmark's own verdict on each, as their authors published them.

Two forms are read, told apart by the fields of their rows:

MMMU-Pro    JSON lines: `id`, `options` (a Python list, as text), `answer` (a letter), `response`, `if_right`
MathVista   one JSON object of rows, or lines: `question_type`, `answer_type`, `choices`, `answer`, `response`,
            `true_false`

Nothing else is read from the rows. What the answers of people would be is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from saccade.errors import DataError
from saccade.grading.literals import literal_list
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
    """The files of `folder` that hold answers, by name.

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
    """The answers of one file, in its order.

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
