"""Formulas drawn with an algebra system, rewritten or changed: the grader pays what is equal and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
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


def plain(formula: Any) -> str:
    return str(formula).replace("**", "^")
