"""What is demonstrated: real looks, real programs, answers that need no gold where a program finds them."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from tests.plugins.worlds.experts.cases import NEAR

from saccade.dialects.registry import load_dialect
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.plugins.worlds.canvas import GRIDS, holds_middle, parts
from saccade.plugins.worlds.experts.demonstrator import first_action, given_first, looks
from saccade.record.content import Answer, Code
from saccade.tasks.worlds.base import Split, draw_sample, load_world, make_task
from saccade.training.sft.synth.experts import ExpertStopped


def plan_of(world: str, dialect: str, store: RunFolder, index: int = 0, split: Split = "train") -> Plan:
    loaded = load_world(world)
    knobs = loaded.knobs(**NEAR) if world == "visual-search" else None
    return Plan(make_task(loaded, split, index, store.store, knobs), load_dialect(dialect))


def test_a_question_without_code_is_answered_at_once(tmp_path: Path) -> None:
    plan = plan_of("sign-close-up", "tiny:direct", RunFolder(tmp_path))
    assert first_action(plan) == Answer(text=plan.task.answer or "")


def test_of_each_part_the_signs_in_it_are_named(tmp_path: Path) -> None:
    folder, world = RunFolder(tmp_path), load_world("visual-search")
    for index in range(12):
        plan = plan_of("visual-search", "tiny:look", folder, index)
        task = plan.task
        notes = draw_sample(world, "train", index, world.knobs(**NEAR)).notes
        first, *others, answer = looks(plan, notes)
        assert answer == Answer(text=task.answer or "")
        assert isinstance(first, Code)
        assert first.code.startswith(f"asked = ['{notes['plate']}']\n")
        part = task.media[0].part
        view, on, closer = (0, 0, part.width, part.height), 0, 0
        for look in others:
            assert isinstance(look, Code)
            said = look.code.partition("\n")[0].removeprefix("seen = ")
            shown = parts(view, GRIDS[closer])[on]
            places = [line.split() for line in notes["signs"].splitlines()]
            inside = sorted({name for name, *box in places if holds_middle(shown, tuple(map(int, box)))})  # type: ignore[arg-type]
            assert said == repr(", ".join(inside) or "none")
            found = notes["plate"] in inside
            view, on, closer = (shown, 0, closer + 1) if found else (view, on + 1, closer)
        assert closer == len(GRIDS)
        assert holds_middle(view, task.evidence[0].xyxy)


def test_a_sign_that_its_colour_does_not_tell_is_not_looked_for(tmp_path: Path) -> None:
    plan = plan_of("visual-search", "tiny:look", RunFolder(tmp_path))
    with pytest.raises(ExpertStopped, match="several red signs"):
        looks(plan, {"plate": "red", "signs": "red 1 1 9 9\nblue 20 20 28 28\nred 40 40 48 48"})
    with pytest.raises(ExpertStopped, match="no part"):
        looks(plan, {"plate": "red", "signs": "red -1000 1 -990 9"})


def test_a_program_depends_on_the_wording_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    by_question: dict[str, set[str]] = {}
    for index in range(12):
        plan = plan_of("touching-circles", "tiny:look", folder, index)
        action = first_action(plan)
        assert isinstance(action, Code)
        by_question.setdefault(plan.task.question, set()).add(action.code)
    assert all(len(programs) == 1 for programs in by_question.values())


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
