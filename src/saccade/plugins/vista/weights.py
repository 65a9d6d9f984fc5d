"""Tools that hold a checkpoint: DePlot, UniChart, GroundingDINO and Segment Anything.

A checkpoint is loaded once, on the device and in the format that the setup of tools names. Nothing of it is run but
what transformers itself knows (`trust_remote_code` is never set).
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import cv2
import numpy as np
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.core.registry import install
from saccade.errors import UnavailableError
from saccade.media.modes import MAX_ASPECT_RATIO
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    Alias,
    Cost,
    ImageChoice,
    Needs,
    PixelBox,
    Point,
    ToolModel,
    UnitsField,
    Xyxy,
    pixel_box,
    pixel_point,
)
from saccade.tools.measure import MAX_PIXELS, Look, LookArguments, PixelArray, fraction, look, picture_of
from saccade.tools.setup import SetupEntry, ToolSetup, tool_setup

T = TypeVar("T")
A = TypeVar("A", bound=ToolModel)
R = TypeVar("R", bound=ToolModel)
S = TypeVar("S")
_INSTALL: Final = install("local")
_log = logging.getLogger(__name__)


def checkpoint_needs(tool: str, weights: str, example: str) -> Needs:
    """Return the needs of a tool that loads a checkpoint.

    Args:
        tool: Its name, and that of its table in the setup.
        weights: Which, how large and under which licence.
        example: A hub name that fits.
    """
    return Needs(("torch", "transformers"), weights, _INSTALL, SetupEntry(tool, "weights", example))


def look_for_model(arguments: LookArguments, context: ToolContext) -> Look:
    """Return as `look`, for a model that scales it: a strip would grow to gigabytes or shrink to nothing.

    Raises `CallProblem` as `look`, and if one side is over `MAX_ASPECT_RATIO` times the other.
    """
    seen = look(arguments, context)
    shorter, longer = sorted(seen.rgb.shape[:2])
    if longer > MAX_ASPECT_RATIO * shorter:
        raise wrong_format(f"One side of the region is over {MAX_ASPECT_RATIO} times the other. Choose a wider box.")
    return seen


@dataclass(frozen=True, slots=True)
class Placed:
    """Where and how a model runs."""

    setup: ToolSetup
    device: str
    dtype: Any
    """Of torch."""

    @property
    def hub(self) -> dict[str, Any]:
        revision = {"revision": self.setup.revision} if self.setup.revision else {}
        return {"trust_remote_code": False, **revision}


class CheckpointSlot(Generic[T]):
    """Weights that a tool loads on its first call and keeps; safe for several threads."""

    def __init__(self, tool: str, load: Callable[[Placed], T]) -> None:
        self._tool = tool
        self._load = load
        self._lock = threading.Lock()
        self._held: tuple[ToolSetup, T] | None = None

    def get(self) -> T:
        """Return the loaded thing; loaded anew if the setup changed.

        Raises `UnavailableError`: it cannot be loaded; says why.
        """
        setup = tool_setup(self._tool)
        with self._lock:
            if self._held is None or self._held[0] != setup:
                self._held = (setup, self._loaded(setup))
            return self._held[1]

    def _loaded(self, setup: ToolSetup) -> T:
        import torch

        device = setup.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            loaded = self._load(Placed(setup, device, getattr(torch, setup.dtype)))
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise UnavailableError(f"the weights {setup.weights!r} of {self._tool} cannot be loaded: {why}") from error
        _log.info("%s holds %s on %s", self._tool, setup.weights, device)
        return loaded


class CheckpointTool(Tool[A, R], Generic[A, R, S]):
    """A tool whose calls that arrive together become one pass of its checkpoint."""

    cost = Cost.HEAVY

    def __init__(self) -> None:
        self._slot: CheckpointSlot[Any] = CheckpointSlot(self.name, self._loaded)

    @abstractmethod
    def _loaded(self, placed: Placed) -> Any:
        """Load processor and model."""

    @abstractmethod
    def _seen(self, arguments: A, context: ToolContext) -> S:
        """Return what the model is to look at for one call. Raises as `run`."""

    @abstractmethod
    def _passed(self, held: Any, seen: Sequence[S]) -> Sequence[ToolOutcome[R]]:
        """Return the outcomes of one pass of the checkpoint over calls of one kind."""

    def _kind(self, seen: S) -> Hashable:
        """Return the same for calls that one pass can take together: by itself all of them."""
        return None

    def load(self) -> None:
        self._slot.get()

    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        """Return one pass for one call."""
        (outcome,) = self.run_batch([(arguments, context)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run_batch(self, calls: Sequence[tuple[A, ToolContext]]) -> Sequence[ToolOutcome[R] | Exception]:
        """Return a pass of the model for each kind among the calls that are in order."""
        outcomes: dict[int, ToolOutcome[R] | Exception] = {}
        kinds: dict[Hashable, list[tuple[int, S]]] = {}
        for number, (arguments, context) in enumerate(calls):
            try:
                seen = self._seen(arguments, context)
                kinds.setdefault(self._kind(seen), []).append((number, seen))
            except Exception as error:  # one call's mistake is not held against the others
                outcomes[number] = error
        for alike in kinds.values():
            passed = self._passed(self._slot.get(), [seen for _, seen in alike])
            outcomes |= {number: outcome for (number, _), outcome in zip(alike, passed, strict=True)}
        return [outcomes[number] for number in range(len(calls))]


# DePlot and UniChart: the table behind a chart, written by a checkpoint.
#
# google/deplot: 282 million parameters, 1.1 GB, Apache 2.0; Liu et al., DePlot (2023). ahmed-masry/unichart-base-960:
# 201 million, 0.8 GB, GPL 3.0 as its authors publish it; Masry et al., UniChart (2023). What they write may be wrong.


# Linearised tables, as chart readers write them, taken apart into rows.
#
# DePlot: rows end with `<0x0A>`, cells with `|`, and a first row `TITLE | ...`. UniChart: rows end with `&`.


class ChartTable(ToolModel):
    """A table as it was written; whether its rows are equally long is not checked."""

    title: str
    """Empty if none was written."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(text: str, row_end: str) -> ChartTable:
    """Return the table of a linearised text; rows without a cell are left out."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.split(row_end)]
    kept = [tuple(line) for line in lines if any(line)]
    title = ""
    if kept and kept[0][0].upper() == "TITLE":
        title = " | ".join(kept.pop(0)[1:])
    return ChartTable(title=title, header=kept[0] if kept else (), rows=tuple(kept[1:]))


def as_markdown(table: ChartTable) -> str:
    """Write the table for a model to read; a sentence if there is none."""
    if not table.header:
        return "No table was written."
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table.title}\n{body}" if table.title else body


_DEPLOT_HEADER: Final = "Generate underlying data table of the figure below:"
_UNICHART_PROMPT: Final = "<extract_data_table> <s_answer>"


class ChartReaderResult(ToolModel):
    """Table as it was written."""

    image: str
    table: ChartTable
    raw: str
    """The text of the model."""
    complete: bool
    """False if it was cut at the most tokens of the setup."""


@dataclass(frozen=True, slots=True)
class ReaderCheckpoint:
    """A loaded checkpoint with its processor."""

    processor: Any
    model: Any
    most: int = 0
    """Tokens that it may write; 0 for a model that writes none."""


class _ChartReader(CheckpointTool[LookArguments, ChartReaderResult, tuple[str, Image.Image]]):
    arguments = LookArguments
    result = ChartReaderResult
    batch = 4
    row_end: str

    @abstractmethod
    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        """Return the text of each picture, and whether it came to its end."""

    def _seen(self, arguments: LookArguments, context: ToolContext) -> tuple[str, Image.Image]:
        part = look_for_model(arguments, context)
        return part.image, picture_of(part.rgb)

    def _passed(
        self, held: ReaderCheckpoint, seen: Sequence[tuple[str, Image.Image]]
    ) -> Sequence[ToolOutcome[ChartReaderResult]]:
        texts = self._written(held, [picture for _, picture in seen])
        return [self._outcome(image, *text) for (image, _), text in zip(seen, texts, strict=True)]

    def _outcome(self, image: str, raw: str, complete: bool) -> ToolOutcome[ChartReaderResult]:
        table = read_table(raw, self.row_end)
        value = ChartReaderResult(image=image, table=table, raw=raw, complete=complete)
        cut = "" if complete else "\nThe table was cut: the model wrote as much as the setup of tools allows."
        return ToolOutcome(value, text=as_markdown(table) + cut)


def _generated(reader: ReaderCheckpoint, inputs: dict[str, Any]) -> tuple[Any, list[bool]]:
    import torch

    before = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else 1
    with torch.inference_mode():
        ids = reader.model.generate(**inputs, max_new_tokens=reader.most, do_sample=False, num_beams=1)
    end = reader.processor.tokenizer.eos_token_id
    return ids, [bool((row[before:] == end).any()) for row in ids]


class DePlot(_ChartReader):
    """The table of a chart by DePlot."""

    name = "deplot"
    suits = (("charts", 2),)
    description = (
        "Write the table behind a chart with DePlot. Gives title, header and rows as the model wrote them; numbers may "
        "be wrong."
    )
    needs = checkpoint_needs("deplot", "DePlot (Pix2Struct); google/deplot has 1.1 GB, Apache 2.0", "google/deplot")
    row_end = "<0x0A>"

    def _loaded(self, placed: Placed) -> ReaderCheckpoint:
        from transformers import Pix2StructForConditionalGeneration, Pix2StructProcessor

        processor = Pix2StructProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = Pix2StructForConditionalGeneration.from_pretrained(
            placed.setup.weights, dtype=placed.dtype, **placed.hub
        )
        return ReaderCheckpoint(processor, model.to(placed.device).eval(), placed.setup.max_tokens)

    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        images = reader.processor.image_processor
        # The question stands in the picture. The original's font comes from the hub; this one is Matplotlib's, like it.
        headed = [
            images.render_header(np.asarray(picture).transpose(2, 0, 1), _DEPLOT_HEADER, font_path=_font())
            for picture in pictures
        ]
        inputs = images(headed, is_vqa=False, return_tensors="pt", input_data_format="channels_first")
        model = reader.model
        given = {
            "flattened_patches": inputs["flattened_patches"].to(model.device, model.dtype),
            "attention_mask": inputs["attention_mask"].to(model.device),
        }
        ids, complete = _generated(reader, given)
        texts = reader.processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return list(zip((text.strip() for text in texts), complete, strict=True))


def _font() -> str:
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")


class UniChart(_ChartReader):
    """The table of a chart by UniChart."""

    name = "unichart"
    suits = (("charts", 3),)
    description = (
        "Write the table behind a chart with UniChart. Gives header and rows as the model wrote them; numbers may be "
        "wrong."
    )
    needs = checkpoint_needs(
        "unichart",
        "UniChart (Donut); ahmed-masry/unichart-base-960 has 0.8 GB, GPL 3.0",
        "ahmed-masry/unichart-base-960",
    )
    row_end = "&"

    def _loaded(self, placed: Placed) -> ReaderCheckpoint:
        from transformers import DonutProcessor, VisionEncoderDecoderModel

        processor = DonutProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = VisionEncoderDecoderModel.from_pretrained(placed.setup.weights, dtype=placed.dtype, **placed.hub)
        return ReaderCheckpoint(processor, model.to(placed.device).eval(), placed.setup.max_tokens)

    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        model, tokenizer = reader.model, reader.processor.tokenizer
        pixels = reader.processor.image_processor(list(pictures), return_tensors="pt")["pixel_values"]
        prompt = tokenizer(_UNICHART_PROMPT, add_special_tokens=False, return_tensors="pt")["input_ids"]
        given = {
            "pixel_values": pixels.to(model.device, model.dtype),
            "decoder_input_ids": prompt.expand(len(pictures), -1).to(model.device),
        }
        ids, complete = _generated(reader, given)
        # Only what follows the prompt is the table.
        texts = tokenizer.batch_decode(ids[:, prompt.shape[1] :], skip_special_tokens=True)
        return list(zip((text.strip() for text in texts), complete, strict=True))


# GroundingDINO: the things that a caption names, as boxes. Also loads MM-GroundingDINO, which has the same form.
#
# The weights of IDEA-Research are under Apache 2.0: `grounding-dino-tiny` 172 million parameters, 0.7 GB; `-base` 233
# million, 0.9 GB. Liu et al., Grounding DINO (2023).


Part = tuple[float, float, float, float]


class GroundingArguments(LookArguments):
    """Things to find, and the confidence needed."""

    caption: Annotated[
        str, Field(min_length=1, max_length=500, description="Things to find, separated by full stops: a cat. a cup.")
    ]
    box_threshold: Annotated[float, Field(ge=0, le=1, description="Least score of a box.")] = 0.35
    text_threshold: Annotated[float, Field(ge=0, le=1, description="Least score of a word to name the box.")] = 0.25
    nms: Annotated[float, Field(gt=0, le=1, description="Boxes that overlap more are one (IoU).")] = 0.8


class GroundedBox(ToolModel):
    """A thing that was found; its box is in pixels of the whole image."""

    box: tuple[float, float, float, float]
    phrase: str
    """The words of the caption that it fits; empty if none reached the threshold."""
    score: float


class GroundingResult(ToolModel):
    """Boxes that were found, the surest first."""

    image: str
    boxes: tuple[GroundedBox, ...]


class GroundingDino(CheckpointTool[GroundingArguments, GroundingResult, tuple[Look, GroundingArguments]]):
    """Boxes of things named in words."""

    name = "grounding_dino"
    suits = (("counting", 2), ("small or hidden things", 1))
    description = (
        "Find the things that a caption names. Lists a box in pixels, the fitting words and a score for each, the "
        "surest first, and gives a new image with the boxes in red."
    )
    arguments = GroundingArguments
    result = GroundingResult
    aliases = (Alias("groundingdino"), Alias("mm_grounding_dino"))
    renames = MappingProxyType(dict.fromkeys(("arguments", "text", "prompt", "query"), "caption"))
    needs = checkpoint_needs(
        "grounding_dino",
        "GroundingDINO or MM-GroundingDINO; IDEA-Research/grounding-dino-tiny has 0.7 GB, Apache 2.0",
        "IDEA-Research/grounding-dino-tiny",
    )
    batch = 8
    """Most calls that one pass of the model takes."""

    def _loaded(self, placed: Placed) -> ReaderCheckpoint:
        from transformers import AutoModelForZeroShotObjectDetection as Model
        from transformers import AutoProcessor

        processor = AutoProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = Model.from_pretrained(placed.setup.weights, dtype=placed.dtype, **placed.hub)
        return ReaderCheckpoint(processor, model.to(placed.device).eval())

    def _seen(self, arguments: GroundingArguments, context: ToolContext) -> tuple[Look, GroundingArguments]:
        return look_for_model(arguments, context), arguments

    def _passed(
        self, held: ReaderCheckpoint, seen: Sequence[tuple[Look, GroundingArguments]]
    ) -> list[ToolOutcome[GroundingResult]]:
        import torch

        texts = [caption_of(arguments.caption) for _, arguments in seen]
        pictures = [picture_of(part.rgb) for part, _ in seen]
        inputs = held.processor(images=pictures, text=texts, return_tensors="pt", padding=True).to(held.model.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(held.model.dtype)
        with torch.inference_mode():
            outputs = held.model(**inputs)
        made = []
        for index, (part, arguments) in enumerate(seen):
            own = slice(index, index + 1)
            (boxes,) = held.processor.post_process_grounded_object_detection(
                type(outputs)(logits=outputs.logits[own].float(), pred_boxes=outputs.pred_boxes[own].float()),
                inputs["input_ids"][own],
                threshold=arguments.box_threshold,
                text_threshold=arguments.text_threshold,
                target_sizes=[part.rgb.shape[:2]],
            )
            made.append(_outcome(part, boxes, arguments.nms))
        return made


def caption_of(text: str) -> str:
    """Return the caption as the model was trained: lower case, each thing ended by a full stop."""
    things = [part.strip() for part in text.lower().replace(";", ".").split(".")]
    return " ".join(f"{thing}." for thing in things if thing) or "."


def _outcome(seen: Look, boxes: Any, nms: float) -> ToolOutcome[GroundingResult]:
    height, width = seen.rgb.shape[:2]
    rows: list[tuple[float, Part, str]] = []
    # Of no boxes there is one empty phrase.
    for score, box, phrase in zip(
        boxes["scores"].tolist(), boxes["boxes"].tolist(), boxes["text_labels"], strict=False
    ):
        left, top, right, bottom = box
        clipped = (max(0.0, left), max(0.0, top), min(float(width), right), min(float(height), bottom))
        if clipped[0] < clipped[2] and clipped[1] < clipped[3]:
            rows.append((float(score), clipped, str(phrase)))
    kept = suppressed(sorted(rows, key=lambda row: -row[0]), nms)
    x, y = seen.box[:2]
    detected = tuple(
        GroundedBox(
            box=(round(x + box[0], 1), round(y + box[1], 1), round(x + box[2], 1), round(y + box[3], 1)),
            phrase=phrase.removesuffix("[SEP]").strip(),
            score=round(score, 4),
        )
        for score, box, phrase in kept
    )
    value = GroundingResult(image=seen.image, boxes=detected)
    if not kept:
        return ToolOutcome(value, text=f"Nothing of the caption was found in {seen.image}. A lower box_threshold may.")
    drawn = picture_of(seen.rgb)
    pen = ImageDraw.Draw(drawn)
    for _, box, _ in kept:
        pen.rectangle(box, outline=(255, 0, 0), width=2)
    return ToolOutcome(value, (("boxes", drawn),))


def suppressed(rows: Sequence[tuple[float, Part, str]], overlap: float) -> list[tuple[float, Part, str]]:
    """Return rows of (score, box, phrase), the surest first, without those that overlap a surer one too much."""
    kept: list[tuple[float, Part, str]] = []
    for row in rows:
        if all(_overlap(row[1], other[1]) <= overlap for other in kept):
            kept.append(row)
    return kept


def _overlap(a: Part, b: Part) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


# Segment Anything, versions 1 and 2: the mask of what points or a box mean.
#
# Weights of Meta are under Apache 2.0: `sam-vit-base` 94 million parameters, 0.4 GB; `sam2.1-hiera-tiny` 39 million,
# 0.2 GB. Kirillov et al., Segment Anything (2023); Ravi et al., SAM 2 (2024). Pictures are prepared here, since the
# image processor of SAM 2 needs torchvision: version 1 scales the longer side and pads, version 2 stretches to a
# square.


_MEAN: Final = (0.485, 0.456, 0.406)
_SPREAD: Final = (0.229, 0.224, 0.225)


class SamArguments(ToolModel):
    """Prompt: points, a box, or both."""

    image: ImageChoice = None
    points: Annotated[tuple[Point, ...], Field(max_length=50, description="[x, y] on the thing, or beside it.")] = ()
    labels: Annotated[
        tuple[Literal[0, 1], ...], Field(description="For each point: 1 on the thing, 0 beside it. Default: all 1.")
    ] = ()
    box: Annotated[Xyxy | None, Field(description="[left, top, right, bottom] around the thing.")] = None
    units: UnitsField = "pixels"
    all_masks: Annotated[bool, Field(description="Also the part and the whole that the prompt could mean.")] = False


class SamMask(ToolModel):
    """One mask, in the order of the new images."""

    score: float
    """How good the model thinks it is, 0..1."""
    coverage: float
    """Part of the image that it covers, 0..1."""
    box: PixelBox | None
    """Around the mask, in pixels; null for an empty one."""


class SamResult(ToolModel):
    """Masks, the best first."""

    image: str
    masks: tuple[SamMask, ...]


@dataclass(frozen=True, slots=True)
class _Segmenter:
    model: Any
    side: int
    stretches: bool
    """Version 2."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    image: str
    rgb: PixelArray
    points: list[tuple[float, float]]
    """Pixels of the image."""
    labels: tuple[int, ...]
    box: PixelBox | None
    all_masks: bool


