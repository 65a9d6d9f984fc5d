from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.plugins.worlds.experts.cases import part_for

from saccade.plugins.worlds.experts.hand import cells, rename
from saccade.record.content import Code, ToolCall
from saccade.tasks.worlds.base import draw_sample, load_world

PROGRAM = """\
from __future__ import annotations

import math


def half(n: int) -> int:
    return n // 2


# the whole
whole = 8
print(half(whole))"""


def test_names_change_as_whole_words_alone() -> None:
    assert rename("image_0.crop(image_01)", {"image_0": "picture"}) == "picture.crop(image_01)"


@pytest.mark.parametrize("cut", range(0, 101, 20))
def test_two_cells_are_the_program(cut: int, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = cells(PROGRAM, cut)
    names: dict[str, object] = {}
    exec(compile(first, "first", "exec"), names)
    exec(compile(second, "second", "exec"), names)
    assert capsys.readouterr().out == "4\n"
    assert ast.dump(ast.parse(first)) != ast.dump(ast.parse("import math"))


def test_a_program_of_one_step_stays_whole() -> None:
    assert cells("import math\nprint(math.pi)", 50) == ("import math\nprint(math.pi)",)


def test_the_program_finds_its_pictures_under_the_dialects_names(tmp_path: Path) -> None:
    sample = draw_sample(load_world("shape-count"), "train", 0)
    bound = part_for("shape-count", "pyvision", tmp_path).actions.program(sample.program)
    assert "image_clue_0" in bound
    assert "image_0" not in bound
    opened = part_for("shape-count", "thyme", tmp_path).actions.program(sample.program)
    assert "image_0 = Image.open(" in opened
    assert (
        "from PIL import Image" in opened
        or "Image" in part_for("shape-count", "thyme", tmp_path).scene.dialect.session.preload
    )


def test_crops_are_code_or_calls_as_the_dialect_has_it(tmp_path: Path) -> None:
    box = (10, 20, 90, 110)
    code = part_for("shape-count", "codedance", tmp_path).actions.look("image_0", box)
    assert isinstance(code, Code)
    assert str(box) in code.code
    call = part_for("shape-count", "vista", tmp_path).actions.look("image_0", box)
    assert isinstance(call, ToolCall)
    assert call.arguments["box"] == list(box)
    zoom = part_for("shape-count", "deepeyes", tmp_path).actions.look("image_0", box)
    assert isinstance(zoom, ToolCall)
    assert zoom.name == "image_zoom_in_tool"
    assert zoom.arguments["bbox_2d"] == list(box)
