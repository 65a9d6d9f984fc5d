"""Test the commands on data: tasks, sources and their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tasks.sources.files import video
from tests.training.sft.curate.cases import Runs, ran, said
from tests.training.sft.formats.cases import Scene

from saccade.cli.main import main
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.tools.setup import VARIABLE


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


def test_a_run_is_made_continued_and_guarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["synth", "circled-letter", "--dialect", "vista", "--out", str(tmp_path / "run"), "--n", "3"]
    assert main(command) == 0
    assert "3 trajectories made, 3 of them right" in capsys.readouterr().out
    made = list(read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory))
    assert [item.id for item in made] == [f"circled-letter@1/train/{number}#0" for number in range(3)]
    assert all(item.provenance.model.startswith("expert:") for item in made)
    assert main(command) == 0
    assert "3 were there before" in capsys.readouterr().out
    assert main([*command, "--set", "expert.verbosity=short"]) == 2
    assert 'expert.verbosity: (not set) -> "short"' in capsys.readouterr().err


def test_a_prompt_file_is_what_the_model_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the trajectories of experts as of teachers; and a run is not continued with another text in it."""
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("System prompt:\nMy tools: {tools}\nUser prompt:\nMine: {query}")
    Path("plain.txt").write_text("User prompt:\nMine: {query}")
    Path("replies.json").write_text('["<answer>A</answer>", "<answer>A</answer>"]')
    command = ["synth", "circled-letter", "--n", "2"]
    runs = {
        "experts": ["--dialect", "vista", "--out", "experts", "--set", "prompt_file=mine.txt"],
        "teacher": [
            *("--dialect", "codedance", "--teacher", "scripted:replies.json", "--out", "teacher"),
            *("--set", "prompt_file=plain.txt"),
        ],
    }
    for name, given in runs.items():
        assert main([*command, *given]) == 0, capsys.readouterr().err
        for made in read_lines(Path(name) / "trajectories.jsonl", Trajectory):
            assert f"Mine: {made.task.question}" in made.prompt[-1].text
    assert "My tools: " in next(iter(read_lines(Path("experts/trajectories.jsonl"), Trajectory))).prompt[0].text
    for file, given in zip(("mine.txt", "plain.txt"), runs.values(), strict=True):
        Path(file).write_text(Path(file).read_text().replace("Mine", "Yours"))
        capsys.readouterr()
        assert main([*command, *given]) == 2
        assert f"{file} has changed" in capsys.readouterr().err
    wrong = ["--dialect", "vista", "--out", "wrong", "--set", "prompt_file=none.txt"]
    assert main([*command, *wrong]) == 2
    assert "none.txt cannot be read" in capsys.readouterr().err
    assert not Path("wrong").exists()


def test_the_26_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [bool(item["paper"]) for item in listed] == [True] * 26 + [False] * (len(listed) - 26)
    by_name = {item["tool"]: item for item in listed}
    assert by_name["crop"]["state"] == "ready"
    assert by_name["opencv"]["state"] == "ready"
    assert (by_name["sam"]["state"], by_name["sam"]["cost"]) == ("unavailable", "heavy")
    assert VARIABLE in by_name["sam"]["remedy"]
    assert by_name["chartmoe"]["state"] == "unavailable"


def test_what_the_setup_names_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "setup.toml").write_text('[chartmoe]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("ChartMoE.answer" in line and "chartmoe task=answer" in line and " ready " in line for line in lines)
    assert any(line.startswith("  gllava: write [gllava] model = ") for line in lines)
    assert not any(line.startswith("  chartmoe:") for line in lines)


@pytest.mark.parametrize("text", ["[sam]\nwieghts = 'x'\n", "[sam\n", "sam = 3\n"])
def test_a_wrong_setup_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "setup.toml").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 2
    assert VARIABLE in capsys.readouterr().err