def _load(placed: Placed) -> _Segmenter:
    from transformers import AutoConfig, Sam2Model, SamModel

    kind = AutoConfig.from_pretrained(placed.setup.weights, **placed.hub).model_type
    if kind not in ("sam", "sam2", "sam2_video"):
        raise ValueError(f"it is a checkpoint of {kind}, not of sam or sam2")
    version_2 = kind != "sam"
    chosen: Any = Sam2Model if version_2 else SamModel
    model = chosen.from_pretrained(placed.setup.weights, dtype=placed.dtype, **placed.hub)
    side = model.config.prompt_encoder_config.image_size
    square = side if isinstance(side, int) else side[0]
    return _Segmenter(model.to(placed.device).eval(), int(square), version_2)


class Sam(CheckpointTool[SamArguments, SamResult, _Prompt]):
    """Masks by points and boxes."""

    name = "sam"
    suits = (("small or hidden things", 2),)
    operation = Operation.SEGMENT
    description = (
        "Cut out the thing that points or a box mean. Gives a black-and-white mask of the size of the image for the "
        "best reading, with its score, its box in pixels and the part of the image that it covers."
    )
    arguments = SamArguments
    result = SamResult
    aliases = (
        Alias("sam2", {"point_prompts": "points", "point_labels": "labels", "box_prompt": "box"}),
        Alias("segment_anything"),
    )
    needs = checkpoint_needs(
        "sam", "SAM or SAM 2; facebook/sam2.1-hiera-tiny has 0.2 GB, Apache 2.0", "facebook/sam2.1-hiera-tiny"
    )
    batch = 8

    def _loaded(self, placed: Placed) -> _Segmenter:
        return _load(placed)

    def _seen(self, arguments: SamArguments, context: ToolContext) -> _Prompt:
        if not arguments.points and arguments.box is None:
            raise wrong_format("Neither points nor a box say what is meant. Give at least one of them.")
        if arguments.labels and len(arguments.labels) != len(arguments.points):
            raise wrong_format(
                f"There are {len(arguments.points)} points and {len(arguments.labels)} labels. Give one for each point."
            )
        source = context.image(arguments.image)
        if source.size[0] * source.size[1] > MAX_PIXELS:
            raise wrong_format(f"The image has more than {MAX_PIXELS:,} pixels. Crop it first.")
        points = [pixel_point(point, arguments.units, source.size) for point in arguments.points]
        box = None if arguments.box is None else pixel_box(arguments.box, arguments.units, source.size)
        rgb: PixelArray = np.asarray(source.image, np.uint8)
        return _Prompt(source.name, rgb, points, arguments.labels, box, arguments.all_masks)

    def _kind(self, seen: _Prompt) -> tuple[int, bool]:
        return len(seen.points), seen.box is None

    def _passed(self, held: _Segmenter, seen: Sequence[_Prompt]) -> list[ToolOutcome[SamResult]]:
        made = []
        for prompt, (masks, scores) in zip(seen, _segment(held, seen), strict=True):
            order = sorted(range(len(scores)), key=lambda index: -scores[index])[: None if prompt.all_masks else 1]
            value = SamResult(image=prompt.image, masks=tuple(_described(masks[i], scores[i]) for i in order))
            made.append(ToolOutcome(value, tuple(("mask", picture_of(masks[index])) for index in order)))
        return made


