from __future__ import annotations

from collections import Counter

import pytest

from saccade.grading.registry import grader_for
from saccade.record.task import AnswerType, Task
from saccade.tasks.sources.settings import shuffled

CHOICES = ("red", "green", "blue", "white")


def task(number: int = 0, choices: tuple[str, ...] = CHOICES) -> Task:
    return Task(id=f"t{number}", question="Which?", choices=choices, answer=choices[0], answer_type=AnswerType.CHOICE)


def test_same_seed_same_order_and_the_seed_is_recorded() -> None:
    assert shuffled(task(), 7) == shuffled(task(), 7)
    assert shuffled(task(), 7).tags == ("choices-seed=7",)
    assert sorted(shuffled(task(), 7).choices) == sorted(CHOICES)
    assert len({shuffled(task(), seed).choices for seed in range(30)}) > 10


def test_gold_moves_through_all_places_and_always_a_is_chance() -> None:
    moved = [shuffled(task(number), 0) for number in range(400)]
    places = Counter(one.choices.index("red") for one in moved)
    assert all(60 < places[place] < 140 for place in range(4))
    always_a = sum(grader_for(one).grade("A", one).correct for one in moved)
    assert always_a == places[0]
    assert all(grader_for(one).grade("red", one).accepted for one in moved)


@pytest.mark.parametrize("last", ["All of the above", "None of these", "Both A and B", "A and C", "Neither A nor B"])
def test_options_that_speak_of_others_keep_their_order(last: str) -> None:
    kept = shuffled(task(choices=("red", "green", last)), 3)
    assert kept.choices == ("red", "green", last)
    assert kept.tags == ("choices-kept",)


def test_order_is_fixed_across_versions() -> None:
    assert shuffled(task(), 1).choices == ("red", "blue", "white", "green")


def test_nothing_to_shuffle() -> None:
    alone = Task(id="t", question="q", answer="5")
    assert shuffled(alone, 1) is alone
