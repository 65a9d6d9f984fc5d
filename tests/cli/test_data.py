from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tasks.sources.files import video
from tests.training.sft.curate.cases import Runs, ran, said
from tests.training.sft.formats.cases import Scene

from saccade.cli.main import main


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path)
    run = scene.write(scene.two_looks("thyme@1:eval"), scene.two_looks("codev@1", id="other"))
    target = tmp_path / "thyme"
    assert main(["convert", str(run), "--out", str(target), "--from", "saccade", "--to", "thyme"]) == 0
    printed = capsys.readouterr()
    assert "1 of 2 rows" in printed.out
    assert "row 2 other#0" in printed.err
    assert main(["convert", str(target), "--out", str(tmp_path / "back"), "--from", "thyme", "--to", "saccade"]) == 0


def test_nothing_converted_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"messages": []}) + "\n")
    arguments = ["convert", str(file), "--out", str(tmp_path / "out"), "--from", "swift", "--to", "saccade"]
    assert main(arguments) == 1
    assert "no list of messages" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "words"), [("--from", "sharegpt"), ("--dialect", "pyvision")])
def test_mistakes_are_named(tmp_path: Path, option: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = {"--from": "saccade", "--to": "swift", "--dialect": "codev"}
    known[option] = words[:-1]
    arguments = [text for pair in known.items() for text in pair]
    assert main(["convert", str(tmp_path), "--out", str(tmp_path / "out"), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_video_is_refused_without_advice_that_cannot_be_followed_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    video(folder / "clip.mp4")
    (folder / "q.jsonl").write_text(json.dumps({"question": "What?", "videos": ["clip.mp4"], "answer": "x"}) + "\n")
    arguments = [str(folder), "--out", str(tmp_path / "out"), "--from", "saccade", "--to", "sharegpt"]
    assert main(["convert", *arguments, "--dialect", "pyvision"]) == 1
    said = capsys.readouterr().err
    assert "is a video; a dialect for videos takes it" in said
    assert "frames.fps" not in said


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


def test_mistakes_are_named_curate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curate", str(tmp_path)]) == 2
    assert "--pipeline" in capsys.readouterr().err