def _segment(segmenter: _Segmenter, prompts: Sequence[_Prompt]) -> list[tuple[list[PixelArray], list[float]]]:
    """Return masks and scores of each prompt by one pass; all have as many points, and all or none have a box."""
    import torch

    model = segmenter.model
    squares = [prepared(prompt.rgb, segmenter.side, stretches=segmenter.stretches) for prompt in prompts]
    pixels = torch.from_numpy(np.stack([square for square, _ in squares])).to(model.device, model.dtype)
    given: dict[str, Any] = {"pixel_values": pixels, "multimask_output": True}
    scaled = [(prompt, across, down) for prompt, (_, (across, down)) in zip(prompts, squares, strict=True)]
    if prompts[0].points:
        moved = [[[[x * across, y * down] for x, y in prompt.points]] for prompt, across, down in scaled]
        labels = [[list(prompt.labels or [1] * len(prompt.points))] for prompt in prompts]
        given["input_points"] = torch.tensor(moved, dtype=model.dtype, device=model.device)
        given["input_labels"] = torch.tensor(labels, device=model.device)
    if prompts[0].box is not None:
        corners = [[[e * (down if i % 2 else across) for i, e in enumerate(p.box or ())]] for p, across, down in scaled]
        given["input_boxes"] = torch.tensor(corners, dtype=model.dtype, device=model.device)
    with torch.inference_mode():
        outputs = model(**given)
    made = []
    for number, (prompt, across, down) in enumerate(scaled):
        logits = outputs.pred_masks[number, 0].float().cpu().numpy()
        scores = outputs.iou_scores[number, 0].float().cpu().numpy()
        masks = [_full_size(one, prompt.rgb.shape[:2], segmenter, (across, down)) for one in logits]
        made.append((masks, [min(max(float(score), 0.0), 1.0) for score in scores]))
    return made


