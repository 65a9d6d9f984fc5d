"""Circular evaluation: every rotation of the choices is asked, and a question is right if all of them are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image

from saccade.episode.flow import Plan
from saccade.errors import SettingsError
from saccade.evals.api import regrade
from saccade.evals.metrics import CIRCULAR_NUMBER, card_numbers, question_of, whole_questions
from saccade.evals.rows import EvalRow, read_rows
from saccade.evals.run import evaluate
from saccade.evals.stored import merge
from saccade.evals.summary import summary_text
from saccade.tasks.sources.settings import rotations

from .rows import row
from .support import oracle, saying, settings, write_tasks
from .test_benchmarks import write_benchmark


def write_rows(folder: Path) -> Path:
    """Three questions with choices, one whose choices speak of each other, and one without choices."""
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    asked = [
        ("animal", ["a dog", "a cat", "a cow"], "B"),
        ("colour", ["red", "blue"], "red"),
        ("both", ["cups", "plates", "both A and B"], "C"),
        ("fruit", ["fig", "pear", "plum", "lime"], "plum"),
        ("count", None, "7"),
    ]
    rows = [{"id": name, "question": f"{name}?", "image": "a.png", "answer": gold} for name, _, gold in asked]
    for item, (_, choices, _) in zip(rows, asked, strict=True):
        item |= {"choices": choices} if choices else {}  # type: ignore[dict-item]
    (folder / "rows.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    return folder / "rows.jsonl"


def first(plan: Plan) -> str:
    """The first choice, wherever it stands; the gold answer where there are none."""
    return plan.task.choices[0] if plan.task.choices else str(plan.task.answer)


async def test_rows_of_a_user_are_asked_in_every_rotation(tmp_path: Path) -> None:
    wanted = settings(write_rows(tmp_path / "data"), circular=True)
    made = await evaluate(wanted, tmp_path / "run", player=oracle)
    rows = read_rows(tmp_path / "run")
    source = rows[0].source
    assert len(rows) == 3 + 2 + 1 + 4 + 1
    assert (made.summary.total.avg, made.summary.card_numbers) == (1.0, {source: {CIRCULAR_NUMBER: 1.0}})
    orders = {item.choices for item in rows if "animal" in item.task}
    assert orders == {("a dog", "a cat", "a cow"), ("a cat", "a cow", "a dog"), ("a cow", "a dog", "a cat")}
    note = "circular: 5 questions are 11 tasks, one for each rotation of their choices, so this run makes 11 samples "
    assert [line for line in made.progress.notices if line.startswith(note)] == [f"{note}where it would make 5."]


async def test_a_model_that_always_says_the_first_choice_is_right_in_no_question(tmp_path: Path) -> None:
    wanted = settings(write_rows(tmp_path / "data"), circular=True)
    made = await evaluate(wanted, tmp_path / "run", player=saying(first))
    (numbers,) = made.summary.card_numbers.values()
    assert numbers == {CIRCULAR_NUMBER: 1 / 5}, "the count alone"
    assert made.summary.total.avg == pytest.approx((1 + 1 + 0 + 1 + 1) / 11)
    text = summary_text(made.summary)
    assert "circular" in text
    assert "20.0" in text


async def test_a_circular_run_is_resumed_and_counts_whole_questions(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data")
    few = await evaluate(settings(data, circular=True, n=2, seed=1), tmp_path / "run", player=oracle)
    begun = {question_of(item.task) for item in read_rows(tmp_path / "run")}
    assert len(begun) == 2
    assert few.summary.card_numbers
    more = await evaluate(settings(data, circular=True, seed=1), tmp_path / "run", player=oracle)
    assert more.progress.skipped == few.progress.total
    whole = await evaluate(settings(data, circular=True, seed=1), tmp_path / "other", player=oracle)
    assert read_rows(tmp_path / "run") == read_rows(tmp_path / "other")
    assert more.summary == whole.summary
    with pytest.raises(SettingsError, match="circular"):
        await evaluate(settings(data, seed=1), tmp_path / "run", player=oracle)


async def test_shards_of_a_circular_run_are_merged_and_graded_again(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data")
    for number in (1, 2):
        part = settings(data, circular=True, shard=f"{number}/2")
        await evaluate(part, tmp_path / f"s{number}", player=saying(first))
    merged = await asyncio.to_thread(merge, [tmp_path / "s1", tmp_path / "s2"], tmp_path / "all")
    whole = await evaluate(settings(data, circular=True), tmp_path / "whole", player=saying(first))
    assert read_rows(tmp_path / "all") == read_rows(tmp_path / "whole")
    assert list(merged.card_numbers.values()) == list(whole.summary.card_numbers.values()) == [{CIRCULAR_NUMBER: 0.2}]
    again = await asyncio.to_thread(regrade, tmp_path / "all")
    assert (again.changes, again.summary.card_numbers) == ((), merged.card_numbers)


@pytest.mark.parametrize("order", ["circular", "given"])
async def test_a_card_may_ask_for_it_by_one_name(tmp_path: Path, order: str) -> None:
    card = write_benchmark(tmp_path, 6, order)
    wanted = settings(card, data=str(tmp_path), circular=order == "given")
    made = await evaluate(wanted, tmp_path / "run", player=saying(first))
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 4 * 3 + 2
    assert made.summary.total.avg == pytest.approx((4 + 2) / 14)
    assert made.summary.card_numbers["made-up@1"] == {CIRCULAR_NUMBER: pytest.approx(2 / 6)}


async def test_cycles_stay_an_average(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, 6, "cycle")
    made = await evaluate(settings(card, data=str(tmp_path)), tmp_path / "run", player=saying(first))
    assert made.summary.card_numbers == {}
    both = await evaluate(settings(card, data=str(tmp_path), circular=False), tmp_path / "run", player=oracle)
    assert both.progress.skipped == both.progress.total


def test_a_source_without_choices_is_refused(tmp_path: Path) -> None:
    wanted = settings(write_tasks(tmp_path / "tasks", 2), circular=True)
    with pytest.raises(SettingsError, match="no task has choices that can be rotated"):
        asyncio.run(evaluate(wanted, tmp_path / "run", player=oracle))


def test_by_hand() -> None:
    def turn(number: int, correct: float | None, name: str = "q", rollout: int = 0) -> EvalRow:
        return row(f"{name}/circular-{number}", correct, rollout=rollout, choices=("a", "b", "c"))

    cases: list[tuple[list[float | None], float | None]] = [
        ([1, 1, 1], 1),
        ([1, 0, 1], 0),
        ([1, None, 1], None),  # nobody knows
        ([0, None], 0),  # one wrong rotation is enough
        ([1, 1], None),  # one is missing
        ([1, 0.5, 1], 0.5),
        ([None, None, None], None),
    ]
    for credits, expected in cases:
        (whole,) = whole_questions([turn(number, credit) for number, credit in enumerate(credits)])
        assert (whole.task, whole.correct) == ("q", expected), credits
    samples = [
        turn(number, credit, rollout=sample) for sample in (0, 1) for number, credit in enumerate((1, sample, 1))
    ]
    assert card_numbers("mine@1", samples) == {CIRCULAR_NUMBER: 0.5}
    assert whole_questions([row("q", 1.0)]) == []


@pytest.mark.parametrize(
    ("choices", "count"),
    [
        (("a dog", "a cat"), 2),
        (("1", "2", "3", "4", "5"), 5),
        (("A", "B", "C", "D"), 1),
        (("(A)", "(B)"), 1),
        (("B", "A"), 2),
        (("red", "blue", "all of the above"), 1),
        (("x", "y", "Neither A nor B"), 1),
        (("one",), 1),
        ((), 1),
        (("same", "same"), 1),
    ],
)
def test_which_choices_can_be_rotated(choices: tuple[str, ...], count: int) -> None:
    assert rotations(choices) == count
