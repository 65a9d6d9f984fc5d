"""Questions with several right options: how their answers are read, and what a partial one earns."""

from __future__ import annotations

import json

import pytest
from tests.grading.rows import rows

from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

OPTIONS = ("one", "two", "three", "four", "five")


def credit(
    answer: str, *gold: str, choices: tuple[str, ...] = OPTIONS, grader: str = "choice", question: str = "Which?"
) -> float:
    answers = gold or ("one", "three")
    text = answers[0] if len(answers) == 1 else json.dumps(answers, ensure_ascii=False)
    task = Task(id="t", question=question, answer=text, choices=choices, answer_type=AnswerType.CHOICE)
    return load_grader(grader).grade(answer, task).correct


@rows(
    "answer",
    """A, C#C and A#AC#CA#(A)(C)#(A) and (C)#A、C#A和C#[A, C]#["A","C"]#{"answer": ["A", "C"]}#Answer: A, C#a, c#A/C
    #The answers are A and C.#The correct options are A and C#Options A and C are correct.#\\boxed{A, C}#\\boxed{AC}
    #A. one, C. three#one, three#one and three#<answer>A,C</answer>#(a) and (c)#答案：AC#答案是A和C。#**A**, **C**#A C
    #A and C, not B#I think A and C are right#Therefore, A and C.#<think>AB?</think>AC#正确的有A、C#Both A and C#A & C
    #Las respuestas correctas son A y C#Les bonnes réponses sont A et C#Die richtigen Antworten sind A und C
    #Правильные ответы: A и C""".replace("\n    ", "").split("#"),
)
def test_the_same_set(answer: str) -> None:
    assert credit(answer) == 1


@rows("answer", ["A. one\nC. three", "The correct answers are:\n- A\n- C", "- one\n- three"])
def test_the_same_set_in_lines(answer: str) -> None:
    assert credit(answer) == 1


@rows(
    "answer",
    "A|B|A, B, C|A or C|A and maybe C|ABC|not A and C|A, C, E|AAC|ACME|A cat|I|A, C?|A, C, Z|one|A或C||none".split("|"),  # noqa: SIM905
)
def test_another_set_or_none(answer: str) -> None:
    assert credit(answer) == 0


def test_one_right_option_is_no_set() -> None:
    assert credit("A", "one") == 1
    assert credit("A, C", "one") == 0


@rows(
    ("rule", "answer", "expected"),
    [
        ("none", "A", 0),
        ("share", "A", 1 / 2),
        ("share", "A, B", 0),
        ("share", "A, C", 1),
        ("share", "A, B, C", 0),
        ("jaccard", "A", 1 / 2),
        ("jaccard", "A, B", 1 / 3),
        ("jaccard", "A, B, C", 2 / 3),
        ("jaccard", "B", 0),
    ],
)
def test_partial_credit_is_the_rule_of_the_card(rule: str, answer: str, expected: float) -> None:
    assert credit(answer, grader=f"choice:partial={rule}") == pytest.approx(expected)


@rows("answer", ["Ответ: Б", "Б", "(Б)", "Б) кот", "кот", "Правильный ответ - Б.", "B"])
def test_letters_that_the_options_have(answer: str) -> None:
    choices = ("А) пёс", "Б) кот", "В) лис")
    assert credit(answer, choices[1], choices=choices) == 1
    assert credit(answer, choices[2], choices=choices) == 0


@rows("answer", ["Ответ: Б", "Б", "(Б)"])
def test_letters_that_the_options_do_not_have(answer: str) -> None:
    assert credit(answer, "two") == 0


@rows("answer", ["الإجابة هي (ب)", "ب", "الجواب: ب", "قطة"])
def test_letters_that_the_question_gives_them(answer: str) -> None:
    question = "ما هذا؟ أ) كلب ب) قطة"
    assert credit(answer, "قطة", choices=("كلب", "قطة"), question=question) == 1


@rows("answer", ["①③", "①、③", "AC", "①和③"])
def test_numbers_in_circles(answer: str) -> None:
    assert credit(answer, "①猫", "③鸟", choices=("①猫", "②狗", "③鸟")) == 1


@rows(("answer", "right"), [("1.5", 1), ("B", 0), ("1", 0), ("-1", 0)])
def test_decimals_are_no_labels(answer: str, right: float) -> None:
    assert credit(answer, "1.5", choices=("1.5", "2.5", "3.5")) == right