def prepared(rgb: PixelArray, side: int, *, stretches: bool) -> tuple[Any, tuple[float, float]]:
    """Return pixels as the model takes them, (3, side, side) float32, and their scale across and down."""
    height, width = rgb.shape[:2]
    longer = max(height, width)
    size = (side, side) if stretches else (round(width * side / longer), round(height * side / longer))
    small = cv2.resize(rgb, (max(1, size[0]), max(1, size[1])), interpolation=cv2.INTER_LINEAR)
    normal = (small.astype(np.float32) / 255 - np.array(_MEAN)) / np.array(_SPREAD)
    padded = np.zeros((side, side, 3), np.float32)
    padded[: small.shape[0], : small.shape[1]] = normal
    return np.ascontiguousarray(padded.transpose(2, 0, 1)), (small.shape[1] / width, small.shape[0] / height)


def _full_size(logits: Any, size: tuple[int, int], segmenter: _Segmenter, scale: tuple[float, float]) -> PixelArray:
    """Return the mask of the whole image, 0 or 255."""
    height, width = size
    square = cv2.resize(logits, (segmenter.side, segmenter.side), interpolation=cv2.INTER_LINEAR)
    inside = square[: max(1, round(height * scale[1])), : max(1, round(width * scale[0]))]
    return np.where(cv2.resize(inside, (width, height), interpolation=cv2.INTER_LINEAR) > 0, 255, 0).astype(np.uint8)


def _described(mask: PixelArray, score: float) -> SamMask:
    rows, columns = np.nonzero(mask)
    box = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1) if rows.size else None
    return SamMask(score=round(score, 4), coverage=fraction(mask), box=box)
