"""The evaluations in a folder: what is said of each, from its summary or from its samples."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.evals.run import evaluate
from saccade.evals.stored import Listed, is_run, list_runs

from .support import oracle, settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    root = tmp_path_factory.mktemp("runs")
    for name, count in (("one", 2), ("deep/two", 3)):
        asyncio.run(evaluate(settings("circled-letter", n=count), root / name, workers=2, player=oracle))
    (root / "training").mkdir()
    (root / "training" / "settings.toml").write_text('[recipe]\nname = "other"\n')
    (root / "empty").mkdir()
    return root


def test_runs_are_listed_with_their_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {run.name: run for run in list_runs(folder)}
    assert set(found) == {"one", "deep/two"}, "folders of other commands are none"
    one = found["one"]
    assert (one.samples, one.right, one.failed, one.state) == (2, 1.0, 0, "complete")
    assert one.interval == pytest.approx((0.342, 1.0), abs=0.001)
    assert one.sources == ("circled-letter",)
    assert main(["runs", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "| deep/two " in printed
    assert "34.2–100.0" in printed
    assert main(["runs", str(folder), "--json"]) == 0
    assert {run["name"]: run["state"] for run in json.loads(capsys.readouterr().out)} == {
        "one": "complete",
        "deep/two": "complete",
    }


def test_a_run_that_is_not_over_is_told_by_its_samples(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "deep/two/trajectories.jsonl").read_bytes().splitlines(keepends=True)
    run = tmp_path / "begun"
    run.mkdir()
    (run / "settings.toml").write_bytes((folder / "deep/two/settings.toml").read_bytes())
    [none] = list_runs(tmp_path)
    assert (none.samples, none.right, none.state) == (0, None, "not complete")
    (run / "trajectories.jsonl").write_bytes(lines[0])
    [begun] = list_runs(run)
    assert (begun.name, begun.samples, begun.right, begun.state) == ("begun", 1, 1.0, "not complete")
    assert (begun.dollars, begun.priced) == (None, 0)
    (run / "summary.json").write_bytes((folder / "one/summary.json").read_bytes())
    assert list_runs(tmp_path)[0].samples == 1, "a summary of other samples does not count"
    (run / "trajectories.jsonl").write_bytes(lines[0] + 2 * b'{"schema_version": 1}\n')
    [broken] = list_runs(tmp_path)
    assert (broken.state, broken.complete) == ("cannot be read", False)
    assert (broken.samples, broken.failed, broken.priced) == (0, 0, 0)
    assert (broken.right, broken.interval, broken.dollars) == (None, None, None)
    assert "line 2" in broken.problem


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 2
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert "Name" in capsys.readouterr().err


def test_what_is_looked_into_and_when_it_changed(folder: Path, tmp_path: Path) -> None:
    places = ("a/b/c/d", "a/b/c/e/f", ".hidden", "a/media/one")
    for place in places:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "settings.toml").write_bytes((folder / "one/settings.toml").read_bytes())
    (tmp_path / "linked").symlink_to(folder / "one")
    [found] = list_runs(tmp_path)
    assert found.name == "a/b/c/d", "four folders deep, and no deeper"
    os.utime(tmp_path / "a/b/c/d/settings.toml", (0, 86_400))
    [found] = list_runs(tmp_path)
    assert found.changed == datetime(1970, 1, 2, tzinfo=UTC)
    (tmp_path / "a/b/c/d/trajectories.jsonl").touch()
    os.utime(tmp_path / "a/b/c/d/trajectories.jsonl", (0, 172_800))
    (tmp_path / "z").mkdir()
    (tmp_path / "z/settings.toml").write_bytes((folder / "one/settings.toml").read_bytes())
    os.utime(tmp_path / "z/settings.toml", (0, 172_801))
    assert [(run.name, run.changed.day) for run in list_runs(tmp_path)] == [("z", 3), ("a/b/c/d", 3)]
    assert (is_run(tmp_path / "z"), is_run(tmp_path / "a/b/c/d"), is_run(tmp_path)) == (True, True, False)


def test_a_summary_counts_only_if_it_is_of_all_samples_and_of_today(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("settings.toml", "trajectories.jsonl", "summary.json"):
        (run / name).write_bytes((folder / "one" / name).read_bytes())
    summary = json.loads((run / "summary.json").read_text())
    summary["total"]["avg"], summary["missing"] = 0.125, 3
    summary["spent"]["dollars"] = {"amount": 0.5, "samples": 1}

    def listed() -> Listed:
        (run / "summary.json").write_text(json.dumps(summary))
        return list_runs(tmp_path)[0]

    taken = listed()
    assert (taken.samples, taken.failed, taken.right, taken.complete) == (2, 3, 0.125, True)
    assert (taken.dollars, taken.priced) == (0.5, 1)
    summary["total"]["interval"] = None
    assert listed().interval is None
    summary["spent"]["dollars"]["samples"] = 0
    assert listed().dollars is None
    del summary["total"]["interval_by"]  # as older versions wrote it
    read = listed()
    assert (read.right, read.failed, read.complete) == (1.0, 0, True)
    summary["stops"] = {"answered": 1}
    assert (listed().right, listed().complete) == (1.0, False)
    summary["stops"] = 5
    assert listed().complete is False
