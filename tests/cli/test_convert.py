from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sft.formats.cases import Scene
from tests.tasks.sources.files import video

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
