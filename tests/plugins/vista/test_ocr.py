"""OCR on drawn text, with the models that lie in the wheel; skipped where the extra is not installed."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.plugins.vista.engine import shared_ocr

from saccade.plugins.vista.ocr import CompactDetector, Ocr, OcrResult, TextLine, _around, kept_rows
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.measure import PixelArray
from saccade.tools.setup import VARIABLE

PHOTO = Path(__file__).parents[3] / "shared/data/photos/signicade.JPG"
needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")


@pytest.fixture
def tool() -> Ocr:
    return shared_ocr()


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
    assert result.value["text"] == "BANANA"
    assert 200 <= lines_of(result)[0].box[0] <= 225


@needs_engine
@pytest.mark.skipif(not PHOTO.exists(), reason="the shared photos are not here")
def test_a_real_sign(tool: Ocr) -> None:
    result = tool.call({}, ToolContext({"sign": lambda: Image.open(PHOTO).reduce(2)}))
    assert result.ok, result.problem
    assert "HISTORIC" in str(result.value["text"])


@needs_engine
@pytest.mark.parametrize("size", [(1, 1), (60, 50), (400, 5), (3, 2000)])
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
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "pip install 'saccade-vlm[ocr]'" in result.problem.detail


@needs_engine
def test_without_its_models_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: ToolContext
) -> None:
    import rapidocr

    def detail() -> str:
        result = Ocr().call({}, page)
        assert result.status is Status.REFUSED
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
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "pip install easyocr" in result.problem.detail


def reading(*lines: tuple[str, float]) -> Ocr:
    """A reader whose engine, which is not ours, finds these lines with these scores."""
    tool = Ocr()
    corners = [[(0, 0), (9, 0), (9, 4), (0, 4)]] * len(lines)
    texts, scores = [text for text, _ in lines], [score for _, score in lines]
    tool._engine = lambda image, text_score: SimpleNamespace(boxes=corners or None, txts=texts, scores=scores)
    return tool


def test_lines_of_the_least_confidence_are_kept() -> None:
    context = ToolContext({"page": Image.new("RGB", (40, 40), "white")})
    tool = reading(("at", 0.5), ("below", 0.4999), ("", 0.9), ("over", 1.25), ("under", -0.1))
    assert tool.call({}, context).value == {
        "image": "page",
        "text": "at\nover",
        "lines": [
            {"text": text, "confidence": sure, "box": [0, 0, 9, 4], "corners": [[0, 0], [9, 0], [9, 4], [0, 4]]}
            for text, sure in (("at", 0.5), ("over", 1.0))
        ],
    }
    everything = tool.call({"min_confidence": 0}, context).value
    assert everything["text"] == "at\nbelow\nover\nunder"
    assert everything["lines"][3]["confidence"] == 0  # type: ignore[index, call-overload]
    assert reading().call({}, context).text == "No text was found in page."


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([7], [0]),
        ([1, 2, 3], [0, 1, 2]),
        ([5, 5, 5, 5], [0, 1, 2, 3]),
        ([5, 5, 5, 5, 5], [0, 1, 3, 4]),
        ([1, 5, 5, 5, 5, 5, 5, 2], [0, 1, 2, 5, 6, 7]),
        ([5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1], [0, 1, 3, 4, 5, 6, 9, 10]),
    ],
)
def test_of_a_run_of_equal_rows_both_ends_are_kept(rows: list[int], kept: list[int]) -> None:
    pixels = np.repeat(np.array(rows, np.uint8)[:, None, None], 3, axis=1)
    assert kept_rows(pixels, 4).tolist() == kept


class _Squares:
    """Stands for the detector: a box around all that is black."""

    limit_side_len = 0

    def __call__(self, pixels: PixelArray) -> Any:
        self.shape = pixels.shape
        ys, xs = np.nonzero(pixels[..., 0] == 0)
        if not len(ys):
            return SimpleNamespace(boxes=None)
        corners = [(x, y) for x, y in ((xs.min(), ys.min()), (xs.max(), ys.min()), (xs.max(), ys.max()))]
        return SimpleNamespace(boxes=np.array([corners], np.float32))


@pytest.mark.parametrize(
    ("size", "most", "enlarged"), [((400, 600), 24, 736 / 400), ((200, 300), 24, 2), ((960, 900), 56, 736 / 900)]
)
def test_boxes_are_in_coordinates_of_the_picture(size: tuple[int, int], most: int, enlarged: float) -> None:
    pixels = np.full((*size, 3), 255, np.uint8)
    noise = np.random.default_rng(0).integers(0, 2, (20, 30, 3), np.uint8) * 255
    noise[0, 0] = noise[-1, -1] = 0
    pixels[150:170, 120:150] = noise
    detector = _Squares()
    found = CompactDetector(detector)(pixels)
    assert found.boxes.tolist() == [[[120, 150], [149, 150], [149, 169]]]
    assert detector.shape == (20 + 2 * most, size[1], 3)
    assert detector.limit_side_len == round(enlarged * (20 + 2 * most))


def test_a_picture_without_runs_is_looked_at_as_it_is() -> None:
    pixels = np.random.default_rng(1).integers(1, 255, (60, 90, 3), np.uint8)
    detector = _Squares()
    assert CompactDetector(detector)(pixels).boxes is None
    assert detector.shape == pixels.shape


@needs_engine
def test_text_far_apart_is_read_in_fewer_pixels(tool: Ocr, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.new("RGB", (640, 480), "white")
    pen = ImageDraw.Draw(picture)
    pen.rectangle((300, 60, 360, 420), fill="navy")
    places = {"Harvest": (20, 20), "1984": (540, 24), "Berlin": (290, 440), "750": (40, 250)}
    for text, at in places.items():
        pen.text(at, text, fill="black", font=ImageFont.load_default(18))
    tool.load()
    detector = tool._engine.text_det._detector
    pixels = []
    monkeypatch.setattr(detector, "session", lambda x, ask=detector.session: pixels.append(x[0, 0].size) or ask(x))
    result = tool.call({}, ToolContext({"chart": picture}))
    assert result.value is not None, result.problem
    read = {line["text"]: line["box"] for line in result.value["lines"]}
    assert read.keys() == places.keys()
    for text, (x, y) in places.items():
        assert abs(read[text][0] - x) <= 10, text
        assert abs(read[text][1] - y) <= 12, text
    assert pixels[0] < 0.5 * 736 * 981


@needs_engine
def test_a_page_on_its_head_is_read(tool: Ocr) -> None:
    page = Image.new("RGB", (500, 260), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(44)
    pen.text((40, 40), "SOS 689", fill="black", font=font)
    pen.text((220, 170), "Banana split", fill="black", font=font)
    result = tool.call({}, ToolContext({"page": page.rotate(180)}))
    assert result.value is not None, result.problem
    assert {line["text"] for line in result.value["lines"]} == {"SOS 689", "Banana split"}
