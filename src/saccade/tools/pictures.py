"""Tools that give back pictures: a region cut out, an image turned or drawn on, frames of a video.

Cutting out, enlarged if asked, is the one tool that every "look again" model has: the box is rounded outwards to whole
pixels and clipped to the image, and what is left must be `min_side` pixels wide and high. Nothing is padded, moved or
guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import atan2, degrees, hypot
from pathlib import Path
from typing import Annotated, Final, Literal

from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from saccade.core.registry import install
from saccade.errors import DecodeError
from saccade.guest.video_stream import Frames, Timeline, VideoError, open_frames
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    Alias,
    BoxField,
    ColorField,
    Cost,
    ImageChoice,
    Needs,
    PixelBox,
    Point,
    Rgb,
    ToolModel,
    Units,
    UnitsField,
    Xyxy,
    pixel_box,
    pixel_point,
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


# Draw on a copy of an image: boxes, points, lines, rulers with their length, and a grid with coordinates.
#
# Coordinates are those of the named image. Boxes are clipped to it; points outside it are refused. Labels are drawn in
# Pillow's own font, which has Latin letters; others show as empty boxes.


Label = Annotated[str, Field(max_length=80, description="Text beside the shape.")]
LineWidth = Annotated[int, Field(ge=1, le=50, description="Width of strokes in pixels; radius of points.")]
Pixel = tuple[float, float]

_RED: Final = (255, 0, 0)
_MAX_TICKS: Final = 1000


class _Shape(ToolModel):
    color: ColorField = _RED
    width: LineWidth = 3
    label: Label = ""


class BoxShape(_Shape):
    """The outline of a box."""

    kind: Literal["box"]
    box: Xyxy


class PointShape(_Shape):
    """A filled dot."""

    kind: Literal["point"]
    at: Point


class LineShape(_Shape):
    """A straight line."""

    kind: Literal["line"]
    start: Point
    end: Point


class RulerShape(_Shape):
    """A line with ticks across it; its length in pixels is in the result and written next to it."""

    kind: Literal["ruler"]
    start: Point
    end: Point
    tick: Annotated[float, Field(ge=2, le=10_000, description="Pixels between two ticks.")] = 10.0


class GridShape(_Shape):
    """Lines that cut the image into equal cells, with their pixel coordinates at the edge."""

    kind: Literal["grid"]
    columns: Annotated[int, Field(ge=1, le=50)] = 10
    rows: Annotated[int, Field(ge=1, le=50)] = 10
    numbers: bool = True


Shape = Annotated[BoxShape | PointShape | LineShape | RulerShape | GridShape, Field(discriminator="kind")]


class DrawArguments(ToolModel):
    """Shapes to draw, in this order."""

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1, max_length=200)]
    image: ImageChoice = None
    units: UnitsField = "pixels"


class Measured(ToolModel):
    """A ruler's reading."""

    length: float
    """Pixels of the image."""
    angle: float
    """Degrees from start to end, counter-clockwise from the right, -180..180."""


class DrawResult(ToolModel):
    """Shapes that were drawn."""

    image: str
    shapes: int
    rulers: tuple[Measured, ...]
    """One for each ruler, in order."""


class Draw(Tool[DrawArguments, DrawResult]):
    """Draws shapes, rulers and grids on a copy of a picture."""

    name = "draw"
    suits = (("lengths, lines and circles", 2),)
    operation = Operation.DRAW
    description = (
        'Draw shapes such as {"kind": "box", "box": [10, 10, 50, 40]} or {"kind": "ruler", "start": [0, 0], "end": '
        "[9, 9]} on a copy of an image. Kinds are box, point (at), line, ruler (a line with ticks whose length in "
        "pixels is reported) and grid (equal cells with pixel coordinates at the edge). Each shape may have a color, "
        "a width and a label. Use it to check coordinates by eye, to mark what you counted, or to measure."
    )
    arguments = DrawArguments
    result = DrawResult

    def run(self, arguments: DrawArguments, context: ToolContext) -> ToolOutcome[DrawResult]:
        """Draw in order, on a copy."""
        source = context.image(arguments.image)
        board = _Board(source.image.copy(), arguments.units)
        rulers = tuple(reading for shape in arguments.shapes if (reading := board.add(shape)) is not None)
        value = DrawResult(image=source.name, shapes=len(arguments.shapes), rulers=rulers)
        return ToolOutcome(value, (("drawn", board.image),))


