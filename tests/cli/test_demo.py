"""The demo's own parts; that its cells run in a real sandbox is asserted where there is one."""

import sys
from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.demo import Cell, cells_for
from saccade.cli.demo_scene import centre, contact_sheet, draw_street
from saccade.cli.main import main
from saccade.record.status import Status
from saccade.sandbox.result import Picture, RunResult


def test_the_street_is_the_same_every_time_and_holds_its_sign() -> None:
    first, second = draw_street(), draw_street()
    assert first.picture.tobytes() == second.picture.tobytes()
    left, top, right, bottom = first.look_at
    assert 0 <= left < right <= first.picture.width
    assert 0 <= top < bottom <= first.picture.height
    sign = first.picture.crop(first.look_at)
    assert (24, 74, 140) in {colour for _, colour in sign.getcolors(100_000) or []}


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 3), (1, 100), (640, 481)])
def test_centre_is_never_empty(size: tuple[int, int]) -> None:
    left, top, right, bottom = centre(Image.new("L", size))
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_contact_sheet_has_room_for_every_picture(count: int) -> None:
    sheet = contact_sheet([("wide", Image.new("RGBA", (900, 100), (255, 0, 0, 255)))] * count)
    colours = {colour: number for number, colour in sheet.getcolors(10**6) or []}
    assert colours[(255, 0, 0)] >= count * 380 * 40


def test_cells_compile_and_judge_their_results() -> None:
    cells = cells_for((1, 2, 3, 4))
    for cell in cells:
        compile(cell.code, "cell", "exec")
    assert [cell.fails for cell in cells] == [False, False, False, True, False]
    picture = Picture(source="show", mode="L", width=1, height=1, data=b"\0")
    shows, fails = Cell("", "", shows=True), Cell("", "", fails=True)
    assert shows.met(RunResult(Status.OK, pictures=(picture,), committed=True))
    assert not shows.met(RunResult(Status.OK, committed=True))
    assert not shows.met(RunResult(Status.ERROR, pictures=(picture,)))
    assert fails.met(RunResult(Status.ERROR))
    assert not fails.met(RunResult(Status.OK, committed=True))
    assert not fails.met(RunResult(Status.ERROR, committed=True))


def test_photo_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--image", str(tmp_path / "none.jpg"), "--out", str(tmp_path)]) == 2
    assert "Check the path" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = tmp_path / "photo.jpg"
    draw_street().picture.resize((1600, 1200)).save(photo)
    for arguments in ([], ["--image", str(photo)]):
        assert main(["demo", "--out", str(tmp_path / "out"), *arguments]) == 0
        assert "state rolled back" in capsys.readouterr().out
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"cell_1_1.png", "cell_2_1.png", "cell_3_1.png", "contact_sheet.png"}
