"""Share what all worlds draw with: fonts that are equal everywhere, named colours, text in boxes and rows,
places, and regular polygons in whole pixels.

Fonts are the DejaVu files that matplotlib brings along, laid out without Raqm, whose presence differs by machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import cos, pi, sin
from pathlib import Path
from typing import Final, Literal

from PIL import Image, ImageDraw, ImageFont

from saccade.tasks.worlds import Rng

Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
"""`xyxy` pixels, right and bottom edge exclusive."""
Face = Literal["sans", "sans-bold", "mono", "mono-bold", "serif", "serif-bold"]

COLOURS: dict[str, Colour] = {
    "red": (214, 40, 40),
    "orange": (245, 130, 20),
    "yellow": (248, 214, 36),
    "green": (30, 150, 60),
    "blue": (36, 84, 205),
    "purple": (128, 52, 168),
    "pink": (240, 130, 180),
    "brown": (120, 72, 36),
    "black": (16, 16, 16),
    "white": (248, 248, 248),
    "grey": (128, 128, 128),
}
"""Colours that have one plain name each."""

_FILES: dict[Face, str] = {
    "sans": "DejaVuSans.ttf",
    "sans-bold": "DejaVuSans-Bold.ttf",
    "mono": "DejaVuSansMono.ttf",
    "mono-bold": "DejaVuSansMono-Bold.ttf",
    "serif": "DejaVuSerif.ttf",
    "serif-bold": "DejaVuSerif-Bold.ttf",
}


@cache
def font(size: int, face: Face = "sans") -> ImageFont.FreeTypeFont:
    """Return the face at `size` pixels per em."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / _FILES[face]
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def text_size(text: str, face: ImageFont.FreeTypeFont) -> tuple[int, int]:
    """Return the width and height in pixels of the ink of one line."""
    left, top, right, bottom = face.getbbox(text)
    return int(right - left), int(bottom - top)


def put_text(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, face: ImageFont.FreeTypeFont, fill: Colour
) -> Box:
    """Draw one line with the top left corner of its ink at `at`; returns the box of the ink."""
    left, top, _, _ = face.getbbox(text)
    draw.text((at[0] - int(left), at[1] - int(top)), text, font=face, fill=fill)
    width, height = text_size(text, face)
    return at[0], at[1], at[0] + width, at[1] + height


