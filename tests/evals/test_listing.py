"""The evaluations in a folder: what is said of each, from its summary or from its samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.evals.listing import list_runs
from saccade.evals.run import evaluate

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
    assert broken.state == "cannot be read"
    assert "line 2" in broken.problem


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 2
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert "Name" in capsys.readouterr().err
