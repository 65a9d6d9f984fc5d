from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sft.curate.cases import Runs, ran, said

from saccade.cli.main import main


def test_list_names_filters_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curate", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "tool-turns@1" in printed
    assert "at_least = 2" in printed
    assert "judge = needed" in printed


def test_curate_prints_a_table_and_writes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path)
    runs.write(
        runs.trajectory("good", ran(), ran(), said("5"), correct=1.0, task={"source": "charts"}),
        runs.trajectory("[bold]wrong", correct=0.0, task={"source": "maps"}),
        runs.trajectory("direct", correct=1.0, task={"source": "maps"}),
    )
    out = tmp_path / "kept"
    arguments = ["curate", str(tmp_path / "run"), "--pipeline", "pyvision-rl", "--out", str(out)]
    assert main([*arguments, "--set", "tool-turns.at_least=1"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 3 trajectories" in printed
    assert "fewer than 1 tool turns" in " ".join(printed.split())
    assert "[bold]wrong" in "".join(printed.split())
    assert json.loads((out / "report.json").read_text())["kept"] == 1
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curate", str(tmp_path)]) == 2
    assert "--pipeline" in capsys.readouterr().err
