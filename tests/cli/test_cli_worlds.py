"""Test `saccade worlds` and `saccade demo`."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.main import main
from saccade.errors import UnavailableError
from saccade.media.store import MediaStore
from saccade.plugins.worlds import cli
from saccade.plugins.worlds.cli import centre, draw_street, failures, steps_for
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory


def test_list_names_worlds_and_knobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "list", "--knobs"]) == 0
    printed = capsys.readouterr().out
    assert "nested-squares@1" in printed
    assert "fewest = 2" in printed


def test_sample_writes_tasks_whose_media_can_be_opened(tmp_path: Path) -> None:
    out = tmp_path / "squares"
    arguments = ["--n", "3", "--split", "test", "--start", "5", "--set", "most=3", "--out", str(out)]
    assert main(["worlds", "sample", "nested-squares", *arguments]) == 0
    tasks = list(read_lines(out / "tasks.jsonl", Task))
    assert [task.id for task in tasks] == [f"nested-squares@1/test/{index}" for index in (5, 6, 7)]
    assert all(task.answer in ("2", "3") for task in tasks)
    store = MediaStore(out / "media")
    for task in tasks:
        part = task.media[0].part
        assert isinstance(part, ImagePart)
        shown = out / "pictures" / f"{task.id}_image_0.png".replace("/", "_").replace("@", "-")
        assert Image.open(shown).convert("RGB").tobytes() == store.open(part).decode().convert("RGB").tobytes()


def test_sampling_again_gives_the_same_files(tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["worlds", "sample", "maze", "--n", "2", "--out", str(tmp_path / "maze")]) == 0
    other = tmp_path / "other"
    assert main(["worlds", "sample", "maze", "--n", "2", "--out", str(other)]) == 0
    assert (other / "tasks.jsonl").read_bytes() == (tmp_path / "maze" / "tasks.jsonl").read_bytes()


def test_sheet_is_a_picture(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "sheet.png"
    assert main(["worlds", "sheet", "spot-difference", "--n", "5", "--out", str(target)]) == 0
    with Image.open(target) as sheet:
        assert sheet.width > 4 * 400
        # The gold boxes are drawn in one colour that the worlds do not use.
        assert (255, 40, 200) in {colour for _, colour in sheet.convert("RGB").getcolors(1 << 24) or ()}


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 3), (1, 100), (640, 481)])
def test_centre_is_never_empty(size: tuple[int, int]) -> None:
    left, top, right, bottom = centre(Image.new("L", size))
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]


def test_steps_compile() -> None:
    steps = steps_for((1, 2, 3, 4))
    for step in steps:
        compile(step.code, "cell", "exec")
    assert [step.fails for step in steps] == [False, False, False, True, False]


def test_a_turn_that_does_not_do_its_work_is_found() -> None:
    steps = steps_for((0, 0, 2, 2))
    nothing = Trajectory(id="t", task=Task(id="t", question="?"))
    assert failures(nothing, steps) == [1, 2, 3, 4, 5, 6]


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    photo = tmp_path / "photo.jpg"
    draw_street().picture.resize((1600, 1200)).save(photo)
    for _ in range(2):
        assert main(["demo", "--out", str(out), "--image", str(photo)]) == 0
        assert "reading is known: False" in capsys.readouterr().out
    first, second = read_lines(out / "trajectories.jsonl", Trajectory)
    assert (first.id, second.id) == ("demo#0", "demo#1")
    assert "What is in the middle of the picture?" in (out / "index.html").read_text(encoding="utf-8")
    assert failures(first.model_copy(update={"turns": first.turns[1:]}), steps_for((0, 0, 2, 2))) != []


def test_everything_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(cli.play_tiny(tmp_path))
    assert str(caught.value) == "not installed: `torch`, `transformers`. Run: pip install 'saccade-vlm[local]'"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_the_small_model_plays_in_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "FAMILIES", {"circles": cli.FAMILIES["touching circles"]})
    monkeypatch.setattr(cli, "TASKS", 1)
    for number in range(2):
        assert main(["demo", "--out", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert "saccade-tiny on tasks" in shown
        assert len(list(read_lines(tmp_path / f"tiny-{number}" / "circles" / "trajectories.jsonl", Trajectory))) == 1
    street = next(item for item in read_lines(tmp_path / "trajectories.jsonl", Trajectory))
    assert street.answer == "MARKET LANE / open 7-19 h"
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "circles" in page
