from __future__ import annotations

from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory


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


def test_a_dialect_that_cannot_show_a_world_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", "video-events", "--dialect", "vista", "--out", str(tmp_path), "--n", "1"]) == 2
    assert "shows pictures only" in capsys.readouterr().err


def test_wrong_names_suggest_the_right_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run"), "--n", "1"]
    assert main(["synth", "circled-leter", "--dialect", "vista", *out]) == 2
    assert "circled-letter" in capsys.readouterr().err
    assert main(["synth", "maze", "--dialect", "vista", *out, "--set", "expert.verbosty=short"]) == 2
    assert "verbosity" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


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
