"""Random and hostile answers: no grader raises for one, and none takes a second of processor time."""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from saccade.errors import GradingError
from saccade.grading.registry import GRADERS, load_grader
from saccade.record.task import AnswerType, Task

pytestmark = pytest.mark.slow

PIECES = (
    *r"""
        0 1 2 7 10 -3 1,234 3.14 1e9 1/3 x y AB f(x) theta pi e i = == < > <= >= != + - * / ^ ** ! % ( ) [ ] { } | , ;
        : . \frac{1}{2} \sqrt{2} \frac \sqrt{ \pm \cup \in \le \infty \{ \} \begin{cases} \end{cases} \\ & \boxed{
        \text{ $ A B. (C) yes no none not or and about the answer is Answer: <answer> </answer> <think> </think>
        cm kg years 'a'
    """.split(),  # noqa: SIM905
    *("\n", "  ", "\u200b", "½", "²", "°", "±", "∪", "∞", "٣", "𝟗", "\ud800", "\x00"),
    *("e.g. {3}", "**5**", "x" * 300, "(" * 40, "9" * 90, "[1, 2]"),
)
GOLDS = (
    *("5", "x=3", "x^2+y^2=25", "[1, 2]", "2010", "0.5", "50%", "(1,2)", "red", "[10, 20, 30, 40]"),
    *(r"\sqrt{2}", "x>3"),
)


@contextmanager
def one_second() -> Iterator[None]:
    """Interrupts what takes more than a second of this process's time, in which no garbage of others is looked for."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError("more than a second of processor time")

    before = signal.signal(signal.SIGVTALRM, late)
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        gc.enable()
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("grader", GRADERS.ids())
def test_no_answer_raises_or_takes_long(grader: str) -> None:
    _readable(grader)
    chance = random.Random(grader)
    for _ in range(400):
        gap = chance.choice(("", " "))
        answer = gap.join(chance.choices(PIECES, k=chance.randint(1, 30))) * chance.choice((1, 1, 1, 40))
        gold = chance.choice(GOLDS)
        choices = (gold, "blue", "7") if grader.startswith("choice") else ()
        kind = AnswerType.CHOICE if choices else AnswerType.TEXT
        task = Task(id="fuzz", question="Which?", answer=gold, choices=choices, answer_type=kind)
        with one_second():
            try:
                assert 0 <= load_grader(grader).grade(answer, task).correct <= 1
            except GradingError:
                continue  # this grader cannot read the gold answer


HOSTILE_UNITS = (
    *(
        "答案是",
        "答案：",
        "答えは",
        "정답은 ",
        "ответ ",
        "الإجابة ",
        "उत्तर ",
        "คำตอบคือ",
        "la réponse ",
        "die richtige ",
    ),
    *(
        "the answer is ",
        "Answer: ",
        "\\boxed{",
        "{",
        '{"answer": "',
        "no, wait ",
        "不对，",
        "(A) ",
        "A or ",
        "1 ",
        "1,",
    ),
    *(
        "<think>",
        "<answer>",
        "<answer>B</answer>",
        "B\n",
        "yes ",
        "不是",
        "twenty ",
        '{"bbox_2d": [1,2,3,4]},',
        "(1, 2) ",
    ),
    *(
        "x=",
        "\\pm ",
        "\\frac{1}",
        "and ",
        "a: ",
        "...",
        "**",
        "**a** ",
        '"a" ',
        "- a\n",
        "1. a\n",
        " ",
        "e\u0301",
        "一",
    ),
    *("Therefore, it is 5. ", "because ", "Which? e.g. {3} "),
)


COUNTED_UNITS = (
    *("answer: #\n", "the answer is #. ", "Answer: # ", "\\boxed{#} ", "{#} ", "**#** ", "**# cm** ", "*#* ", "$#$ "),
    *("<answer>#</answer>", '{"answer": "#"}', "#. a\n", "- # a\n", "(A) #\n", "A. w#\n", "B (w#) ", "option # "),
    *("# of # are #. ", "x_# = #, ", "x = # = # ", "x^# + ", "1/# + ", "\\frac{1}{#} ", "# or ", "so # "),
    *("wait, # ", "no, wait # ", "it is #, not #. ", "it seems #, but ", "I think w#, but ", "so, it is #. "),
    *("yes w#. ", "no w#, ", "There are # w#, ", "w# is # w#, ", "the w# of w# was w#. ", "Step #: w#\n", '"w#" '),
    *("#, ", "#\n", "(#, #) ", "[#, #, #, #]\n", "<box>#,#,#,#</box>", "- w#: #\n", "| # | # |\n", "(w# w#) "),
    *("# 000 ", "#.000.000 ", "1 h # min ", "A# ", "because w# ", "w#: # ", "w# ", "w#\n"),
    *("w#,", "w#", "#", "(#", "#)", "[#", "{#", "$#"),
    *("答案是#。", "有#个,", "中#文字", "sieben w# ", "hundert#x", "w#hundert ", "« w# » ", "é# "),
)
"""Units of which no two are the same, as `#` counts them, so that nothing is known again."""


def _counted(unit: str, length: int) -> str:
    parts, size = list[str](), 0
    while size < length:
        parts.append(unit.replace("#", str(len(parts) + 1)))
        size += len(parts[-1])
    return "".join(parts[:-1])


def _readable(grader: str) -> Task:
    """Return a task that the grader can read, which it has marked once, so that all that it needs is loaded."""
    choices = ("5", "blue", "7") if grader.startswith("choice") else ()
    for gold in ("5", "yes", "2010", "[10, 20, 30, 40]"):
        kind = AnswerType.CHOICE if choices else AnswerType.TEXT
        question = "Which w5 has the w7 of w9 in 2014? e.g. {3}"
        task = Task(id="fuzz", question=question, answer=gold, choices=choices, answer_type=kind)
        try:
            load_grader(grader).grade("5", task)
        except GradingError:
            continue
        return task
    raise AssertionError("no gold answer that this grader reads")


@pytest.mark.parametrize("grader", GRADERS.ids())
def test_no_unit_to_the_longest_answer_takes_long(grader: str) -> None:
    task = _readable(grader)
    for length in (2_000, 33_000, 199_000):
        repeated = (unit * (length // len(unit)) for unit in HOSTILE_UNITS)
        for answer in (*repeated, *(_counted(unit, length) for unit in COUNTED_UNITS)):
            with one_second():
                assert 0 <= load_grader(grader).grade(answer, task).correct <= 1, answer[:40]
