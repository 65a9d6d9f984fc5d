"""What a program takes from its question comes first, and nothing else changes."""

import contextlib
import io

import pytest

from saccade.sft.experts.given import given_first
from saccade.tasks.worlds.base import draw_sample
from saccade.tasks.worlds.registry import load_world


def printed(code: str, **names: object) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, dict(names))
    return out.getvalue().strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "question", "choices", "wanted"),
    [
        ("print(f('Oven'))", "How large is Oven?", (), "asked = ['Oven']\nprint(f(asked[0]))"),
        ("f('b', 'a')\nf('b')", "Of a and b?", (), "asked = ['a', 'b']\nf(asked[1], asked[0])\nf(asked[1])"),
        ("print(max(['x', 'y'], key=f))", "Which?", ("x", "y"), "choices = ['x', 'y']\nprint(max(choices, key=f))"),
        ("print(n > 7.5)", "More than 7.5%?", (), "asked = [7.5]\nprint(n > asked[0])"),
        ("print(n > 7.5)", "More than 17.5%?", (), "print(n > 7.5)"),
        ("a = 3\nprint(a)", "Of these 3, which?", (), "a = 3\nprint(a)"),
        ("print(a[0])", "From 0 to 9?", (), "print(a[0])"),
        ("print('dot', x)", "Where is the dot?", (), "print('dot', x)"),
        (
            "HUES = {'red': 0}\nprint(HUES['red'])",
            "How red?",
            (),
            "asked = ['red']\nHUES = {'red': 0}\nprint(HUES[asked[0]])",
        ),
        ("def f():\n    return 'red'\nprint(f())", "How red?", (), "def f():\n    return 'red'\nprint(f())"),
        ("print('°', 'é' + 'red')", "How red?", (), "asked = ['red']\nprint('°', 'é' + asked[0])"),
        (
            "from __future__ import annotations\nprint(f('a'))",
            "Is a?",
            (),
            "from __future__ import annotations\nasked = ['a']\nprint(f(asked[0]))",
        ),
    ],
)
def test_texts_numbers_and_choices_of_the_question_come_first(
    code: str, question: str, choices: tuple[str, ...], wanted: str
) -> None:
    assert given_first(code, question, choices) == wanted


@pytest.mark.parametrize("world", ["chart-bar", "chart-pie", "table-arithmetic", "pixel-colour", "path-follow", "maze"])
@pytest.mark.few(1)
def test_the_program_still_finds_the_answer(world: str) -> None:
    for index in range(5):
        sample = draw_sample(load_world(world), "test", index)
        code = given_first(sample.program, sample.question, sample.choices)
        assert printed(code, **sample.media) == sample.answer


@pytest.mark.parametrize("world", ["chart-bar", "chart-line", "chart-pie", "chart-scatter", "table-arithmetic"])
@pytest.mark.few(2)
def test_what_follows_depends_on_the_kind_of_question_alone(world: str) -> None:
    """Nothing of a program has to be read off the picture."""
    ends = set()
    for index in range(60):
        sample = draw_sample(load_world(world), "train", index)
        code = given_first(sample.program, sample.question, sample.choices)
        ends.add("\n".join(line for line in code.splitlines() if not line.startswith(("asked = ", "choices = "))))
    assert len(ends) <= 30
