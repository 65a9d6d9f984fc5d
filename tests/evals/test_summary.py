"""A run beside published models on the same tasks."""

import json
from pathlib import Path

import pytest
from PIL import Image
from tests.evals.rows import row
from tests.evals.support import settings
from tests.plugins.worlds.solvers.drawing import FOLDER, needs_files

from saccade.evals.summary import OURS, beside_text, compared, published_beside
from saccade.tasks.benchmarks.registry import load_card, open_benchmark, published_answers

ANSWERS = {
    "a": {"gpt-4o": True, "sonnet3.5": False},
    "b": {"gpt-4o": False, "sonnet3.5": False},
    "c": {"gpt-4o": False},
}


def test_models_are_compared_on_the_tasks_that_were_played() -> None:
    rows = [
        row("a", 1.0, source="made-up@1", tags=("task=lines",)),
        row("b", 0.0, source="made-up@1", tags=("task=lines",)),
        row("c", 1.0, source="made-up@1", tags=("task=squares",)),
        row("not told", 0.0, source="made-up@1", tags=("task=lines",)),
    ]
    all_rows, lines, squares = compared("made-up@1", rows, ANSWERS)
    assert (all_rows.name, all_rows.tasks) == ("made-up@1", 3)
    assert all_rows.shares == {OURS: pytest.approx(2 / 3), "gpt-4o": pytest.approx(1 / 3), "sonnet3.5": None}
    assert (lines.name, lines.tasks) == ("task=lines", 2)
    assert lines.shares == {OURS: 0.5, "gpt-4o": 0.5, "sonnet3.5": 0.0}
    assert squares.shares == {OURS: 1.0, "gpt-4o": 0.0}
    assert compared("made-up@1", rows[3:], ANSWERS) == []
    text = beside_text([all_rows, lines, squares]).splitlines()
    assert " ".join(text[2].split()) == "| tasks of | n | this run | gpt-4o | sonnet3.5 |"
    assert " ".join(text[-1].split()) == "| task=squares | 1 | 100.0 | 0.0 | – |"


def _blindtest(folder: Path) -> None:
    Image.new("RGB", (8, 8)).save(folder / "p.png")
    rows = [
        {"id": "x", "image": "p.png", "prompt": "How many?", "groundtruth": "3", "published": {"Sonnet-3.5": True}},
        {"id": "y", "image": "p.png", "prompt": "How many?", "groundtruth": "3", "published": {"sonnet3.5": False}},
        {"id": "z", "image": "p.png", "prompt": "How many?", "groundtruth": "3"},
    ]
    lines = "".join(json.dumps(item) + "\n" for item in rows)
    (folder / "blindtest.jsonl").write_text(lines + "{no json\n", encoding="utf-8")


def test_one_model_has_one_spelling(tmp_path: Path) -> None:
    _blindtest(tmp_path)
    found = published_answers(open_benchmark(load_card("blindtest"), tmp_path))
    assert found == {"blindtest@1/x": {"Sonnet-3.5": True}, "blindtest@1/y": {"Sonnet-3.5": False}}


def test_only_benchmarks_that_tell_it_have_a_part(tmp_path: Path) -> None:
    rows = [row("blindtest@1/x", 1.0, source="blindtest@1")]
    asked = settings("blindtest", data=str(tmp_path))
    assert published_beside(asked) == {}  # the data are gone
    _blindtest(tmp_path)
    ((source, answers),) = published_beside(asked).items()
    (all_rows,) = compared(source, rows, answers)
    assert (all_rows.tasks, all_rows.shares) == (1, {OURS: 1.0, "Sonnet-3.5": 1.0})
    assert published_beside(settings("maze", n=1)) == {}
    assert published_beside(settings("vstar", data=str(tmp_path))) == {}


@needs_files
def test_the_real_files_tell_what_models_answered() -> None:
    found = published_answers(open_benchmark(load_card("blindtest"), FOLDER))
    assert len(found) == 200
    assert all("gpt-4o" in names for names in found.values())
    assert len({model for names in found.values() for model in names if "sonnet" in model.casefold()}) == 2
