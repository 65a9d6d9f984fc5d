"""Benchmarks by their cards: which rows a run takes, what it keeps of them, and the numbers that cards ask for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.plugins.worlds.solvers.drawing import FOLDER, needs_files

from saccade.errors import DataError, RegistryError, SettingsError
from saccade.evals.api import open_evaluation
from saccade.evals.grades import open_failures
from saccade.evals.metrics import Tagged, TaskResult, card_numbers, we_math
from saccade.evals.rows import read_rows
from saccade.evals.run import evaluate, open_sources
from saccade.plugins.worlds.experts.demonstrator import SolverModel
from saccade.tasks.benchmarks.card import Metric

from .rows import row
from .support import oracle, settings, stored

CARD = """
id = "made-up@1"
title = "Made up"
split = "test"
media = "image"
prompt = "choice"
answer_type = "number"
[source]
name = "nobody/made-up"
url = "https://example.org"
get = "nothing can be done"
[loader]
id = "rows@1"
files = ["rows.jsonl"]
[fields]
id = "name"
question = "ask"
images = "picture"
choices = "options"
answer = "gold"
tags = { kind = "kind" }
[choices]
order = "ORDER"
[graders]
choice = "choice@1"
number = "number-rounded@1"
"""


def write_benchmark(folder: Path, count: int = 10, order: str = "given", **graders: str) -> Path:
    """A card and, beside it, its data; every third row has no choices."""
    data = folder / "made-up"
    data.mkdir(parents=True)
    rows = []
    for number in range(count):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(data / f"{number}.png")
        options = None if number % 3 == 0 else [str(number), "a dog", "a cat"]
        rows.append({"name": f"r{number}", "ask": "Which?", "picture": f"{number}.png", "options": options})
        rows[-1] |= {"gold": str(number), "kind": "even" if number % 2 == 0 else "odd"}
    (data / "rows.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    card = folder / "card.toml"
    card.write_text(CARD.replace("ORDER", order))
    return card


def taken(run: Path) -> list[str]:
    return [item.task.removeprefix("made-up@1/") for item in read_rows(run)]


async def test_a_benchmark_is_played_and_its_data_may_go(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, order="shuffle")
    wanted = settings(card, data=str(tmp_path), n=6)
    first = await evaluate(wanted, tmp_path / "run", player=oracle)
    assert (first.summary.total.avg, first.summary.total.tasks, first.summary.missing) == (1.0, 6, 0)
    assert set(first.summary.graders) == {"choice@1", "number-rounded@1"}
    assert set(first.summary.tags) >= {"kind=even", "kind=odd"}
    orders = {row.choices for row in read_rows(tmp_path / "run") if row.choices}
    assert len({choices.index("a dog") for choices in orders}) > 1
    for path in (tmp_path / "made-up").glob("*.png"):
        path.unlink()
    again = await evaluate(wanted, tmp_path / "run", player=oracle)
    assert (again.progress.skipped, again.summary) == (6, first.summary)


async def test_chosen_rows_and_shards_add_up(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, 12)
    runs = {}
    for name, changes in {
        "few": {"n": 4},
        "more": {"n": 9},
        "one": {"n": 9, "shard": "1/2"},
        "two": {"n": 9, "shard": "2/2"},
    }.items():
        await evaluate(settings(card, data=str(tmp_path), **changes), tmp_path / name, player=oracle)
        runs[name] = taken(tmp_path / name)
    assert set(runs["few"]) < set(runs["more"])
    assert sorted(runs["one"] + runs["two"]) == sorted(runs["more"])
    pictures = [path for path in (tmp_path / "few" / "media").rglob("*") if path.is_file()]
    assert len(pictures) == 4


async def test_choices_in_every_place_stay_together(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, 4, order="cycle")
    made = await evaluate(settings(card, data=str(tmp_path), n=3), tmp_path / "run", player=oracle)
    none_taken = {name.partition("/")[0]: 0 for name in taken(tmp_path / "run")}
    assert len(none_taken) == 3
    assert made.summary.total.tasks == sum(1 if name in ("r0", "r3") else 3 for name in none_taken)


async def test_a_row_that_gives_no_task_is_told(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, 3)
    (tmp_path / "made-up" / "1.png").unlink()
    made = await evaluate(settings(card, data=str(tmp_path)), tmp_path / "run", player=oracle)
    assert (made.summary.broken_rows, made.summary.missing, made.summary.total.tasks) == (1, 0, 2)
    assert open_evaluation(tmp_path / "run").summary == made.summary
    (failure,) = open_failures(tmp_path / "run", set()).values()
    assert "1.png" in failure.detail


async def test_a_row_that_cannot_be_read_is_told_by_the_first_shard(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path, 3)
    rows, name = tmp_path / "made-up" / "rows.jsonl", f"{'x' * 200}.jsonl"
    rows.with_name(name).write_text("[]\n" + rows.read_text())
    card.write_text(card.read_text().replace("rows.jsonl", name))
    for number, broken in ((1, 1), (2, 0)):
        wanted = settings(card, data=str(tmp_path), shard=f"{number}/2")
        made = await evaluate(wanted, tmp_path / str(number), player=oracle)
        assert (made.summary.broken_rows, made.summary.missing) == (broken, 0)
        assert [len(name) for name in open_failures(tmp_path / str(number), set())] == [200] * broken
    assert sorted(taken(tmp_path / "1") + taken(tmp_path / "2")) == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("media", "dialect", "why"),
    [
        ("videos", "direct", "3 of 3 tasks hold videos .*direct@1"),
        ("images", "pyvision-rl-video", "3 of 3 tasks hold no video .*pyvision-rl-video@1"),
    ],
)
async def test_what_a_dialect_cannot_show_of_a_benchmark_is_refused_at_once(
    media: str, dialect: str, why: str, tmp_path: Path
) -> None:
    card = write_benchmark(tmp_path, 3)
    text = card.read_text().replace('"image"', f'"{media.rstrip("s")}"')
    card.write_text(text.replace("images =", f"{media} ="))
    with pytest.raises(SettingsError, match=why):
        await evaluate(settings(card, data=str(tmp_path), dialect=dialect), tmp_path / "run", player=oracle)
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_is_told_before_a_run_begins(tmp_path: Path) -> None:
    card = write_benchmark(tmp_path)
    shutil.rmtree(tmp_path / "made-up")
    with pytest.raises(DataError, match="nothing can be done"):
        open_sources(settings(card, data=str(tmp_path)))
    text = card.read_text()
    card.write_text(text.replace("number-rounded@1", "number-wrong@1"))
    with pytest.raises(RegistryError, match="number"):
        open_sources(settings(card))
    card.write_text(text.replace('"number-rounded@1"', '{ id = "number@1", parameters = { tolerance = 1 } }'))
    with pytest.raises(SettingsError, match="no parameter of grader number@1: it has relative, absolute"):
        open_sources(settings(card))


def test_numbers_that_cards_ask_for() -> None:
    rows = [
        row("a", 1.0, tags=("task=lines",)),
        row("b", 0.0, tags=("task=lines",)),
        row("c", 1.0, tags=("task=circles",)),
    ]
    assert card_numbers("blindtest@1", rows) == {"mean over task": 0.75}
    assert card_numbers("maze@1", rows) == {}
    assert card_numbers("vstar@1", rows) == {}
    kinds = {
        "object_rel_direction_easy": 1.0,
        "object_rel_direction_hard": 1.0,
        "object_counting": 1.0,
        "route_planning": 0.0,
    }
    typed = [row(kind, value, tags=(f"type={kind}",)) for kind, value in kinds.items()]
    assert card_numbers("vsi-bench@1", typed) == {"mean over type": pytest.approx(2 / 3)}  # the two levels are one type
    groups = [
        row(f"{group}{n}", float(n < right), tags=(f"group={group}",))
        for group, right in (("x", 2), ("y", 1))
        for n in (0, 1)
    ]
    assert card_numbers("dynamath@1", groups) == {"worst case": 0.5}


@pytest.mark.parametrize(
    ("steps", "composite", "strict", "loose"),
    [((1, 1), 1, 1.0, 1.0), ((1, 0), 1, 0.0, 1.0), ((0, 0), 1, 0.0, 0.0), ((1, 1), 0, 0.5, 0.5), ((1, 0), 0, 0.0, 0.0)],
)
def test_the_score_of_we_math(steps: tuple[int, ...], composite: int, strict: float, loose: float) -> None:
    def tagged(variant: str, right: int) -> Tagged:
        return TaskResult(variant, float(right), right, 1, float(right)), {"group": "g", "variant": variant}

    results = [tagged(f"2steps_{number}", right) for number, right in enumerate(steps, 1)]
    found = we_math([*results, tagged("2steps_multi", composite)], Metric())
    assert found == {"We-Math strict": strict, "We-Math loose": loose}
    assert we_math(results, Metric()) == {}


@needs_files
async def test_blindtest_by_its_card(tmp_path: Path) -> None:
    wanted = settings("blindtest", data=str(FOLDER), n=5, dialect="codedance", model="solver")
    made = await evaluate(wanted, tmp_path / "run", workers=2, player=SolverModel)
    assert made.summary.total.avg == 1.0
    assert made.summary.turns == 2
    answers: list[dict[str, Any]] = stored(tmp_path / "run")
    assert all(item["turns"][0]["execution"]["status"] == "ok" for item in answers)


@needs_files
async def test_gold_answers_of_real_data_are_right(tmp_path: Path) -> None:
    sources = ("blindtest", "tabmwp", "geometry3k")
    wanted = settings("", data=str(FOLDER.parent), n=40).model_copy(update={"sources": sources})
    made = await evaluate(wanted, tmp_path, player=oracle)
    assert {name: part.avg for name, part in made.summary.sources.items()} == dict.fromkeys(
        (f"{name}@1" for name in sources), 1.0
    )
    assert (made.summary.ungraded, made.summary.broken_rows, made.summary.missing) == (0, 0, 0)
