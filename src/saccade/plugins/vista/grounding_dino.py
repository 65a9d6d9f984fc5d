"""GroundingDINO: the things that a caption names, as boxes. Also loads MM-GroundingDINO, which has the same form.

The weights of IDEA-Research are under Apache 2.0: `grounding-dino-tiny` 172 million parameters, 0.7 GB; `-base` 233
million, 0.9 GB. Liu et al., Grounding DINO (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from PIL import ImageDraw
from pydantic import Field

from saccade.plugins.vista.checkpoint import CheckpointTool, Placed, checkpoint_needs
from saccade.tools.base import ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import Alias, ToolModel
from saccade.tools.measure import Look, LookArguments, look, picture_of

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
    """One thing, in pixels of the whole image."""

    box: tuple[float, float, float, float]
    phrase: str
    """The words of the caption that it fits; empty if none reached the threshold."""
    score: float


class GroundingResult(ToolModel):
    """Boxes that were found, the surest first."""

    image: str
    boxes: tuple[GroundedBox, ...]


@dataclass(frozen=True, slots=True)
class _Detector:
    processor: Any
    model: Any


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

    def _loaded(self, placed: Placed) -> _Detector:
        from transformers import AutoModelForZeroShotObjectDetection as Model
        from transformers import AutoProcessor

        processor = AutoProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = Model.from_pretrained(placed.setup.weights, dtype=placed.dtype, **placed.hub)
        return _Detector(processor, model.to(placed.device).eval())

    def _seen(self, arguments: GroundingArguments, context: ToolContext) -> tuple[Look, GroundingArguments]:
        return look(arguments, context), arguments

    def _passed(
        self, held: _Detector, seen: Sequence[tuple[Look, GroundingArguments]]
    ) -> list[ToolOutcome[GroundingResult]]:
        return _detect(held, seen)


def _detect(
    detector: _Detector, calls: Sequence[tuple[Look, GroundingArguments]]
) -> list[ToolOutcome[GroundingResult]]:
    import torch

    texts = [caption_of(arguments.caption) for _, arguments in calls]
    pictures = [picture_of(seen.rgb) for seen, _ in calls]
    inputs = detector.processor(images=pictures, text=texts, return_tensors="pt", padding=True)
    inputs = inputs.to(detector.model.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(detector.model.dtype)
    with torch.inference_mode():
        outputs = detector.model(**inputs)
    made = []
    for index, (seen, arguments) in enumerate(calls):
        one = type(outputs)(
            logits=outputs.logits[index : index + 1].float(), pred_boxes=outputs.pred_boxes[index : index + 1].float()
        )
        (boxes,) = detector.processor.post_process_grounded_object_detection(
            one,
            inputs["input_ids"][index : index + 1],
            threshold=arguments.box_threshold,
            text_threshold=arguments.text_threshold,
            target_sizes=[seen.rgb.shape[:2]],
        )
        made.append(_outcome(seen, boxes, arguments.nms))
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
    """Return the intersection over union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)
