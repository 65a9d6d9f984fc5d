"""A view looked over in nine overlapping parts, and a part of that again: what a model does that names no coordinates.

A part has half of the view's width and height: what is no larger than a quarter of the view lies whole in one of them.
"""

from __future__ import annotations

from typing import Final

View = tuple[int, int, int, int]
"""`xyxy` in the picture's pixels."""

LEVELS: Final = 3
"""How often `SEARCH` goes closer."""
SEARCH: Final = """\
def parts(view):
    w, h = view.width // 2, view.height // 2
    right, low = view.width - w, view.height - h
    for y in (0, low // 2, low):
        for x in (0, right // 2, right):
            yield view.crop((x, y, x + w, y + h))
def closer(view, colour, levels):
    for part in parts(view):
        seen = yield part
        if colour in seen.split(", "):
            if levels > 1:
                yield from closer(part, colour, levels - 1)
            else:
                print("here")
                yield part
def search(image, colour):
    yield from closer(image, colour, LEVELS)
    while True:
        print("not found")
        yield image
def show(view):
    side = (view.width * view.height) ** 0.5
    factor = 1 if 84 <= side <= 168 else 112 / side
    view.resize((round(factor * view.width), round(factor * view.height))).show()""".replace("LEVELS", str(LEVELS))
"""The same as a program: it is told of each part which colours were seen in it, and goes closer where the asked one is;
in a part of a part of a part it says `here`, and shows that part once more. `show` leaves what is neither small nor
large as it is, so that it can be found again in the picture, and brings all else to the 112 pixels that
`recipes/tiny.toml` lets through (`most_pixels`)."""


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
