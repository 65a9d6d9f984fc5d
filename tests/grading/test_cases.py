"""The torture table: answers that must be accepted or rejected, row by row."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.grading.rows import rows

from saccade.grading.registry import GRADERS, load_grader
from saccade.record.task import AnswerType, Task

TABLE = Path(__file__).with_name("cases.jsonl")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
FAULTS = (  # noqa: SIM905
    "gold 50|2010|MathVista|TabMWP gold 3|VizWiz|coca cola|PlotQA|CLEVR|IconQA|DocVQA gold 100|GeoQA|UniGeo|"
    "ScienceQA|5% against 0.05|GEOS|Olympiad|run_unified_eval|MapQA|always A|hrbench|vsi_numerical"
).split("|")
"""Words of the sources of what published graders are known to get wrong."""


def question(row: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    return row["grader"], row["gold"], tuple(row.get("choices", ()))


QUESTIONS = [(key, list(rows)) for key, rows in groupby(sorted(ROWS, key=question), key=question)]


@rows(("key", "of_it"), QUESTIONS)
def test_rows_of(key: tuple[str, str, tuple[str, ...]], of_it: list[dict[str, Any]]) -> None:
    grader, gold, choices = key
    kind = AnswerType.CHOICE if choices else AnswerType.TEXT
    task = Task(id="row", question="What is it?", answer=gold, choices=choices, answer_type=kind)
    failed = []
    for row in of_it:
        verdict = load_grader(grader).grade(row["answer"], task)
        wanted = {"accept": 1.0, "reject": 0.0}.get(row["expect"], row["expect"])
        if verdict.correct != pytest.approx(wanted):
            failed.append(f"{row['answer']!r}: {verdict.correct} for {wanted}; {verdict.reason} ({row['source']})")
    assert not failed


def test_table_is_large_and_has_no_row_twice() -> None:
    keys = [(*question(row), row["answer"]) for row in ROWS]
    assert len(set(keys)) == len(keys) >= 1000
    assert all(row["source"] for row in ROWS)


def test_every_grader_has_rows_of_both_kinds() -> None:
    accepted = {row["grader"] for row in ROWS if row["expect"] not in ("reject", 0)}
    rejected = {row["grader"] for row in ROWS if row["expect"] == "reject"}
    assert accepted == set(GRADERS.ids())
    assert rejected >= accepted - {"anls-published@1"}  # it gives partial credit by its definition


@rows("words", FAULTS)
def test_named_faults_of_published_graders_are_in_the_table(words: str) -> None:
    assert any(words in row["source"] for row in ROWS)
