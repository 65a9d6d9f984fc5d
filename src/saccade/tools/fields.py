"""Types that the arguments of many tools share: which image, which box, which units, which colour.

Coordinates are those of the named image, origin top left, x to the right, y down. A box is the edges of a region,
`[left, top, right, bottom]`: pixel (0, 0) is the box [0, 0, 1, 1]. Units are pixels unless the call says `normalized`,
where 0..1 spans the image; they are never inferred from the numbers.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from saccade.tools.problem import wrong_format

Units: TypeAlias = Literal["pixels", "normalized"]
Xyxy: TypeAlias = tuple[float, float, float, float]
Point: TypeAlias = tuple[float, float]
PixelBox: TypeAlias = tuple[int, int, int, int]

ImageChoice: TypeAlias = Annotated[
    str | int | None,
    Field(description="Name of the image, or its number counted from 1. Default: the first image."),
]
BoxField: TypeAlias = Annotated[Xyxy, Field(description="[left, top, right, bottom], left < right and top < bottom.")]
RegionField: TypeAlias = Annotated[
    Xyxy | None, Field(description="[left, top, right, bottom] of the region to look at. Default: the whole image.")
]
UnitsField: TypeAlias = Annotated[
    Units, Field(description="Units of all coordinates: pixels of the image, or normalized to 0..1.")
]
Channel: TypeAlias = Annotated[int, Field(ge=0, le=255)]
Rgb: TypeAlias = tuple[Channel, Channel, Channel]
ColorField: TypeAlias = Annotated[Rgb, Field(description="Red, green, blue, each 0..255.")]


def pixel_box(box: Xyxy, units: Units, size: tuple[int, int], min_side: int = 1) -> PixelBox:
    """Whole pixels of `box` inside an image of `size` (width, height): rounded outwards, then clipped to the image.

    Always 0 <= left < right <= width and 0 <= top < bottom <= height.

    Raises:
        CallProblem: the edges are in the wrong order, normalised ones leave 0..1, or after clipping less than
            `min_side` pixels are left.
    """
    left, top, right, bottom = box
    if left >= right or top >= bottom:
        raise wrong_format(
            f"The box {_show(box)} is empty: it must be [left, top, right, bottom] with left < right and top < bottom. "
            "Put the smaller coordinate first."
        )
    scaled = _scaled(box, units, size)
    clipped = _clipped(scaled, size)
    width, height = clipped[2] - clipped[0], clipped[3] - clipped[1]
    if min(width, height) < min_side:
        hint = ' If these are fractions, say units="normalized".' if units == "pixels" and max(box) <= 1 else ""
        raise wrong_format(
            f"Of the box {_show(box)}, {max(width, 0)} × {max(height, 0)} pixels are inside the image, which is "
            f"{size[0]} × {size[1]}; at least {min_side} × {min_side} are needed. Choose a larger box inside it.{hint}"
        )
    return clipped


def region(box: Xyxy | None, units: Units, size: tuple[int, int]) -> PixelBox:
    """Like `pixel_box`, with None for the whole image."""
    return (0, 0, *size) if box is None else pixel_box(box, units, size)


def pixel_point(point: Point, units: Units, size: tuple[int, int]) -> tuple[float, float]:
    """`point` in pixels.

    Raises:
        CallProblem: it lies outside the image.
    """
    x, y, _, _ = _scaled((*point, *point), units, size)
    if not (0 <= x <= size[0] and 0 <= y <= size[1]):
        raise wrong_format(
            f"The point [{x:g}, {y:g}] is outside the image, which is {size[0]} × {size[1]}. Choose one inside it."
        )
    return x, y


def _scaled(box: Xyxy, units: Units, size: tuple[int, int]) -> Xyxy:
    if units == "pixels":
        return box
    if not all(0 <= value <= 1 for value in box):
        raise wrong_format(
            f"{_show(box)} is not normalized: each coordinate must be 0..1. "
            'Divide by the width or height, or say units="pixels".'
        )
    width, height = size
    return box[0] * width, box[1] * height, box[2] * width, box[3] * height


def _clipped(box: Xyxy, size: tuple[int, int]) -> PixelBox:
    # Clamped before rounding: the floor of 1e308 is an integer of 309 digits.
    width, height = size
    left, right = (min(max(value, 0.0), float(width)) for value in (box[0], box[2]))
    top, bottom = (min(max(value, 0.0), float(height)) for value in (box[1], box[3]))
    return floor(left), floor(top), ceil(right), ceil(bottom)


def _show(box: Xyxy) -> str:
    return "[" + ", ".join(f"{value:g}" for value in box) + "]"
