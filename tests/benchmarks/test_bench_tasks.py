"""The benchmark of sources opens what it says and measures it; no figure is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import tasks
from benchmarks.__main__ import app
from benchmarks.tasks import TasksScale
from saccade.cli.main import run
from saccade.errors import DataError


@pytest.mark.slow
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "QUICK_TASKS", TasksScale(tasks=40, pictures=4))
    file = tmp_path / "tasks.json"
    assert run(app, ["tasks", "--quick", "--out", str(file)], "benchmarks") == 0
    figures = json.loads(file.read_text())["figures"]
    assert [figure["unit"] for figure in figures] == ["s", "MiB"] * 3
    assert all(figure["value"] > 0 and figure["met"] is None for figure in figures)
    assert all("40 tasks" in figure["name"] for figure in figures[::2])


def test_a_source_that_gives_fewer_tasks_is_no_figure(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "?"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="gave 1 tasks of 2"):
        tasks._opened(tmp_path / "rows.jsonl", 2)


@pytest.mark.slow
def test_the_memory_is_that_of_the_opening_and_not_of_who_asked_for_it(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "rows.jsonl").write_text('{"question": "?", "answer": "1", "image": "a.png"}\n', encoding="utf-8")
    held = b"\1" * (700 << 20)
    assert 10 < tasks._opened(tmp_path / "rows.jsonl", 1)[1] < 600 < len(held) >> 20
