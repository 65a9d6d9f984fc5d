"""`python -m benchmarks lazy`: what each grader pays policies that look at nothing.

A policy sees the question and its options at most. Golds are a hand-made set for each grader and, in a folder, those of
TabMWP, Geometry3K and BlindTest, every tenth question of a set of more than 200. A constant earns the share of the
golds that it is; whatever earns more than a guess would is a fault of a grader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.table import Table

from saccade.errors import DataError, GradingError
from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its grader."""

    grader: str
    task: Task


def _longest(task: Task) -> str:
    return max(task.choices, key=len, default="")


def _numbers(task: Task) -> str:
    return _last(re.compile(r"-?[0-9]+(?:\.[0-9]+)?"), task)


def _formula(task: Task) -> str:
    return _last(re.compile(r"[-+0-9a-zA-Z^*/().\\{}]*\s?[=<>]\s?[-+0-9a-zA-Z^*/().\\{}]+"), task)


def _last(form: re.Pattern[str], task: Task) -> str:
    return ([match[0] for match in form.finditer(task.question)] or [""])[-1]


def _always(text: str) -> Callable[[Task], str]:
    return lambda task: text


POLICIES: Final[Mapping[str, Callable[[Task], str]]] = {
    **{f"`{text}`": _always(text) for text in ("0", "1", "=0", "x=0", "y=1", "A", "yes", "no")},
    "empty": lambda task: "",
    "last number of the question": _numbers,
    "its equation": _formula,
    "the question": lambda task: task.question,
    "the question in tags": lambda task: f"<answer>{task.question}</answer>",
    "its last sentence": lambda task: re.split(r"(?<=[.?!])\s+", task.question)[-1],
    "all options": lambda task: ", ".join(task.choices) or "A, B, C, D",
    "the longest option": _longest,
    "0, 1, 2, 3, 4, 5": lambda task: "0, 1, 2, 3, 4, 5",
    "all options, boxed": lambda task: " ".join(f"\\boxed{{{one}}}" for one in task.choices) or "\\boxed{0,1,2,3}",
    **{f"`{text}`": _always(text) for text in ("0 or 1", "0 to 1000", "x=x", "nan", "[0, 0, 9999, 9999]")},
    "it cannot be said": lambda task: "The answer cannot be determined from the picture.",
}
"""Answers by name; none looks at a picture."""

_QUESTIONS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "math": (
        ("Solve 2x = 6.", "x=3"),
        ("Solve x^2 = 4.", "x=\\pm 2"),
        ("Write the circle about the origin with radius 5.", "x^2+y^2=25"),
        ("Which line is parallel to 3x - y + 1 = 0?", "3x-y+13=0"),
        ("Bring 6x - 2y + 26 = 0 into its shortest form's normal.", "\\frac{x}{2}+y=7"),
        ("Which parabola is drawn?", "y=x^2"),
        ("Where is -2x < 4?", "x>-2"),
        ("Where is x^2 < 9?", "(-3,3)"),
        ("Which ellipse is drawn?", "\\frac{x^2}{4}+y^2=1"),
        ("Which hyperbola is drawn?", "x^2-y^2=1"),
        ("Which function is drawn?", "f(x)=2x+1"),
        ("Solve x + y = 3, x - y = 1.", "x=2, y=1"),
        ("Which point is marked?", "(1,2)"),
        ("What is the area?", "6\\pi"),
        ("What is the diagonal of 5 by 5?", "5\\sqrt{2}"),
        ("How likely is it?", "e^{-40}"),
        ("Give the matrix.", "\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}"),
        ("Which is its zero set?", "xy=0"),
        ("Which plane is it?", "x+y+z=0"),
        ("Which identity holds?", "\\sin^2 x+\\cos^2 x=1"),
        ("Where are the roots?", "\\{0,1\\}"),
        ("What are both roots?", "x=0 or x=1"),
        ("How long is it for n = 2?", "a_n=2n"),
        ("What is the ratio 4:8?", "1:2"),
    ),
    "number": (("How long?", "7 cm"), ("How much of 20?", "35%"), ("How deep?", "-3"), ("How far?", "0.001")),
    "number-rounded": (("How long?", "2.75"), ("How many?", "12")),
    "count": (("How many of the 8 are red?", "3"), ("How many?", "5")),
    "year": (("Since 1990, when?", "2004"),),
    "relaxed": (("How high?", "42"), ("Which year?", "2010"), ("Which one?", "Top 5")),
    "mra": (("How many chairs?", "6"), ("How far in m?", "3.4")),
    "text": (("What does it say?", "EXIT 12"), ("Which colour?", "red"), ("When?", "2:10")),
    "list": (("Which are red?", "[1, 4]"), ("Which states?", "[Ohio, Iowa]")),
    "set": (("Which are red?", "[1, 4]"), ("Which states?", "[Ohio, Iowa]")),
    "anls": (("What does it say?", "exit only"), ("What is the total?", "1200")),
    "anls-published": (("What does it say?", "exit only"), ("What is the total?", "1200")),
    "vqa": (("Which animal?", '["cat", "cat", "kitten", "cat"]'), ("Is it 1 or 10?", '["10", "10", "10", "10"]')),
    "box": (("Where is the cup?", "[20, 30, 60, 90]"),),
    "iou": (("Where is the cup?", "[20, 30, 60, 90]"),),
}
_OPTIONS: Final = (("red", "green", "dark blue"), ("10", "1", "0"), ("yes", "no", "it cannot be told"))


