"""Tools that hold a checkpoint, on random weights that are written to a folder and loaded as real ones are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.plugins.vista.weighted import tiny

from saccade.plugins.vista.chart_readers import DePlot, UniChart, as_markdown, read_table
from saccade.plugins.vista.checkpoint import Placed
from saccade.plugins.vista.grounding_dino import GroundingDino, caption_of, suppressed
from saccade.plugins.vista.sam import Sam, _load, prepared
from saccade.tools.base import Tool
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.registry import make_tool
from saccade.tools.setup import VARIABLE, ToolSetup

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 140, 3)).astype(np.uint8))
Setup = Callable[[str, Callable[[Path], Path]], None]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Writes weights and the setup that names them."""

    def write(tool: str, make: Callable[[Path], Path]) -> None:
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder)
        file = tmp_path / "setup.toml"
        file.write_text(f"[{tool}]\nweights = {str(folder)!r}\nmax_tokens = 8\ndevice = 'cpu'\n", encoding="utf-8")
        monkeypatch.setenv(VARIABLE, str(file))

    return write


def value_of(tool: Tool[Any, Any], arguments: object, alias: str | None = None) -> Any:
    result = tool.call(arguments, ToolContext({"photo": PICTURE}), alias=alias)
    assert result.ok, result.problem
    return result.value


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny.grounding_dino, tiny.mm_grounding_dino])
def test_grounding_dino(setup: Setup, make: Callable[[Path], Path]) -> None:
    setup("grounding_dino", make)
    tool = GroundingDino()
    asked = {"caption": "A red cup; a dog", "box_threshold": 0.0, "text_threshold": 0.0, "nms": 1.0}
    found_boxes = value_of(tool, asked, "groundingdino")["boxes"]
    assert len(found_boxes) == 20
    assert [box["score"] for box in found_boxes] == sorted((box["score"] for box in found_boxes), reverse=True)
    assert all(0 <= b[0] < b[2] <= 140 and 0 <= b[1] < b[3] <= 90 for b in (box["box"] for box in found_boxes))
    assert "red cup" in found_boxes[0]["phrase"]
    part = value_of(tool, {**asked, "box": [40, 30, 100, 80]})["boxes"]
    assert all(39.9 <= b[0] < b[2] <= 100.1 and 29.9 <= b[1] < b[3] <= 80.1 for b in (box["box"] for box in part))
    result = tool.call({**asked, "box_threshold": 1.0, "caption": "a cat"}, ToolContext({"photo": PICTURE}))
    assert (result.value or {})["boxes"] == []
    assert "Nothing of the caption" in result.text
    context = ToolContext({"photo": PICTURE})
    calls = [tool.arguments(**arguments) for arguments in (asked, {**asked, "image": 7}, asked)]
    batch = tool.run_batch([(arguments, context) for arguments in calls])
    assert isinstance(batch[1], Exception)
    assert not isinstance(batch[0], Exception)
    assert not isinstance(batch[2], Exception)
    assert [b.phrase for b in batch[0].value.boxes] == [b.phrase for b in batch[2].value.boxes]


@pytest.mark.parametrize(("make", "stretches"), [(tiny.sam, False), (tiny.sam2, True)])
def test_each_version_of_sam_is_loaded_as_itself(tmp_path: Path, make: Callable[[Path], Path], stretches: bool) -> None:
    held = _load(Placed(ToolSetup(weights=str(make(tmp_path))), "cpu", torch.float32))
    assert (held.model.config.model_type, held.stretches, held.side) == (make.__name__, stretches, 64)
    assert type(held.model).__name__ == ("Sam2Model" if stretches else "SamModel")


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny.sam, tiny.sam2])
def test_sam(setup: Setup, make: Callable[[Path], Path]) -> None:
    setup("sam", make)
    tool, context = Sam(), ToolContext({"photo": PICTURE})
    result = tool.call({"points": [[30, 40], [100, 20]], "labels": [1, 0], "all_masks": True}, context)
    assert result.ok, result.problem
    masks: Any = (result.value or {})["masks"]
    assert len(masks) == len(result.pictures) == 3
    for mask, picture in zip(masks, result.pictures, strict=True):
        pixels = np.asarray(picture.image)
        assert pixels.shape == (90, 140, 3)
        assert set(np.unique(pixels)) <= {0, 255}
        assert mask["coverage"] == pytest.approx((pixels[..., 0] > 0).mean(), abs=1e-5)
        assert mask["box"] is None or pixels[mask["box"][1] : mask["box"][3], mask["box"][0] : mask["box"][2]].any()
    best = tool.call({"box_prompt": [10, 10, 60, 60]}, context, alias="sam2")
    assert best.ok, best.problem
    assert len(best.pictures) == 1


