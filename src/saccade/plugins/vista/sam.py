"""Segment Anything, versions 1 and 2: the mask of what points or a box mean.

Weights of Meta are under Apache 2.0: `sam-vit-base` 94 million parameters, 0.4 GB; `sam2.1-hiera-tiny` 39 million, 0.2
GB. Kirillov et al., Segment Anything (2023); Ravi et al., SAM 2 (2024). Pictures are prepared here, since the image
processor of SAM 2 needs torchvision: version 1 scales the longer side and pads, version 2 stretches to a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import cv2
import numpy as np
from pydantic import Field

from saccade.plugins.vista.checkpoint import CheckpointTool, Placed, checkpoint_needs
from saccade.tools.base import ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    Alias,
    ImageChoice,
    PixelBox,
    Point,
    ToolModel,
    UnitsField,
    Xyxy,
    pixel_box,
    pixel_point,
)
from saccade.tools.measure import MAX_PIXELS, PixelArray, fraction, picture_of

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