class _Board:
    def __init__(self, image: Image.Image, units: Units) -> None:
        self.image = image
        self._units = units
        self._pen = ImageDraw.Draw(image)
        # Readable on large photos, not all over small ones.
        self._font = ImageFont.load_default(max(10, min(40, min(image.size) // 30)))

    def add(self, shape: Shape) -> Measured | None:
        if isinstance(shape, BoxShape):
            left, top, right, bottom = pixel_box(shape.box, self._units, self.image.size)
            # Pillow's rectangles include their last pixel.
            self._pen.rectangle((left, top, right - 1, bottom - 1), outline=shape.color, width=shape.width)
            self._label((left, top), shape.label, shape.color)
        elif isinstance(shape, PointShape):
            x, y = self._point(shape.at)
            reach = shape.width
            self._pen.ellipse((x - reach, y - reach, x + reach, y + reach), fill=shape.color)
            self._label((x + reach + 2, y), shape.label, shape.color)
        elif isinstance(shape, GridShape):
            self._grid(shape)
        else:
            start, end = self._point(shape.start), self._point(shape.end)
            self._pen.line((*start, *end), fill=shape.color, width=shape.width)
            if isinstance(shape, RulerShape):
                return self._ruler(shape, start, end)
            self._label(start, shape.label, shape.color)
        return None

    def _point(self, point: Point) -> Pixel:
        return pixel_point(point, self._units, self.image.size)

    def _ruler(self, shape: RulerShape, start: Pixel, end: Pixel) -> Measured:
        length = hypot(end[0] - start[0], end[1] - start[1])
        if length == 0:
            raise wrong_format("A ruler needs two different points. Move its end.")
        along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
        reach = 3 + shape.width
        for number in range(min(int(length / shape.tick), _MAX_TICKS) + 1):
            x, y = start[0] + along[0] * number * shape.tick, start[1] + along[1] * number * shape.tick
            across = (-along[1] * reach, along[0] * reach)
            self._pen.line((x - across[0], y - across[1], x + across[0], y + across[1]), fill=shape.color)
        self._label(end, f"{shape.label} {length:.1f} px".strip(), shape.color)
        angle = degrees(atan2(start[1] - end[1], end[0] - start[0]))
        return Measured(length=round(length, 2), angle=round(angle, 2))

    def _grid(self, shape: GridShape) -> None:
        width, height = self.image.size
        for column in range(1, shape.columns):
            x = round(width * column / shape.columns)
            self._pen.line((x, 0, x, height), fill=shape.color, width=shape.width)
            self._label((x + 2, 0), str(x) if shape.numbers else "", shape.color)
        for row in range(1, shape.rows):
            y = round(height * row / shape.rows)
            self._pen.line((0, y, width, y), fill=shape.color, width=shape.width)
            self._label((0, y + 2), str(y) if shape.numbers else "", shape.color)
        self._label((width / 2, height / 2), shape.label, shape.color)

    def _label(self, place: Pixel, text: str, color: Rgb) -> None:
        if not text.strip():
            return
        _, _, right, bottom = self._pen.textbbox(place, text, font=self._font)
        # Moved back inside where it would leave the image.
        x = place[0] - max(0.0, right - self.image.width)
        y = place[1] - max(0.0, bottom - self.image.height)
        self._pen.text((max(0.0, x), max(0.0, y)), text, fill=color, font=self._font)


# Frames of a video by their number or by time, exactly as the `VideoReader` of the sandbox numbers them.
#
# Frame 0 is the first one shown; second 0 is when it is shown. A time means the frame that is on the screen then: the
# last one that starts at or before it.


FrameNumber = Annotated[int, Field(ge=0, le=10_000_000)]
Second = Annotated[float, Field(ge=0, le=1e6)]


class SelectFramesArguments(ToolModel):
    """Which frames of which video: numbers or times, not both."""

    frames: Annotated[
        tuple[FrameNumber, ...] | None, Field(min_length=1, max_length=16, description="Frame numbers, from 0.")
    ] = None
    seconds: Annotated[
        tuple[Second, ...] | None, Field(min_length=1, max_length=16, description="Times in seconds from the start.")
    ] = None
    video: Annotated[str | None, Field(description="Name of the video. Default: the first one.")] = None


class SelectedFrame(ToolModel):
    """One frame, in the order asked for."""

    frame: int
    """Its number, from 0."""
    second: float
    """When it is first shown."""


class SelectFramesResult(ToolModel):
    """The frames; the new images are in the same order."""

    video: str
    frames: tuple[SelectedFrame, ...]
    size: tuple[int, int]
    """Width and height of each, in pixels."""


class SelectFrames(Tool[SelectFramesArguments, SelectFramesResult]):
    """Select frames of a video."""

    name = "select_frames"
    suits = (("videos", 0),)
    operation = Operation.FRAME_FETCH
    description = (
        "Take up to 16 frames out of a video as new images, by numbers from 0 or by seconds. A time gives the frame "
        "that is on the screen at that moment."
    )
    arguments = SelectFramesArguments
    result = SelectFramesResult
    needs = Needs(modules=("av",), install=install("video"))
    cost = Cost.MEDIUM

    def run(self, arguments: SelectFramesArguments, context: ToolContext) -> ToolOutcome[SelectFramesResult]:
        """Look the frames up in the timeline, and decode each once."""
        if (arguments.frames is None) is (arguments.seconds is None):
            raise wrong_format("Give either frames or seconds, and not both.")
        name, path = context.video(arguments.video)
        frames = _frames(path)
        numbers = _numbers(arguments, frames.timeline)
        pictures = {number: _image(path, frames, number) for number in sorted(set(numbers))}
        images = [pictures[number] for number in numbers]
        starts = frames.timeline.starts
        listed = tuple(SelectedFrame(frame=number, second=round(starts[number], 6)) for number in numbers)
        value = SelectFramesResult(video=name, frames=listed, size=images[0].size)
        return ToolOutcome(value, tuple(("frame", image) for image in images))


def _numbers(arguments: SelectFramesArguments, timeline: Timeline) -> list[int]:
    count = len(timeline.starts)
    for number in arguments.frames or ():
        if number >= count:
            raise wrong_format(f"There is no frame {number}: the video has {count}, from 0 to {count - 1}. Choose one.")
    for second in arguments.seconds or ():
        if second > timeline.seconds:
            raise wrong_format(
                f"There is no second {second:g}: the video ends at {timeline.seconds:.3f}. Choose an earlier one."
            )
    return [*(arguments.frames or ()), *map(timeline.at, arguments.seconds or ())]


def _frames(path: Path) -> Frames:
    try:
        return open_frames(str(path))
    except (VideoError, OSError) as error:
        raise _undecodable(path, error) from error


def _image(path: Path, frames: Frames, number: int) -> Image.Image:
    try:
        return Image.fromarray(frames.picture(number))
    except (VideoError, OSError) as error:
        raise _undecodable(path, error) from error


def _undecodable(path: Path, error: Exception) -> DecodeError:
    return DecodeError(f"{path.name} cannot be decoded as a video: {error}. Give another file.")
