"""What a person decided about trajectories, taken over by the filter `reviewed`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.training.sft.curate.cases import Result, Runs, said

from saccade.errors import SettingsError
from saccade.record.task import AnswerType
from saccade.training.sft.review import DecisionLog, ReviewDecision

COLOURS = {"answer": "red", "choices": ("red", "blue"), "answer_type": AnswerType.CHOICE}


def decide(folder: Path, id_: str, verdict: str, **fields: Any) -> None:
    folder.mkdir(exist_ok=True)
    DecisionLog(folder).add(ReviewDecision(id=id_, verdict=verdict, decided=datetime.now(UTC), **fields))  # type: ignore[arg-type]


def curated(runs: Runs, *reviews: Path) -> Result:
    return runs.curate({"name": "reviewed", "reviews": [str(review) for review in reviews]})


def test_what_was_dropped_goes_and_what_is_open_is_undecided(runs: Runs) -> None:
    folder = runs.write(*(runs.trajectory(id_) for id_ in ("good", "bad", "open", "taken_back")))
    decide(folder, "good", "keep")
    decide(folder, "bad", "drop", note="blurred")
    decide(folder, "taken_back", "drop")
    decide(folder, "taken_back", "open")
    result = curated(runs, folder)
    assert (result.ids, result.undecided) == (["good"], ["open", "taken_back"])
    assert result.kept[0] == runs.trajectory("good"), "as it was"
    assert (result.lines[0].reason, result.lines[0].detail) == ("dropped by a person", "blurred")


def test_of_two_reviews_the_last_named_counts(runs: Runs, tmp_path: Path) -> None:
    folder = runs.write(runs.trajectory("a"), runs.trajectory("b"))
    for id_ in "ab":
        decide(folder, id_, "drop")
    decide(tmp_path / "second", "a", "keep")
    assert curated(runs, folder, tmp_path / "second").ids == ["a"]


def test_a_corrected_answer_is_graded_anew_where_there_was_a_grade(runs: Runs) -> None:
    folder = runs.write(
        runs.trajectory("now_right", said("7"), correct=0.0),
        runs.trajectory("now_wrong", said("5"), correct=1.0),
        runs.trajectory("ungraded", said("7")),
    )
    for id_ in ("now_right", "now_wrong", "ungraded"):
        decide(folder, id_, "keep", answer="7")
    kept = curated(runs, folder).kept
    assert [trajectory.task.answer for trajectory in kept] == ["7", "7", "7"]
    assert [[score.value for score in trajectory.scores] for trajectory in kept] == [[1.0], [0.0], []]
    assert kept[0].task.question == "What is now_right?"


def test_only_a_question_that_nobody_played_is_corrected(runs: Runs) -> None:
    folder = runs.write(runs.trajectory("played"))
    decide(folder, "played", "keep", question="Which colour?")
    with pytest.raises(SettingsError, match="the question of played was corrected after it was played"):
        curated(runs, folder)
    runs.write(runs.trajectory("new").model_copy(update={"turns": ()}))
    decide(folder, "new", "keep", question="Which colour?")
    task = curated(runs, folder).kept[0].task
    assert (task.question, task.answer) == ("Which colour?", "5")


def test_a_choice_is_corrected_to_one_of_the_choices(runs: Runs) -> None:
    folder = runs.write(runs.trajectory("a", task=COLOURS))
    decide(folder, "a", "keep", answer="green")
    with pytest.raises(SettingsError, match=r"'green' is none of the choices \['red', 'blue'\]"):
        curated(runs, folder)
    decide(folder, "a", "keep", answer="blue")
    assert curated(runs, folder).kept[0].task.answer == "blue"
