"""Text in an image, read by RapidOCR (PP-OCR models on ONNX Runtime, on the CPU), or by EasyOCR if the setup says so.

The models lie in the package's own wheel, so nothing is downloaded; where they do not, the tool is unavailable. It
reads printed text in Latin and Chinese script well, handwriting and formulas badly, and it changes no characters.
"""

from __future__ import annotations

import os
import threading
from math import ceil, floor
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from saccade.errors import UnavailableError
from saccade.tools.arguments import ToolModel
from saccade.tools.base import Alias, Cost, Needs, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox
from saccade.tools.look import LookArguments, PixelArray, look
from saccade.tools.ocr_detector import CompactDetector
from saccade.tools.ocr_easyocr import easyocr_engine
from saccade.tools.ocr_upright import UprightRecognizer
from saccade.tools.operation import Operation
from saccade.tools.setup import tool_setup

_MODELS: Final = ("det", "rec", "cls")
_LEAST_SIDE: Final = 32
_LINE_HEIGHT: Final = 48
"""Of a line as the recogniser reads it, in pixels."""
_MOST_ASPECT: Final = 4


class OcrArguments(LookArguments):
    """Where to read, and how sure to be."""

    min_confidence: Annotated[float, Field(ge=0, le=1, description="Lines below it are left out.")] = 0.5


class TextLine(ToolModel):
    """One line of text, in coordinates of the whole image."""

    text: str
    confidence: float
    """0..1."""
    box: PixelBox
    """Upright box around `corners`."""
    corners: tuple[tuple[float, float], ...]
    """Four, clockwise from the top left of the text."""


class OcrResult(ToolModel):
    """What was read."""

    image: str
    text: str
    """The lines as found, top to bottom, joined by line breaks."""
    lines: tuple[TextLine, ...]


class Ocr(Tool[OcrArguments, OcrResult]):
    """Reads printed text with RapidOCR, or with EasyOCR."""

    name = "ocr"
    suits = (("tables, forms and other print", 0),)
    operation = Operation.OCR
    description = (
        "Read the printed text. Lists each line with its text, confidence, bounding box "
        "and corners in pixels of the image. Crop and enlarge first if the text is tiny."
    )
    arguments = OcrArguments
    result = OcrResult
    aliases = (Alias("easyocr", {"region": "box"}),)
    needs = Needs(
        modules=("rapidocr", "onnxruntime"),
        weights="PP-OCR detection, direction and recognition, inside the rapidocr wheel",
        install='pip install "saccade[ocr]"',
    )
    cost = Cost.MEDIUM

    def __init__(self) -> None:
        self._engine: Any = None
        # The engine keeps settings of the running call in itself.
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load the three models."""
        with self._lock:
            if self._engine is None:
                self._engine = _load()

    def run(self, arguments: OcrArguments, context: ToolContext) -> ToolOutcome[OcrResult]:
        """Detect, turn upright, recognise."""
        seen = look(arguments, context)
        pixels = _padded(seen.rgb)
        with self._lock:
            if self._engine is None:
                self._engine = _load()
            raw = self._engine(Image.fromarray(pixels), text_score=0.0)
        size = context.image(arguments.image).size
        lines = []
        for corners, text, score in zip(*_parts(raw), strict=True):
            confidence = min(max(float(score), 0.0), 1.0)
            if confidence >= arguments.min_confidence and text:
                places = tuple(seen.point_of(x, y) for x, y in corners)
                box = _around(places, size)
                lines.append(TextLine(text=text, confidence=round(confidence, 4), box=box, corners=places))
        value = OcrResult(image=seen.image, text="\n".join(line.text for line in lines), lines=tuple(lines))
        return ToolOutcome(value, text="" if lines else f"No text was found in {seen.image}.")


def _load() -> Any:
    setup = tool_setup(Ocr.name)
    if setup.engine == "easyocr":
        return easyocr_engine(setup)
    import rapidocr

    folder = Path(rapidocr.__file__).parent / "models"
    files = [path.name for path in folder.glob("*.onnx")]
    if not all(any(part in name for name in files) for part in _MODELS):
        # Without them the package would start to download, which this tool never does.
        raise UnavailableError("the installed rapidocr brings no models in its wheel; install version 3.10 or newer")
    try:
        # In a worker process as many threads as it was given; by itself all cores.
        threads = int(os.environ.get("OMP_NUM_THREADS") or -1)
        params = {
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            # Without it each large buffer of each call is asked of the system again.
            "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
            # Lines by themselves and in their own width: in batches each is as wide as the widest, and 320 pixels at
            # least, so that most of what is recognised on a chart is padding.
            "Rec.rec_batch_num": 1,
            "Rec.rec_img_shape": [3, _LINE_HEIGHT, _LINE_HEIGHT],
        }
        engine: Any = rapidocr.RapidOCR(params=params)
        engine(_word())  # each model is loaded when there is something for it
        engine.text_det = CompactDetector(engine.text_det)
        engine.text_rec, engine.use_cls = UprightRecognizer(engine.text_rec, engine.text_cls), False
        return engine
    except Exception as error:
        raise UnavailableError(f"rapidocr cannot load its models: {type(error).__name__}: {error}") from error


def _word() -> PixelArray:
    picture = Image.new("RGB", (160, 64), "white")
    ImageDraw.Draw(picture).text((20, 12), "Word", fill="black", font=ImageFont.load_default(32))
    return np.asarray(picture)


def _padded(rgb: PixelArray) -> PixelArray:
    # The detector enlarges the short side to hundreds of pixels: a strip of 400 × 3 would become one of 100,000.
    # White below and to the right moves no coordinate.
    height, width = rgb.shape[:2]
    least = max(_LEAST_SIDE, max(height, width) // _MOST_ASPECT)
    missing = (max(0, least - height), max(0, least - width))
    return np.pad(rgb, ((0, missing[0]), (0, missing[1]), (0, 0)), constant_values=255)


def _parts(raw: Any) -> tuple[list[Any], list[str], list[float]]:
    if raw.boxes is None or raw.txts is None:
        return [], [], []
    return list(raw.boxes), list(raw.txts), list(raw.scores)


def _around(corners: tuple[tuple[float, float], ...], size: tuple[int, int]) -> PixelBox:
    # At least a pixel inside the image: a detected corner may lie on its very edge.
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    left, top = min(max(floor(min(xs)), 0), size[0] - 1), min(max(floor(min(ys)), 0), size[1] - 1)
    right, bottom = min(max(ceil(max(xs)), left + 1), size[0]), min(max(ceil(max(ys)), top + 1), size[1])
    return left, top, right, bottom
