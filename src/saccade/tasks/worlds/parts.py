"""A view looked over in sixteen overlapping parts, and parts of these: what a model does that names no coordinates.

A part has 7/20 of the view's width and height: what is no larger than 2/15 of the view lies whole in one of them.
"""

from __future__ import annotations

from typing import Final

View = tuple[int, int, int, int]
"""`xyxy` in the picture's pixels."""

LEVELS: Final = 2
"""How often `SEARCH` goes closer."""
SEARCH: Final = """\
def parts(view, n=4):
    w, h = 7 * view.width // (5 * n), 7 * view.height // (5 * n)
    for row in range(n):
        for column in range(n):
            x, y = column * (view.width - w) // (n - 1), row * (view.height - h) // (n - 1)
            yield view.crop((x, y, x + w, y + h))
def closer(view, colour, levels, n=4):
    for part in parts(view, n):
        seen = yield part
        if colour in seen.split(", "):
            if levels > 1:
                yield from closer(part, colour, levels - 1)
            else:
                print("here")
                yield part
def search(image, colour):
    for n in 4, 5:
        yield from closer(image, colour, LEVELS, n)
    while True:
        print("not found")
        yield image
def show(view):
    side = (view.width * view.height) ** 0.5
    factor = 1 if 72 <= side <= 168 else 112 / side
    view.resize((round(factor * view.width), round(factor * view.height))).show()""".replace("LEVELS", str(LEVELS))
"""The same as a program: it is told of each part which colours were seen in it, and goes closer where the asked one is;
in a part of a part it says `here`, and shows that part once more. Where nothing was found it begins again, with
twenty-five smaller parts. `show` leaves what is neither small nor large as it is, so that it can be found again in the
picture, and brings all else to the 112 pixels that `recipes/tiny.toml` lets through (`most_pixels`)."""


def parts(view: View) -> list[View]:
    """The parts in the order in which they are looked at."""
    width, height = view[2] - view[0], view[3] - view[1]
    w, h = 7 * width // 20, 7 * height // 20
    across = [view[0] + column * (width - w) // 3 for column in range(4)]
    down = [view[1] + row * (height - h) // 3 for row in range(4)]
    return [(x, y, x + w, y + h) for y in down for x in across]


def holds_middle(view: View, box: tuple[float, float, float, float]) -> bool:
    """Whether the middle half of `box` lies in the view: what stands in the middle of a sign can then be read."""
    width, height = (box[2] - box[0]) / 4, (box[3] - box[1]) / 4
    across = view[0] <= box[0] + width and box[2] - width <= view[2]
    return across and view[1] <= box[1] + height and box[3] - height <= view[3]
