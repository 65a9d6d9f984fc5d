"""Tasks for every grader, and the shapes of gold answers that property tests draw."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from saccade.grading.registry import GRADERS, load_grader
from saccade.record.task import AnswerType, Task

NUMBERS = ("number@1", "number-rounded@1", "number-1pct@1", "count@1", "relaxed@1", "mra@1", "math@1")
TEXTS = ("text@1", "anls@1", "anls-published@1", "vqa@1", "relaxed@1")
LISTS = ("list@1", "set@1")
WORD = st.text("bcdfghjklmpqrstvwz", min_size=3, max_size=8)
"""Without vowels, so that no draw is a number word, a negation or an article."""
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
OPTIONS = st.lists(PHRASE, min_size=2, max_size=6, unique=True).map(tuple)
ALL = GRADERS.ids()


@dataclass(frozen=True)
class Gold:
    """A grader's id with a gold answer that it can read."""

    grader: str
    answer: str
    choices: tuple[str, ...] = ()

    def grade(self, answer: str | None) -> float:
        return load_grader(self.grader).grade(answer, self.task).correct

    @property
    def task(self) -> Task:
        kind = AnswerType.CHOICE if self.choices else AnswerType.TEXT
        return Task(id="task", question="What is it?", answer=self.answer, choices=self.choices, answer_type=kind)


NUMBER_GOLDS = st.builds(Gold, st.sampled_from(NUMBERS), st.integers(1, 10**6).map(str))
YEAR_GOLDS = st.builds(Gold, st.just("year@1"), st.integers(1000, 2999).map(str))
TEXT_GOLDS = st.builds(Gold, st.sampled_from(TEXTS), PHRASE)
LIST_GOLDS = st.builds(Gold, st.sampled_from(LISTS), st.lists(WORD, min_size=2, max_size=5, unique=True).map(", ".join))
CHOICE_GOLDS = OPTIONS.flatmap(
    lambda options: st.sampled_from(options).map(lambda gold: Gold("choice@1", gold, options))
)
YES_NO_GOLDS = st.builds(Gold, st.just("yes-no@1"), st.sampled_from(("yes", "no")))
BOX_GOLDS = st.builds(
    lambda grader, x, y, w, h: Gold(grader, f"[{x}, {y}, {x + w}, {y + h}]"),
    st.sampled_from(("box@1", "iou@1")),
    *(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500), st.integers(1, 500)),
)
ANY_GOLD = st.one_of(NUMBER_GOLDS, YEAR_GOLDS, TEXT_GOLDS, LIST_GOLDS, CHOICE_GOLDS, YES_NO_GOLDS, BOX_GOLDS)

EXAMPLES = (
    *(Gold(grader, "42") for grader in NUMBERS),
    Gold("year@1", "2010"),
    *(Gold(grader, "stop sign") for grader in TEXTS if grader != "relaxed@1"),
    *(Gold(grader, "red, green") for grader in LISTS),
    Gold("choice@1", "cat", ("dog", "cat", "bird")),
    Gold("yes-no@1", "yes"),
    Gold("box@1", "[1, 2, 30, 40]"),
    Gold("iou@1", "[1, 2, 30, 40]"),
    Gold("point@1", "[1, 2, 30, 40]"),
)
"""One gold answer for every grader that is registered."""
