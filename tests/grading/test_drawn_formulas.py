"""Formulas drawn with an algebra system, rewritten or changed: the grader pays what is equal and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task

sympy = pytest.importorskip("sympy")
X, A, N, B = sympy.symbols("x a n b")
FORMS = (
    "{}",
    "${}$",
    "\\boxed{{{}}}",
    "The answer is ${}$.",
    "**Answer:** ${}$",
    "Therefore, {}.",
    "<answer>{}</answer>",
)
KINDS = {"value": "{}", "y": "y = {}", "function": "f(x) = {}", "equation": "{} = 0"}


def drawn(rng: random.Random) -> Any:
    letter = rng.choice((X, A, N))

    def some() -> int:
        return rng.choice((-5, -4, -3, -2, -1, 1, 2, 3, 4, 5))

    forms: tuple[Callable[[], Any], ...] = (
        lambda: some() * letter + some(),
        lambda: letter**2 + some() * letter + some(),
        lambda: (letter + some()) * (letter + some()),
        lambda: some() / (letter + some()),
        lambda: sympy.sqrt(letter + some()),
        lambda: some() * sympy.sqrt(2 * abs(some()) + 1) + some(),
        lambda: sympy.Rational(some(), 7),
        lambda: some() * sympy.pi + some(),
        lambda: some() * letter + some() * B,
        lambda: sympy.sin(letter) * some() + some(),
        lambda: sympy.Rational(some(), 3) * letter + some(),
    )
    return rng.choice(forms)()


def changed(formula: Any, rng: random.Random) -> Any:
    letter = next(iter(sorted(formula.free_symbols, key=str)), None)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: -formula,
        lambda: formula + rng.choice((-2, -1, 1, 2)),
        lambda: formula.subs(letter, -letter) if letter else 2 * formula,
        lambda: formula.subs(letter, letter + 1) if letter else formula + 1,
        lambda: formula.replace(lambda part: part.is_Integer and abs(part) > 1, lambda part: -part),
        lambda: formula.replace(lambda part: part.is_Rational and not part.is_Integer, lambda part: 1 / part),
    )
    return rng.choice(ways)()


def are_equal(first: Any, second: Any, kind: str) -> bool:
    if sympy.simplify(first - second) == 0:
        return True
    return kind == "equation" and bool(sympy.simplify(first / second).is_number)


@pytest.mark.parametrize(
    "seed", [pytest.param(1, id="few"), *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 8))]
)
def test_an_equal_formula_is_right_and_another_one_wrong(seed: int) -> None:
    rng, grader, misread = random.Random(seed), load_grader("math"), []
    for _ in range(60 if seed == 1 else 1_000):
        gold = drawn(rng)
        same = rng.random() < 0.4
        said = rng.choice((sympy.expand, sympy.factor, sympy.together))(gold) if same else changed(gold, rng)
        kind = rng.choice(tuple(KINDS)) if gold.free_symbols and said.free_symbols else "value"
        spelt = [KINDS[kind].format(rng.choice((sympy.latex, plain))(one)) for one in (gold, said)]
        answer = rng.choice(FORMS).format(spelt[1])
        task = Task(id="drawn", question="Find it.", answer=spelt[0], answer_type=AnswerType.TEXT)
        if grader.grade(answer, task).accepted != are_equal(gold, said, kind):
            misread.append((spelt[0], answer))
    assert misread == []


Region = tuple[Fraction | None, bool, Fraction | None, bool]
"""An interval: its lower end, None for infinity, whether that belongs to it, and the same of the upper one."""


def region(rng: random.Random) -> Region:
    low, high = sorted(Fraction(rng.randint(-9, 9), rng.choice((1, 2, 3, 4))) for _ in range(2))
    kind = rng.randint(0, 2)
    if kind == 0:
        return None, False, high, rng.random() < 0.5
    return low, rng.random() < 0.5, (None if kind == 1 else high + 1), kind == 2 and rng.random() < 0.5


def other_region(one: Region, rng: random.Random) -> Region:
    low, has_low, high, has_high = one
    ways = (
        (low, has_low != (low is not None), high, has_high),
        (low, has_low, high, has_high != (high is not None)),
        (None if high is None else -high, has_high, None if low is None else -low, has_low),
        (low and low - 1, has_low, high and high + Fraction(1, 2), has_high),
    )
    return rng.choice(ways)


def spelt_region(one: Region, rng: random.Random) -> str:
    low, has_low, high, has_high = one
    infinity = rng.choice(("\\infty", "∞"))
    ends = f"-{infinity}" if low is None else number(low, rng), infinity if high is None else number(high, rng)
    interval = f"{'[' if has_low else '('}{ends[0]}, {ends[1]}{']' if has_high else ')'}"
    signs = [rng.choice(("\\le", "≤", "<=")) if has else "<" for has in (has_low, has_high)]
    sides = ("" if low is None else f"{ends[0]} {signs[0]} ") + "x" + ("" if high is None else f" {signs[1]} {ends[1]}")
    return rng.choice((interval, f"x \\in {interval}", sides, f"\\{{x \\mid {sides}\\}}"))


def number(value: Fraction, rng: random.Random) -> str:
    over, under = abs(value.numerator), value.denominator
    forms = [f"{over}/{under}", f"\\frac{{{over}}}{{{under}}}"] + ([str(over / under)] if under in (2, 4) else [])
    return ("-" if value < 0 else "") + (str(over) if under == 1 else rng.choice(forms))


@pytest.mark.parametrize("seed", [pytest.param(1, id="few"), pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_part_of_the_line_is_right_and_another_one_wrong(seed: int) -> None:
    rng, grader, misread = random.Random(seed), load_grader("math"), []
    for _ in range(50 if seed == 1 else 1_000):
        gold = region(rng)
        said = gold if rng.random() < 0.5 else other_region(gold, rng)
        texts = spelt_region(gold, rng), rng.choice(FORMS).format(spelt_region(said, rng))
        task = Task(id="drawn", question="Find it.", answer=texts[0], answer_type=AnswerType.TEXT)
        if grader.grade(texts[1], task).accepted != (said == gold):
            misread.append(texts)
    assert misread == []


def plain(formula: Any) -> str:
    return str(formula).replace("**", "^")
