"""Exact match: what counts as the same, and what does not."""

import pytest

from saccade.env import ExactMatch
from saccade.record.action import Answer
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn


def score(gold: str | None, answer: str | None) -> float | None:
    turns = () if answer is None else (Turn(text=answer, action=Answer(text=answer)),)
    trajectory = Trajectory(id="t", task=Task(id="t", question="?", answer=gold), turns=turns)
    (part,) = ExactMatch()(trajectory)
    assert part.name == "correct"
    return part.value


@pytest.mark.parametrize(
    ("gold", "answer"), [("Red", "red"), ("a  b", " A\nb "), ("café", "cafe\u0301"), ("Straße", "STRASSE"), ("4", "4")]
)
def test_the_same(gold: str, answer: str) -> None:
    assert score(gold, answer) == 1.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("50", "150"),
        ("4", "4.0"),
        ("red", "red."),
        ("dog", "o"),
        ("A", "(A)"),
        ("x²", "x2"),
        ("red", ""),
        ("red", None),
    ],
)
def test_not_the_same(gold: str, answer: str | None) -> None:
    assert score(gold, answer) == 0.0


def test_no_gold_no_score() -> None:
    assert score(None, "red") is None
