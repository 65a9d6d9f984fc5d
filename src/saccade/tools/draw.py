"""Draw on a copy of an image: boxes, points, lines, rulers with their length, and a grid with coordinates.

Coordinates are those of the named image. Boxes are clipped to it; points outside it are refused. Labels are drawn in
Pillow's own font, which has Latin letters; others show as empty boxes.
"""

from __future__ import annotations

from math import atan2, degrees, hypot
from typing import Annotated, Final, Literal

from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    ColorField,
    ImageChoice,
    Point,
    Rgb,
    ToolModel,
    Units,
    UnitsField,
    Xyxy,
    pixel_box,
    pixel_point,
)

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
