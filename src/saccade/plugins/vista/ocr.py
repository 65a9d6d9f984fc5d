"""Text in an image, read by RapidOCR (PP-OCR models on ONNX Runtime, on the CPU), or by EasyOCR if the setup says so.

The models are in the package's own wheel, so nothing is downloaded; where they do not, the tool is unavailable. It
reads printed text in Latin and Chinese script well, handwriting and formulas badly, and it changes no characters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from math import ceil, floor
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from saccade.core.registry import install
from saccade.errors import UnavailableError
from saccade.plugins.vista.weights import look_for_model
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext
from saccade.tools.definition import Alias, Cost, Needs, PixelBox, ToolModel
from saccade.tools.measure import LookArguments, PixelArray, look
from saccade.tools.setup import ToolSetup, tool_setup

# Text is looked for in fewer pixels than a picture has, and found where it is in the picture.
#
# The detector takes most of the time of OCR, in proportion to its pixels. It is shown a small picture twice as large at
# most, and no long run of rows that are all alike: margins above and below, and the inside of a plot. Text has such
# runs only where all its letters are straight, for less than their height. Columns all stay: words with less between
# them would be taken for one line.

_SIDE: Final = 736
"""Short side up to which a picture is enlarged, in pixels, as the engine itself does it."""
_MOST_ENLARGED: Final = 2
"""By half, single letters are missed."""
_LONGEST_RUN: Final = 24
"""Of rows that stay, at least. With 16 fewer labels of charts were read."""
_RUNS_OF_SIDE: Final = 16
"""A run may be as long as this part of the short side: larger pictures may have larger letters."""


class CompactDetector:
    """RapidOCR's detector of text, in its place; keeps the size of the running call in it."""

    def __init__(self, detector: Callable[[PixelArray], Any]) -> None:
        self._detector: Any = detector

    def __call__(self, pixels: PixelArray) -> Any:
        """Detect text, with boxes in coordinates of the picture."""
        short = min(pixels.shape[:2])
        rows = kept_rows(pixels, max(_LONGEST_RUN, short // _RUNS_OF_SIDE))
        enlarged = min(_SIDE / short, _MOST_ENLARGED)
        self._detector.limit_side_len = round(enlarged * min(len(rows), pixels.shape[1]))
        found = self._detector(pixels[rows])
        if found.boxes is not None:
            found.boxes[..., 1] = np.interp(found.boxes[..., 1], np.arange(len(rows)), rows)
        return found


def kept_rows(pixels: PixelArray, longest: int) -> NDArray[np.intp]:
    """Return the rows of (rows, columns, 3) to keep: of a run of equal ones the first and last `longest // 2`.

    So what lies next to a run keeps its distance to what is left of it, and a box that reaches into a run stays exact.
    """
    numbers = np.arange(len(pixels))
    starts = np.concatenate([[True], (pixels[1:] != pixels[:-1]).any(axis=(1, 2))])
    first = np.flatnonzero(starts)
    run = np.cumsum(starts) - 1
    after_first, before_last = numbers - first[run], np.append(first[1:], len(pixels))[run] - 1 - numbers
    return np.flatnonzero(np.minimum(after_first, before_last) < longest // 2)


# EasyOCR in RapidOCR's place: eighty languages, on a GPU if there is one; it brings no models in its wheel.
#
# Its models lie where `weights` of the setup says, or else in its own folder; nothing is downloaded here. The package
# is under Apache 2.0 and needs torch and torchvision.


def easyocr_engine(setup: ToolSetup) -> Callable[..., Any]:
    """Return a function that reads a picture, and gives boxes (four corners), texts and scores as RapidOCR does.

    Raises `UnavailableError`: the package or its models are not there.
    """
    try:
        import easyocr
    except ImportError as error:
        raise UnavailableError(
            "the setup of tools names easyocr, which is not installed: pip install easyocr"
        ) from error
    try:
        reader = easyocr.Reader(
            list(setup.languages),
            gpu=setup.device != "cpu",
            model_storage_directory=setup.weights or None,
            download_enabled=False,
            verbose=False,
        )
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UnavailableError(f"easyocr cannot load its models ({', '.join(setup.languages)}): {why}") from error

    def read(picture: Image.Image, *, text_score: float) -> SimpleNamespace:
        rows = [row for row in reader.readtext(np.asarray(picture)) if row[2] >= text_score]
        boxes, texts, scores = zip(*rows, strict=True) if rows else ((), (), ())
        return SimpleNamespace(boxes=boxes, txts=texts, scores=scores)

    return read


# Which lines of text stand on their heads is asked only where they were not surely read.
#
# Most text is upright, and the classifier of direction takes some short words, such as Fri, to be on their heads.


_SURE: Final = 0.9
"""Confidence from which a line is taken as upright."""
_TURNED: Final = "180"


class UprightRecognizer:
    """RapidOCR's recogniser in its place: lines that it cannot read surely are turned where the classifier says so."""

    def __init__(self, recognizer: Callable[[Any], Any], classifier: Callable[[list[Any]], Any]) -> None:
        self._recognizer: Any = recognizer
        self._classifier: Any = classifier

    def __call__(self, asked: Any) -> Any:
        """Recognise the lines, each upright.

        Where one is turned, so may be others that can be read either way; then all are asked for.
        """
        read = self._recognizer(asked)
        unsure = [place for place, score in enumerate(read.scores) if score < _SURE]
        turned = self._turned(asked.img, unsure)
        if turned:
            turned |= self._turned(asked.img, [place for place in range(len(read.scores)) if place not in unsure])
        if not turned:
            return read
        again = self._recognizer(type(asked)(img=list(turned.values()), return_word_box=asked.return_word_box))
        texts, scores = list(read.txts), list(read.scores)
        for place, text, score in zip(turned, again.txts, again.scores, strict=True):
            texts[place], scores[place] = text, score
        read.txts, read.scores = tuple(texts), tuple(scores)
        return read

    def _turned(self, lines: Sequence[Any], places: Sequence[int]) -> dict[int, Any]:
        """Return place -> the line upright, of those that are not."""
        if not places:
            return {}
        least = self._classifier.cls_thresh
        said = self._classifier([lines[place] for place in places]).cls_res
        return {
            place: np.ascontiguousarray(np.rot90(lines[place], 2))
            for place, (label, score) in zip(places, said, strict=True)
            if _TURNED in label and score > least
        }


_MODELS: Final = ("det", "rec", "cls")
_LEAST_LETTER: Final = 4
"""Pixels that a letter is high, at least."""
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
    """Text that was read."""

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
        install=install("ocr"),
    )
    cost = Cost.MEDIUM

    def __init__(self) -> None:
        self._engine: Any = None
        # The engine keeps settings of the running call in itself.
        self._lock = threading.Lock()

    def load(self) -> None:
        with self._lock:
            if self._engine is None:
                self._engine = _load()

    def run(self, arguments: OcrArguments, context: ToolContext) -> ToolOutcome[OcrResult]:
        """Detect, turn upright, recognise."""
        seen = look(arguments, context)
        if min(seen.rgb.shape[:2]) < _LEAST_LETTER:
            return ToolOutcome(
                OcrResult(image=seen.image, text="", lines=()), text=f"No text was found in {seen.image}."
            )
        pixels = _padded(look_for_model(arguments, context).rgb)
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
    # At least a pixel inside the image: a detected corner may be on its very edge.
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    left, top = min(max(floor(min(xs)), 0), size[0] - 1), min(max(floor(min(ys)), 0), size[1] - 1)
    right, bottom = min(max(ceil(max(xs)), left + 1), size[0]), min(max(ceil(max(ys)), top + 1), size[1])
    return left, top, right, bottom
