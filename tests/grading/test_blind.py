"""Answers in many languages and forms, with the verdict of a person who saw neither the graders nor their verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.grading.rows import rows

from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

# Verdict, grader, gold answer, options, answer and, where it matters, the question.
ROWS = [
    (*line.split("\t"), "What is it?")[:6]
    for line in Path(__file__).with_name("blind.tsv").read_text(encoding="utf-8").splitlines()
]


@rows("row", ROWS[::6])
def test_the_verdict_of_a_person(row: tuple[str, ...]) -> None:
    judged(row)


@pytest.mark.slow
@rows("row", ROWS)
def test_the_verdict_of_a_person_on_every_answer(row: tuple[str, ...]) -> None:
    judged(row)


@pytest.mark.slow
@rows("row", [row for row in ROWS if row[:2] == ("right", "choice") and row[2] in row[3].split("|")])
def test_an_answer_is_right_for_one_option_alone(row: tuple[str, ...]) -> None:
    for other in set(row[3].split("|")) - {row[2]}:
        judged(("wrong", row[1], other, *row[3:]))


def judged(row: tuple[str, ...]) -> None:
    verdict, grader, gold, choices, answer, question = row
    options = tuple(filter(None, choices.split("|")))
    gold = json.dumps(gold.split("+")) if options and gold not in options else gold.replace("\\\\", "\\")
    kind = AnswerType.CHOICE if options else AnswerType.TEXT
    task = Task(id="t", question=question, answer=gold, choices=options, answer_type=kind)
    said = load_grader(grader).grade(answer.replace("\\n", "\n").replace("\\\\", "\\"), task)
    assert said.accepted == (verdict == "right"), said.reason
