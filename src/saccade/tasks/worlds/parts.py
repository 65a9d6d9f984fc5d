"""A view looked over in nine overlapping parts, and a part of that again: what a model does that names no coordinates.

A part has half of the view's width and height: what is no larger than a quarter of the view lies whole in one of them.
"""

from __future__ import annotations

from typing import Final

View = tuple[int, int, int, int]
"""`xyxy` in the picture's pixels."""

PARTS: Final = """\
def parts(view):
    w, h = view.width // 2, view.height // 2
    right, low = view.width - w, view.height - h
    for y in (0, low // 2, low):
        for x in (0, right // 2, right):
            yield view.crop((x, y, x + w, y + h))
def show(view, side):
    factor = side / (view.width * view.height) ** 0.5
    view.resize((round(factor * view.width), round(factor * view.height))).show()"""
"""The same as a program; `show` gives a view the area of a square of that side."""


def parts(view: View) -> list[View]:
    """The parts in the order in which they are looked at."""
    width, height = view[2] - view[0], view[3] - view[1]
    w, h = width // 2, height // 2
    right, low = width - w, height - h
    corners = [(view[0] + x, view[1] + y) for y in (0, low // 2, low) for x in (0, right // 2, right)]
    return [(x, y, x + w, y + h) for x, y in corners]


def holds_middle(view: View, box: tuple[float, float, float, float]) -> bool:
    """Whether the middle half of `box` lies in the view: what stands in the middle of a sign can then be read."""
    width, height = (box[2] - box[0]) / 4, (box[3] - box[1]) / 4
    across = view[0] <= box[0] + width and box[2] - width <= view[2]
    return across and view[1] <= box[1] + height and box[3] - height <= view[3]


def best_part(views: list[View], box: tuple[float, float, float, float]) -> View:
    """The first of the views that holds the middle of `box`; if none does, the one whose middle is nearest to it."""

    def off(view: View) -> float:
        return max(abs(box[axis] + box[axis + 2] - view[axis] - view[axis + 2]) for axis in (0, 1))

    return next((view for view in views if holds_middle(view, box)), min(views, key=off))
