"""Where code looked: values that follow a task's picture through crops and resizes.

A `View` is a rectangle of a task's picture, possibly enlarged. Only whole rectangles are followed: what is turned,
mirrored or pasted is no view any more, and what is not known stays unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeGuard

Xyxy: TypeAlias = tuple[float, float, float, float]


class Unknown:
    """A value that is unknown from the code alone."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class View:
    """A picture of `width`×`height` pixels that shows `box` (`xyxy` pixels) of the task's picture `name`."""

    name: str
    box: Xyxy
    width: int
    height: int
    array: bool = False
    """Whether it is an array, whose first axis is y, and no Pillow image."""

    @classmethod
    def full(cls, name: str, width: int, height: int) -> View:
        """All of a task's picture."""
        return cls(name, (0, 0, width, height), width, height)

    def crop(self, box: Xyxy) -> View | None:
        """The part of the view inside `box` in pixels of the view, clipped to it; None if nothing is left."""
        left, right = (min(max(value, 0.0), float(self.width)) for value in (box[0], box[2]))
        top, bottom = (min(max(value, 0.0), float(self.height)) for value in (box[1], box[3]))
        if right - left < 1 or bottom - top < 1:
            return None
        x0, y0, x1, y1 = self.box
        step_x, step_y = (x1 - x0) / self.width, (y1 - y0) / self.height
        part = (x0 + left * step_x, y0 + top * step_y, x0 + right * step_x, y0 + bottom * step_y)
        return View(self.name, part, round(right - left), round(bottom - top), self.array)

    def resized(self, width: float, height: float) -> View | None:
        """The same part in another size; None if it has no pixels."""
        size = round(width), round(height)
        return View(self.name, self.box, *size, self.array) if min(size) >= 1 and max(size) <= 10**6 else None


@dataclass(frozen=True, slots=True)
class ImageFile:
    """The file of a task's picture, before it is opened."""

    view: View


DictKey: TypeAlias = int | float | str
Value: TypeAlias = "Unknown | View | ImageFile | int | float | str | tuple[Value, ...] | dict[DictKey, Value] | None"

BIGGEST: Final = 1e9
"""No number of a program that cuts pictures is larger."""


def is_number(value: Value) -> TypeGuard[int | float]:
    """Whether it is a number to reckon with; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(value: Value, length: int) -> tuple[float, ...] | None:
    """`value` as that many numbers, or None."""
    if not isinstance(value, tuple) or len(value) != length:
        return None
    values = tuple(float(item) for item in value if is_number(item) and abs(item) < BIGGEST)
    return values if len(values) == length else None


def as_array(value: Value, array: bool) -> Value:
    """The same view as an array, or as a Pillow image."""
    return replace(value, array=array) if isinstance(value, View) else UNKNOWN


def resized(view: View, size: Value) -> Value:
    """The view in `size`, a tuple of width and height."""
    pair = numbers(size, 2)
    return UNKNOWN if pair is None else view.resized(pair[0], pair[1]) or UNKNOWN
