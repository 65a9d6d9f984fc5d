"""Cut a region out of an image, enlarged if asked: the one tool that every "look again" model has.

The box is rounded outwards to whole pixels and clipped to the image; what is left must be `min_side` pixels wide and
high. Nothing is padded, moved or guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from PIL import Image
from pydantic import Field

from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    Alias,
    BoxField,
    ColorField,
    ImageChoice,
    PixelBox,
    ToolModel,
    UnitsField,
    pixel_box,
)

MAX_SIDE: Final = 4096
"""Longest side of an enlarged crop in pixels."""

MAX_ASPECT: Final = 100
"""A crop that is longer than this many times its width (or the reverse) shows nothing to a model."""


class CropArguments(ToolModel):
    """Which region of which image."""

    box: BoxField
    image: ImageChoice = None
    units: UnitsField = "pixels"
    scale: Annotated[float, Field(ge=1, le=16, description="How many times the crop is enlarged.")] = 1.0
    min_side: Annotated[int, Field(ge=1, le=1024, description="Smallest accepted side of the crop in pixels.")] = 4


class CropResult(ToolModel):
    """Part that was cut out."""

    image: str
    """The image that was cropped."""
    box: PixelBox
    """The region in pixels of that image, after rounding and clipping."""
    clipped: bool
    """True if the box reached beyond the image."""
    size: tuple[int, int]
    """Width and height of the new image."""


_BOX_2D: Final = {"bbox_2d": "box", "bbox": "box"}


class Crop(Tool[CropArguments, CropResult]):
    """Crop and zoom."""

    name = "crop"
    suits = (("tables, forms and other print", 1), ("small or hidden things", 0))
    operation = Operation.CROP
    description = (
        "Cut a box out of an image as a new image, enlarged `scale` times. Use it to look closely at small details. "
        'The box is [left, top, right, bottom] in pixels of the named image, or in 0..1 with units="normalized"; '
        "parts outside the image are cut off."
    )
    arguments = CropArguments
    result = CropResult
    aliases = (
        Alias("zoom_in", {**_BOX_2D, "target_image": "image"}, {"units": "pixels"}),
        Alias("crop_image", {**_BOX_2D, "target_image": "image"}, {"units": "pixels"}),
        Alias("crop_image_normalized", {**_BOX_2D, "target_image": "image"}, {"units": "normalized"}),
        # The published tool refuses sides of 30 pixels and less.
        Alias("image_zoom_in_tool", _BOX_2D, {"units": "pixels", "min_side": 31}, ignored=("label",)),
    )

    @classmethod
    def operations(cls, arguments: Mapping[str, object]) -> frozenset[Operation]:
        scale = arguments.get("scale")
        enlarges = isinstance(scale, int | float) and scale > 1
        return frozenset({Operation.CROP, Operation.ZOOM} if enlarges else {Operation.CROP})

    def run(self, arguments: CropArguments, context: ToolContext) -> ToolOutcome[CropResult]:
        """Crop, then enlarge with Lanczos."""
        source = context.image(arguments.image)
        box = pixel_box(arguments.box, arguments.units, source.size, arguments.min_side)
        piece = source.image.crop(box)
        if max(piece.size) > MAX_ASPECT * min(piece.size):
            raise wrong_format(
                f"The box leaves {piece.width} × {piece.height} pixels, more than {MAX_ASPECT}:1. Choose a wider one."
            )
        if arguments.scale > 1:
            size = (round(piece.width * arguments.scale), round(piece.height * arguments.scale))
            if max(size) > MAX_SIDE:
                raise wrong_format(
                    f"A scale of {arguments.scale:g} makes {size[0]} × {size[1]} pixels, beyond {MAX_SIDE}. "
                    "Choose a smaller scale or a smaller box."
                )
            piece = piece.resize(size, Image.Resampling.LANCZOS)
        value = CropResult(image=source.name, box=box, clipped=_beyond(arguments, source.size), size=piece.size)
        text = f"Cropped {source.name} to {list(box)} (pixels)" + (", cut at its edge." if value.clipped else ".")
        return ToolOutcome(value, (("crop", piece),), text)


def _beyond(arguments: CropArguments, size: tuple[int, int]) -> bool:
    if arguments.units == "normalized":
        return False
    left, top, right, bottom = arguments.box
    return left < 0 or top < 0 or right > size[0] or bottom > size[1]


# Turn an image by any angle. Direction and whether the canvas grows are stated by the call, never guessed.


Direction = Literal["counterclockwise", "clockwise"]


class RotateArguments(ToolModel):
    """Which image, how far and which way."""

    angle: Annotated[float, Field(ge=-360, le=360, description="Degrees.")]
    image: ImageChoice = None
    direction: Annotated[Direction, Field(description="Which way a positive angle turns.")] = "counterclockwise"
    expand: Annotated[bool, Field(description="Grow the canvas so that no corner is lost.")] = True
    fill: ColorField = (0, 0, 0)


class RotateResult(ToolModel):
    """Picture that was turned."""

    image: str
    angle: float
    """Degrees counter-clockwise, -360..360."""
    size: tuple[int, int]
    """Width and height of the new image."""


class Rotate(Tool[RotateArguments, RotateResult]):
    """Turns a picture by an angle."""

    name = "rotate"
    suits = (("tables, forms and other print", 2),)
    operation = Operation.ROTATE
    description = (
        "Turn an image by an angle in degrees. Positive angles turn counterclockwise "
        'unless direction="clockwise". With expand the canvas grows so that nothing is lost; without it the size stays '
        "and corners are cut."
    )
    arguments = RotateArguments
    result = RotateResult
    aliases = (
        Alias("image_rotate_tool", given={"direction": "counterclockwise", "expand": False}, ignored=("label",)),
    )

    def run(self, arguments: RotateArguments, context: ToolContext) -> ToolOutcome[RotateResult]:
        """Rotate about the centre; quarter turns with `expand` lose no pixel."""
        source = context.image(arguments.image)
        angle = arguments.angle if arguments.direction == "counterclockwise" else -arguments.angle
        turned = source.image.rotate(
            angle, resample=Image.Resampling.BICUBIC, expand=arguments.expand, fillcolor=arguments.fill
        )
        value = RotateResult(image=source.name, angle=angle, size=turned.size)
        return ToolOutcome(value, (("rotated", turned),), f"Turned {source.name} by {angle:g}° counterclockwise.")
