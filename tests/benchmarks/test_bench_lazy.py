"""`python -m benchmarks lazy`: policies that look at nothing earn what a guess earns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.lazy import by_hand, earned, lazy_table, of_data
from saccade.errors import DataError

GUESSED = {"choice", "yes-no", "vqa"}
"""Graders for which a constant is right by chance, and one question states its answer."""


@pytest.mark.parametrize("equations", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_no_constant_and_no_copy_of_the_question_is_paid(equations: int | None) -> None:
    items = [item for item in by_hand() if item.grader != "math"]
    items += [item for item in by_hand() if item.grader == "math"][-(equations or 0) :]
    rows = earned([(item.grader, item) for item in items])
    paid = {(row.questions, row.policy): row.paid for row in rows if row.paid and row.questions not in GUESSED}
    assert paid.pop(("iou", "`[0, 0, 9999, 9999]`")) < 0.001  # the IoU itself
    assert paid == {("math", "`0 or 1`"): 2}  # the golds {0, 1} and x = 0 or x = 1
    assert {row.policy: row.paid for row in rows if row.questions == "yes-no" and row.paid} == {"`yes`": 1, "`no`": 1}
    assert lazy_table(rows).row_count == len({row.questions for row in rows})


def test_data_sets_are_read_in_their_published_forms(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tabmwp"):
        list(of_data(tmp_path))
    (tmp_path / "tabmwp").mkdir()
    row = {"question": "How many?", "choices": None, "answer": "0"}
    (tmp_path / "tabmwp" / "problems_dev.json").write_text(json.dumps({"1": row}))
    (tmp_path / "geometry3k" / "11").mkdir(parents=True)
    problem = {"problem_text": "Find x.", "choices": ["30", "40", "60", "80"], "answer": "D"}
    (tmp_path / "geometry3k" / "11" / "data.json").write_text(json.dumps(problem))
    found = list(of_data(tmp_path))
    assert [(name, item.grader, item.task.answer) for name, item in found] == [
        ("tabmwp", "number-rounded", "0"),
        ("geometry3k", "math", "80"),
        ("geometry3k", "choice", "80"),
    ]
    paid = {row.policy for row in earned(found) if row.questions == "tabmwp" and row.paid}
    assert paid == {"`0`", "`=0`", "`x=0`"}
