from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.main import main
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.task import Task


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nested-squars"], "nested-squares"),
        (["nested-squares", "--split", "dev"], "train, validation, test"),
        (["nested-squares", "--set", "moist=3"], "most"),
    ],
)
def test_mistakes_are_named(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "sheet", *arguments]) == 2
    assert words in capsys.readouterr().err
