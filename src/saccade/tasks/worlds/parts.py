"""A view looked over in overlapping parts, and parts of these: what a model does that names no coordinates.

Of n parts in a row each has 7/(4n) of the view's width and height. What is no larger than 3/20 of the view lies whole
in one of them, and what is small mostly in two or four: what is overlooked once may be seen the next time.
"""

from __future__ import annotations

from typing import Final

ViewBox = tuple[int, int, int, int]
"""`xyxy` in the picture's pixels."""

GRIDS: Final = (6, 4)
"""Parts in a row, and rows of parts: of the picture, and of the part that `SEARCH` goes closer to."""
SEARCH: Final = """\
def parts(view, n):
    w, h = 7 * view.width // (4 * n), 7 * view.height // (4 * n)
    for row in range(n):
        for column in range(n):
            x, y = column * (view.width - w) // (n - 1), row * (view.height - h) // (n - 1)
            yield view.crop((x, y, x + w, y + h))
def closer(view, colour, n, *finer):
    for part in parts(view, n):
        seen = yield part
        if colour in seen.split(", "):
            if finer:
                yield from closer(part, colour, *finer)
            else:
                print("here")
                yield part
def search(image, colour):
    yield from closer(image, colour, GRIDS)
    while True:
        print("not found")
        yield image
def show(view):
    side = (view.width * view.height) ** 0.5
    factor = 1 if 72 <= side <= 168 else 112 / side
    view.resize((round(factor * view.width), round(factor * view.height))).show()""".replace(
    "GRIDS", ", ".join(map(str, GRIDS))
)
"""The same as a program: it learns of each part which colours were seen in it, and goes closer where the asked one is;
in a part of a part it says `here`, and shows that part once more. `show` leaves what is neither small nor large as it
is, so that it can be found again in the picture, and brings all else to the 112 pixels that `examples/tiny/tiny.toml`
lets through (`most_pixels`)."""


def parts(view: ViewBox, n: int) -> list[ViewBox]:
    """The n times n parts in the order in which they are looked at."""
    width, height = view[2] - view[0], view[3] - view[1]
    w, h = 7 * width // (4 * n), 7 * height // (4 * n)
    across = [view[0] + column * (width - w) // (n - 1) for column in range(n)]
    down = [view[1] + row * (height - h) // (n - 1) for row in range(n)]
    return [(x, y, x + w, y + h) for y in down for x in across]


def holds_middle(view: ViewBox, box: tuple[float, float, float, float]) -> bool:
    """Whether the middle half of `box` lies in the view: what stands in the middle of a sign can then be read."""
    width, height = (box[2] - box[0]) / 4, (box[3] - box[1]) / 4
    across = view[0] <= box[0] + width and box[2] - width <= view[2]
    return across and view[1] <= box[1] + height and box[3] - height <= view[3]
