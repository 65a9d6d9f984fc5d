"""A baseline of uniform frames as one video: what it costs is in the record, and it can be trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tasks.sources.files import jsonl, video

from saccade.cli.main import main
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.content import VideoPart
from saccade.record.trajectory import Trajectory

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    video(folder / "a.mp4")
    return jsonl(folder / "questions.jsonl", [{"video": "a.mp4", "question": "How bright?", "answer": "1"}])


def evaluated(tasks: Path, model: str, dialect: str, out: Path, *settings: str) -> int:
    more = [part for setting in (*settings, "sampling.max_tokens=4") for part in ("--set", setting)]
    return main(["eval", str(tasks), "--model", model, "--dialect", dialect, "--out", str(out), *more])


def played(out: Path) -> Trajectory:
    (one,) = read_lines(out / "trajectories.jsonl", Trajectory)
    return one


def test_frames_as_one_video_cost_half_and_are_trained_on(
    tasks: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"local:{tiny}"
    assert evaluated(tasks, model, "direct:video", tmp_path / "native", "frames.count=8") == 0
    assert evaluated(tasks, model, "direct", tmp_path / "pictures", "frames.count=8") == 0
    native, pictures = played(tmp_path / "native"), played(tmp_path / "pictures")
    (part,) = native.prompt[-1].media
    assert isinstance(part, VideoPart)
    assert part.sample is not None
    assert part.sample.indices == (0, 2, 4, 6, 9, 11, 13, 15)
    cost, as_pictures = native.turns[0].tokens.context_visual, pictures.turns[0].tokens.context_visual
    assert cost == (as_pictures or 0) // 2 == 4 * 4  # steps, features of each
    capsys.readouterr()
    assert main(["protocols", str(tmp_path / "native"), "--only", "tokens", "--out", str(tmp_path / "found")]) == 0
    found = json.dumps([json.loads(path.read_text()) for path in (tmp_path / "found").rglob("*tokens*.json")])
    assert '"visual": 16' in found
    assert '"estimated": false' in found
    train = ["sft", "plain", "--data", str(tmp_path / "native"), "--model", str(tiny), "--out", str(tmp_path / "sft")]
    small = ["steps=1", "keep.tensorboard=false"]
    assert main([*train, *(part for item in small for part in ("--set", item))]) == 0
    assert (tmp_path / "sft" / "model" / "video_preprocessor_config.json").read_bytes()


def test_frames_that_a_server_would_not_show_are_refused_before_it_is_asked(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluated(tasks, "vllm:m@http://127.0.0.1:9/v1", "direct:video", tmp_path / "run", "frames.fps=1") == 2
    assert "vllm chooses the frames of a video itself" in capsys.readouterr().err


def test_a_family_without_video_is_refused_with_its_reason(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "internvl", "internvl")
    assert evaluated(tasks, f"local:{tmp_path / 'internvl'}", "direct:video", tmp_path / "run") != 0
    said = capsys.readouterr()
    assert "internvl reads no videos in this process: It reads a video as pictures" in said.err + said.out
