"""Answers in many languages and forms, with the verdict of a person who saw neither the graders nor their verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

# Verdict, grader, gold answer, options, answer and, where it matters, the question.
ROWS = [
    (*line.split("\t"), "What is it?")[:6]
    for line in Path(__file__).with_name("blind.tsv").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize(
    ("verdict", "grader", "gold", "choices", "answer", "question"), ROWS, ids=["/".join(row[1:5:3]) for row in ROWS]
)
def test_the_verdict_of_a_person(
    verdict: str, grader: str, gold: str, choices: str, answer: str, question: str
) -> None:
    options = tuple(filter(None, choices.split("|")))
    gold = json.dumps(gold.split("+")) if "+" in gold and options else gold.replace("\\\\", "\\")
    kind = AnswerType.CHOICE if options else AnswerType.TEXT
    task = Task(id="t", question=question, answer=gold, choices=options, answer_type=kind)
    said = load_grader(grader).grade(answer.replace("\\n", "\n").replace("\\\\", "\\"), task)
    assert said.accepted == (verdict == "right"), said.reason