@pytest.mark.parametrize(("tool", "make"), [(DePlot(), tiny.deplot), (UniChart(), tiny.unichart)])
def test_chart_readers(setup: Setup, tool: DePlot | UniChart, make: Callable[[Path], Path]) -> None:
    setup(tool.name, make)
    value = value_of(tool, {})
    assert value["image"] == "photo"
    assert value["raw"]
    assert value["table"]["header"]
    assert value["complete"] is False
    context = ToolContext({"photo": PICTURE})
    one, two = tool.run_batch([(tool.arguments(), context), (tool.arguments(box=(0, 0, 70, 80)), context)])
    assert not isinstance(one, Exception)
    assert not isinstance(two, Exception)
    assert one.value.raw == value["raw"]
    assert one.text.endswith("The table was cut: the model wrote as much as the setup of tools allows.")


NAMES = ("grounding_dino", "sam", "deplot", "unichart")


@pytest.mark.parametrize("name", NAMES)
def test_without_weights_it_says_how_to_get_them(name: str) -> None:
    tool = make_tool(name)
    result = tool.call({"caption": "a", "points": [[1, 1]]}, ToolContext({"photo": PICTURE}))
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert result.problem.kind.vista is None
    assert f"[{name}] weights = " in result.problem.detail
    assert VARIABLE in result.problem.detail
    assert VARIABLE not in result.text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_weights_that_cannot_be_loaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "setup.toml").write_text(f"[{name}]\nweights = {str(folder)!r}\n", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    arguments = {"grounding_dino": {"caption": "a"}, "sam": {"points": [[1, 1]]}}.get(name, {})
    result = make_tool(name).call(arguments, ToolContext({"photo": PICTURE}))
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "cannot be loaded" in result.problem.detail


def test_captions_are_written_as_the_model_was_trained() -> None:
    assert caption_of("A red cup; a Dog. ") == "a red cup. a dog."
    assert caption_of("...") == "."


def test_boxes_that_overlap_are_one() -> None:
    rows = [(0.9, (0.0, 0.0, 10.0, 10.0), "a"), (0.8, (1.0, 0.0, 11.0, 10.0), "b"), (0.7, (20.0, 0.0, 30.0, 9.0), "c")]
    assert [row[2] for row in suppressed(rows, 0.8)] == ["a", "c"]
    assert [row[2] for row in suppressed(rows, 0.9)] == ["a", "b", "c"]


@pytest.mark.parametrize(("stretches", "scale"), [(False, (0.5, 0.5)), (True, (0.5, 1.0))])
def test_pictures_for_sam(stretches: bool, scale: tuple[float, float]) -> None:
    pixels, found = prepared(np.full((50, 100, 3), 255, np.uint8), 50, stretches=stretches)
    assert found == scale
    assert pixels.shape == (3, 50, 50)
    assert (pixels[0, 30:] == 0).all() != stretches
    assert pixels[0, 0, 0] == pytest.approx((1 - 0.485) / 0.229, rel=1e-5)


def test_linearised_tables() -> None:
    table = read_table("TITLE | Sales <0x0A> Year | Sold <0x0A> 2019 | 7 <0x0A>", "<0x0A>")
    assert (table.title, table.header, table.rows) == ("Sales", ("Year", "Sold"), (("2019", "7"),))
    assert as_markdown(table) == "Sales\n| Year | Sold |\n| --- | --- |\n| 2019 | 7 |"
    assert as_markdown(read_table("", "&")) == "No table was written."
