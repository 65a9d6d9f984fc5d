"""OCR on drawn text, with the models that lie in the wheel; skipped where the extra is not installed."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from saccade.plugins.vista.ocr import Ocr, OcrResult, TextLine, _around, _padded
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.setup import VARIABLE

PHOTO = Path(__file__).parents[3] / "shared/data/photos/signicade.JPG"
needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")


@pytest.fixture(scope="module")
def tool() -> Ocr:
    return Ocr()


@pytest.fixture
def page() -> ToolContext:
    image = Image.new("RGB", (500, 260), "white")
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(44)
    pen.text((40, 40), "HELLO 42", fill="black", font=font)
    pen.text((220, 170), "BANANA", fill="black", font=font)
    return ToolContext({"page": image})


def lines_of(result: ToolResult) -> tuple[TextLine, ...]:
    return OcrResult.model_validate_json(json.dumps(result.value)).lines


@needs_engine
def test_drawn_text_is_read_where_it_is(tool: Ocr, page: ToolContext) -> None:
    result = tool.call({}, page)
    assert result.ok, result.problem
    assert result.value is not None
    assert result.value["text"] == "HELLO 42\nBANANA"
    first, second = lines_of(result)
    assert 20 <= first.box[0] <= 45
    assert 25 <= first.box[1] < first.box[3] <= 110
    assert 200 <= second.box[0] <= 225
    assert 0.9 < first.confidence == round(first.confidence, 4)
    assert len(first.corners) == 4


@needs_engine
def test_a_region_keeps_the_coordinates_of_the_image(tool: Ocr, page: ToolContext) -> None:
    result = tool.call({"region": [180, 150, 500, 260]}, page, alias="easyocr")
    assert result.ok, result.problem
    assert result.value is not None
    assert result.value["text"] == "BANANA"
    assert 200 <= lines_of(result)[0].box[0] <= 225


@needs_engine
def test_all_models_are_loaded_at_once_and_lines_are_read_in_their_own_width(
    page: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Ocr()
    tool.load()
    engine = tool._engine
    assert None not in (engine.text_det, engine.text_cls, engine.text_rec)
    recognizer, shapes = engine.text_rec._recognizer, []
    monkeypatch.setattr(
        recognizer, "session", lambda batch, ask=recognizer.session: shapes.append(batch.shape) or ask(batch)
    )
    assert tool.call({}, page).ok
    widths = sorted(shape[3] for shape in shapes)
    assert [shape[0] for shape in shapes] == [1, 1]
    assert widths[0] < widths[1] < 320


@needs_engine
@pytest.mark.skipif(not PHOTO.exists(), reason="the shared photos are not here")
def test_a_real_sign(tool: Ocr) -> None:
    result = tool.call({}, ToolContext({"sign": lambda: Image.open(PHOTO).reduce(2)}))
    assert result.ok, result.problem
    assert result.value is not None
    assert "HISTORIC" in str(result.value["text"])


@needs_engine
@pytest.mark.parametrize("size", [(1, 1), (60, 50), (400, 3), (3, 2000)])
def test_an_empty_image_has_no_text(tool: Ocr, size: tuple[int, int]) -> None:
    result = tool.call({}, ToolContext({"blank": Image.new("RGB", size, "white")}))
    assert result.ok, result.problem
    assert result.value == {"image": "blank", "text": "", "lines": []}
    assert "No text" in result.text


def test_without_the_package_it_is_unavailable(monkeypatch: pytest.MonkeyPatch, page: ToolContext) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "saccade.tools.definition.find_spec", lambda name: None if name == "onnxruntime" else real(name)
    )
    result = Ocr().call({}, page)
    assert result.status is Status.REFUSED
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert 'pip install "saccade[ocr]"' in result.problem.detail


@needs_engine
def test_without_its_models_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: ToolContext
) -> None:
    import rapidocr

    def detail() -> str:
        result = Ocr().call({}, page)
        assert result.status is Status.REFUSED
        assert result.problem is not None
        return result.problem.detail

    def torn(params: object) -> None:
        raise OSError("half a model")

    monkeypatch.setattr(rapidocr, "RapidOCR", torn)
    assert "rapidocr cannot load its models: OSError: half a model" in detail()
    monkeypatch.setattr(rapidocr, "__file__", str(tmp_path / "__init__.py"))
    assert "brings no models" in detail()


@pytest.mark.parametrize(
    ("corners", "box"),
    [
        (((10.2, 20.7), (30.1, 20.7), (30.1, 40.0), (10.2, 40.0)), (10, 20, 31, 40)),
        (((-3.0, -1.5), (5.0, 5.0)), (0, 0, 5, 5)),
        (((90.0, 40.0), (120.0, 60.0)), (90, 40, 100, 50)),
        (((7.0, 8.0), (7.0, 8.0)), (7, 8, 8, 9)),  # a point has a pixel
        (((100.0, 50.0), (100.0, 50.0)), (99, 49, 100, 50)),  # on the very edge
    ],
)
def test_the_box_around_corners(corners: tuple[tuple[float, float], ...], box: tuple[int, ...]) -> None:
    assert _around(corners, (100, 50)) == box


@pytest.mark.parametrize(
    ("size", "padded"),
    [
        ((1, 1), (32, 32)),
        ((32, 32), (32, 32)),
        ((40, 400), (100, 400)),
        ((100, 400), (100, 400)),
        ((400, 3), (400, 100)),
    ],
)
def test_strips_are_padded_with_white_below_and_to_the_right(size: tuple[int, int], padded: tuple[int, int]) -> None:
    strip = np.full((*size, 3), 7, np.uint8)
    made = _padded(strip)
    assert made.shape == (*padded, 3)
    assert (made[: size[0], : size[1]] == 7).all()
    made[: size[0], : size[1]] = 255
    assert (made == 255).all()


@needs_engine
def test_easyocr_reads_in_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: ToolContext) -> None:
    """Its wheel cannot be installed beside a torch without torchvision: its form of a result stands for it."""
    asked: dict[str, object] = {}

    class Reader:
        def __init__(self, languages: list[str], **options: object) -> None:
            asked.update(options, languages=languages)

        def readtext(self, pixels: np.ndarray) -> list[tuple[list[list[int]], str, float]]:
            assert pixels.shape[2] == 3
            return [
                ([[40, 50], [200, 50], [200, 90], [40, 90]], "HELLO", 0.9),
                ([[0, 0], [5, 0], [5, 5], [0, 5]], "?", 0.1),
            ]

    monkeypatch.setitem(sys.modules, "easyocr", types.SimpleNamespace(Reader=Reader))
    (tmp_path / "setup.toml").write_text('[ocr]\nengine = "easyocr"\nlanguages = ["en", "de"]\ndevice = "cpu"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    result = Ocr().call({}, page)
    assert result.ok, result.problem
    assert [(line.text, line.box) for line in lines_of(result)] == [("HELLO", (40, 50, 200, 90))]
    assert asked == {
        "languages": ["en", "de"], "gpu": False, "model_storage_directory": None, "download_enabled": False,
        "verbose": False,
    }  # fmt: skip


@needs_engine
@pytest.mark.skipif(importlib.util.find_spec("easyocr") is not None, reason="it is installed")
def test_easyocr_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: ToolContext) -> None:
    (tmp_path / "setup.toml").write_text('[ocr]\nengine = "easyocr"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    result = Ocr().call({}, page)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "pip install easyocr" in result.problem.detail
