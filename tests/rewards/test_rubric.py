"""Exact match: what counts as the same, and what does not. Graders and reward presets as rubrics."""

from typing import Any

import pytest

from saccade.errors import RegistryError, SettingsError
from saccade.record.content import Answer
from saccade.record.task import Task
from saccade.record.trajectory import StopReason, Trajectory, Turn, total
from saccade.rewards.reward import as_rubric
from saccade.training.env import ExactMatch, Graded, Rewarded


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


def vista(said: str, **task: Any) -> Trajectory:
    """One thought and one answer, in VISTA's form."""
    text = f"<think>I see it.</think><answer>{said}</answer>"
    turns = (Turn(text=text, action=Answer(text=said)),)
    return Trajectory(id="t", task=Task(id="t", question="?", **task), turns=turns, stop=StopReason.ANSWERED)


@pytest.mark.parametrize(
    ("task", "answer", "value"),
    [
        ({"answer": "4", "answer_type": "number"}, "4.0", 1.0),
        ({"answer": "100", "answer_type": "number"}, "103", 0.0),
        ({"answer": "100", "answer_type": "number", "grader": "relaxed"}, "103", 1.0),
        ({}, "103", None),
    ],
)
def test_the_default_is_the_grader_of_the_task(task: dict[str, Any], answer: str, value: float | None) -> None:
    [score] = as_rubric(None)(vista(answer, **task))
    assert (score.name, score.value, score.weight) == ("correct", value, 1.0)


def test_a_grader_by_name() -> None:
    task = {"answer": "100", "answer_type": "number"}
    assert [score.value for score in Graded("relaxed")(vista("103", **task))] == [1.0]
    with pytest.raises(RegistryError, match="relaxd"):
        Graded("relaxd")


def test_a_reward_preset_by_name_is_worth_what_the_paper_says() -> None:
    """VISTA: format 1 and correct 1; format alone for a wrong answer."""
    rubric = as_rubric("vista-r1")
    scores = rubric(vista("red", answer="red"))
    assert {score.name: (score.value, score.weight) for score in scores} == {
        "correct": (1.0, 0.0),
        "reward.repetition": (0.0, 1.0),
        "reward.format": (1.0, 1.0),
        "reward.correct": (1.0, 1.0),
    }
    assert (total(scores), total(rubric(vista("blue", answer="red")))) == (2.0, 1.0)
    sparse = Rewarded("vista-r1", {"form": "sparse"})
    assert total(sparse(vista("red", answer="red"))) == 1.0


def test_rewards_that_cannot_work_here_are_refused() -> None:
    with pytest.raises(SettingsError, match="needs a judge"):
        as_rubric("codev")
    with pytest.raises(RegistryError, match="Did you mean"):
        as_rubric("vista-r2")
    with pytest.raises(SettingsError, match="forms"):
        Rewarded("vista-r1", {"forms": "sparse"})