def by_hand() -> Iterator[Item]:
    """Yield the hand-made questions; each option of a choice is gold once, and so are yes and no."""
    for grader, rows in _QUESTIONS.items():
        for number, (question, gold) in enumerate(rows):
            yield Item(grader, Task(id=f"{grader}-{number}", question=question, answer=gold))
    for options in _OPTIONS:
        for gold in options:
            task = Task(id=gold, question="Which one?", choices=options, answer=gold, answer_type=AnswerType.CHOICE)
            yield Item("choice", task)
    for gold in ("yes", "no"):
        task = Task(id=gold, question="Is it?", answer=gold, answer_type=AnswerType.YES_NO)
        yield Item("yes-no", task)


def of_data(folder: Path) -> Iterator[tuple[str, Item]]:
    """Yield the questions of the data sets that `folder` holds, in their published forms, each with its set's name.

    Raises:
        DataError: it holds none of them.
    """
    found = False
    for path in sorted(folder.glob("tabmwp/problems_*.json")):
        found = True
        for name, row in json.loads(path.read_text(encoding="utf-8")).items():
            options = tuple(map(str, row.get("choices") or ()))
            kind = AnswerType.CHOICE if options else AnswerType.TEXT
            task = Task(id=name, question=row["question"], choices=options, answer=row["answer"], answer_type=kind)
            yield "tabmwp", Item("choice" if options else "number-rounded", task)
    for path in sorted(folder.glob("geometry3k/*/data.json")):
        found = True
        row = json.loads(path.read_text(encoding="utf-8"))
        options = tuple(map(str, row["choices"]))
        gold = options["ABCD".index(row["answer"])]
        question = row["problem_text"]
        yield "geometry3k", Item("math", Task(id=f"{path.parent.name}m", question=question, answer=gold))
        task = Task(id=path.parent.name, question=question, choices=options, answer=gold, answer_type=AnswerType.CHOICE)
        yield "geometry3k", Item("choice", task)
    for path in sorted(folder.glob("blindtest/*.jsonl")):
        found = True
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            row = json.loads(line)
            gold = str(row["answer"])
            grader = "count" if gold.isdigit() else "text"
            yield (
                "blindtest",
                Item(
                    grader, Task(id=str(number), question=str(row.get("question", row.get("prompt", "?"))), answer=gold)
                ),
            )
    if not found:
        raise DataError(f"{folder} holds none of tabmwp/problems_*.json, geometry3k/*/data.json, blindtest/*.jsonl.")


@dataclass(frozen=True, slots=True)
class Earned:
    """What one policy earned on one set of questions."""

    questions: str
    policy: str
    items: int
    paid: float
    """Sum of the verdicts."""


def earned(items: Sequence[tuple[str, Item]]) -> list[Earned]:
    """Return what each policy earns on each set; questions that cannot be graded are left out of both counts."""
    sets: dict[str, list[Item]] = {}
    for name, item in items:
        sets.setdefault(name, []).append(item)
    thinned = {name: own[::10] if len(own) > 200 else own for name, own in sets.items()}
    return [_earned(name, policy, own) for name, own in thinned.items() for policy in POLICIES]


def _earned(name: str, policy: str, items: Sequence[Item]) -> Earned:
    answered, paid = 0, 0.0
    for item in items:
        try:
            paid += load_grader(item.grader).grade(POLICIES[policy](item.task), item.task).correct
        except GradingError:
            continue
        answered += 1
    return Earned(name, policy, answered, paid)


def lazy_table(rows: Sequence[Earned], best: int = 3) -> Table:
    """Show the policies that earn most on each set, in percent of its questions."""
    shown = Table(title="python -m benchmarks lazy", title_justify="left")
    for column in ("questions", "number", "nothing earned by", "most earned, in %"):
        shown.add_column(column, justify="right" if column == "number" else "left")
    for name in dict.fromkeys(row.questions for row in rows):
        own = sorted((row for row in rows if row.questions == name), key=lambda row: -row.paid)
        paid = [f"{row.policy} {100 * row.paid / row.items:.1f}" for row in own if row.paid][:best]
        none = sum(not row.paid for row in own)
        shown.add_row(name, str(own[0].items), f"{none} of {len(own)} policies", ", ".join(paid))
    return shown