def put_text_centred(
    draw: ImageDraw.ImageDraw, centre: tuple[int, int], text: str, face: ImageFont.FreeTypeFont, fill: Colour
) -> Box:
    """Draw one line with the middle of its ink at `centre`; returns the box of the ink."""
    width, height = text_size(text, face)
    return put_text(draw, (centre[0] - width // 2, centre[1] - height // 2), text, face, fill)


def overlaps(a: Box, b: Box, gap: int = 0) -> bool:
    """Return whether two boxes come nearer to each other than `gap` pixels."""
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] + gap and b[1] < a[3] + gap


def grow(box: Box, by: int, size: tuple[int, int]) -> Box:
    """Return the box with `by` pixels more on every side, inside a picture of `size`."""
    return max(0, box[0] - by), max(0, box[1] - by), min(size[0], box[2] + by), min(size[1], box[3] + by)


def free_place(rng: Rng, size: tuple[int, int], area: Box, taken: list[Box], gap: int) -> Box | None:
    """Return a random box of `size` in `area`, at least `gap` pixels from all `taken`; None if 200 tries find none."""
    for _ in range(200):
        if area[2] - area[0] < size[0] or area[3] - area[1] < size[1]:
            return None
        x = rng.integer(area[0], area[2] - size[0])
        y = rng.integer(area[1], area[3] - size[1])
        box = (x, y, x + size[0], y + size[1])
        if not any(overlaps(box, other, gap) for other in taken):
            return box
    return None


def blank(size: tuple[int, int], colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return a picture of one colour, and the pen for it."""
    picture = Image.new("RGB", size, colour)
    return picture, ImageDraw.Draw(picture)


def sixteen_bits(degrees: int) -> tuple[int, int]:
    """Return the cosine and sine of whole degrees, times 65536."""
    return round(cos(degrees * pi / 180) * 65536), round(sin(degrees * pi / 180) * 65536)


def turned(x: int, y: int, degrees: int) -> tuple[int, int]:
    """Return the offset (x, y) turned clockwise on the screen by whole degrees, in whole pixels."""
    c, s = sixteen_bits(degrees)
    return (x * c - y * s + 32768) >> 16, (x * s + y * c + 32768) >> 16


def polygon_points(centre: tuple[int, int], radius: int, corners: int, turn: int = 0) -> list[tuple[int, int]]:
    """Return corners of a regular polygon in a circle, the first at the top, turned clockwise by `turn` degrees."""
    points = []
    for number in range(corners):
        x, y = turned(0, -radius, turn + round(360 * number / corners))
        points.append((centre[0] + x, centre[1] + y))
    return points


@dataclass(frozen=True, slots=True)
class Lettering:
    """How a label is printed."""

    face: ImageFont.FreeTypeFont
    ink: Colour


def put_label(
    pen: ImageDraw.ImageDraw,
    at: tuple[int, int],
    text: str,
    lettering: Lettering,
    align: Literal["left", "middle", "right"] = "middle",
) -> Box:
    """Print a line with its left end, middle or right end at column `at[0]`; returns the box of the ink."""
    face = lettering.face
    left, top, right, bottom = (int(edge) for edge in face.getbbox(text))
    _, capital_top, _, capital_bottom = (int(edge) for edge in face.getbbox("H"))
    x = at[0] - {"left": 0, "middle": (right - left) // 2, "right": right - left}[align]
    y = at[1] - (capital_bottom - capital_top) // 2 - capital_top
    pen.text((x - left, y), text, font=face, fill=lettering.ink)
    return x, y + top, x + right - left, y + bottom


# A view looked over in overlapping parts, and parts of these: what a model does that names no coordinates.
#
# Of n parts in a row each has 7/(4n) of the view's width and height. What is no larger than 3/20 of the view lies whole
# in one of them, and what is small mostly in two or four: what is overlooked once may be seen the next time.


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
    """Return the n times n parts in the order in which they are looked at."""
    width, height = view[2] - view[0], view[3] - view[1]
    w, h = 7 * width // (4 * n), 7 * height // (4 * n)
    across = [view[0] + column * (width - w) // (n - 1) for column in range(n)]
    down = [view[1] + row * (height - h) // (n - 1) for row in range(n)]
    return [(x, y, x + w, y + h) for y in down for x in across]


def holds_middle(view: ViewBox, box: tuple[float, float, float, float]) -> bool:
    """Return whether the middle half of `box` is in the view: what stands in the middle of a sign can then be read."""
    width, height = (box[2] - box[0]) / 4, (box[3] - box[1]) / 4
    across = view[0] <= box[0] + width and box[2] - width <= view[2]
    return across and view[1] <= box[1] + height and box[3] - height <= view[3]


# Names to put into charts and tables: so many of a sort that a program cannot know them, only copy them.
#
# All are short words of one capital and small letters, and none of a list is the beginning of another one.


DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

_ANIMALS = """Antelopes Badgers Bats Bears Beavers Bisons Camels Cranes Crows Deer Dolphins Ducks Eagles Falcons Ferrets
Foxes Frogs Geese Goats Gulls Hares Hawks Herons Horses Hounds Jackals Lions Lizards Lynxes Mice Moles Newts
Otters Owls Pandas Pigeons Quails Rabbits Ravens Robins Seals Sharks Snakes Sparrows Storks Swans Tigers Toads
Turtles Wolves"""
_FOODS = """Almonds Apples Apricots Bananas Beans Berries Cabbage Carrots Celery Cherries Chives Dates Figs Garlic
Grapes Guavas Kiwis Leeks Lemons Lentils Limes Mangos Melons Mint Nuts Olives Onions Oranges Papayas Parsley Peaches
Pears Peas Peppers Plums Potatoes Prunes Quinces Radishes Raisins Rice Spinach Tomatoes Turnips Walnuts Yams"""
_PEOPLE = """Ada Anton Bela Bruno Clara Cyril Dario Delia Edgar Emma Felix Fiona Gerda Gustav Hanna Hugo Ines Ivan
Jonas Julia Karim Klara Laszlo Lena Marek Mona Nadia Nils Olga Oscar Paula Pedro Quentin Rita Rosa Samir Selma Tamar
Theo Ugo Ursula Vera Viktor Wanda Xenia Yann Yusuf Zoe"""
_THINGS = """Anvil Barrel Basket Bell Blanket Bottle Bowl Brush Bucket Cable Candle Carpet Clock Cup Curtain Drum Fan
Flute Fork Fridge Hammer Heater Iron Jar Kettle Kite Knife Ladder Lamp Laptop Lock Mirror Mug Needle Oven Paddle Pillow
Pump Puzzle Radio Rope Saw Scarf Shovel Spoon Stove Teapot Towel Umbrella Vase Violin Wheel"""
_PLACES = """Airport Bakery Beach Bridge Canal Castle Centre Chapel Cliff Coast Dunes East Farm Ferry Forest Gardens
Harbour Heath Hills Hotel Island Kiosk Lake Library Market Meadow Mill Museum North Orchard Palace Park Pier Plaza Port
River School Shore South Square Stadium Station Temple Theatre Tower Valley Village West Woods Yard"""
_BOOKS = """Art Ballads Comics Cooking Crime Drama Essays Fables Gardening History Horror Humour Law Letters Maps Music
Myths Novels Opera Physics Plays Poetry Politics Riddles Romance Sagas Science Sport Tales Travel"""

ANIMALS: Final = tuple(_ANIMALS.split())
FOODS: Final = tuple(_FOODS.split())
PEOPLE: Final = tuple(_PEOPLE.split())
THINGS: Final = tuple(_THINGS.split())
PLACES: Final = tuple(_PLACES.split())
BOOKS: Final = tuple(_BOOKS.split())
