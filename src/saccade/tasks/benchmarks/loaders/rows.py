"""Loaders of files with one row for each question.

`rows` reads them as they are: Hugging Face parquet, JSON lines, VISTA's lists, TabMWP's and MathVista's objects,
VSI-Bench. `llava` and `verl` first bring conversations and training rows into plain fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import first_match
from saccade.tasks.benchmarks.problem import FieldError, RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow, count_rows, read_rows

Adapt = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Adds plain fields to a row. Raises `FieldError` if the row is not as the format says."""


def as_it_is(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, unchanged."""
    return row


@dataclass(frozen=True, slots=True)
class RowLoader:
    """Rows of files, one question each."""

    adapt: Adapt = as_it_is

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            for row in read_rows(file):
                yield row if isinstance(row, RowProblem) else self._adapted(row)

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(map(count_rows, files))

    def _adapted(self, row: SourceRow) -> SourceRow | RowProblem:
        try:
            return replace(row, fields=self.adapt(row.fields))
        except FieldError as error:
            return row.problem(error.field, error.reason)


def from_llava(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """`question` and `answer` from `conversations` of `from` and `value`: the first two turns, human then gpt."""
    turns = row.get("conversations")
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise FieldError("conversations", "it is no list of turns")
    said = [(turn.get("from"), turn.get("value")) for turn in turns if turn.get("from") != "system"]
    roles = [role for role, _ in said[:2]]
    if roles not in (["human", "gpt"], ["user", "assistant"]):
        raise FieldError("conversations", "it does not begin with a question of human and an answer of gpt")
    question, answer = (text for _, text in said[:2])
    return {**row, "question": question, "answer": answer}


def from_verl(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """`question` and `answer` from `extra_info`, `reward_model` and, without a question there, `prompt`.

    The question of a prompt is its last user message, with all that the trainer's template added.
    """
    extra, reward = _mapping(row, "extra_info"), _mapping(row, "reward_model")
    question = extra.get("question") or _last_user(row.get("prompt"))
    answer = reward.get("ground_truth", extra.get("answer"))
    index = extra.get("index")
    plain = {
        "question": question,
        "answer": answer,
        "id": extra.get("id") or (None if index is None else f"{row.get('data_source') or 'row'}-{index}"),
    }
    return {**row, **{name: value for name, value in plain.items() if value is not None}}


def _last_user(prompt: object) -> object:
    messages = prompt if isinstance(prompt, list) else []
    texts = [m.get("content") for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    return texts[-1] if texts else None


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


ROWS = RowLoader()
LLAVA = RowLoader(from_llava)
VERL = RowLoader(from_verl)
