"""What the demo looks at: a street with a sign too small to read at a glance, drawn with Pillow, always the same."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw, ImageFont

Box = tuple[int, int, int, int]

SIZE = (3200, 2400)
SIGN_TEXT = ("MARKET LANE", "open 7-19 h")


@dataclass(frozen=True, slots=True)
class DemoScene:
    """A picture and where in it one should look again, as `xyxy` pixels."""

    picture: Image.Image
    look_at: Box


def draw_street() -> DemoScene:
    """A street of houses with a lamp post; its sign is about one per cent of the picture's width."""
    picture = Image.new("RGB", SIZE, (176, 206, 235))
    draw = ImageDraw.Draw(picture)
    random = Random(7)
    draw.ellipse((2520, 180, 2800, 460), fill=(255, 244, 200))
    left = -80
    while left < SIZE[0]:
        width = random.randrange(380, 620)
        _house(draw, random, (left, random.randrange(420, 900), left + width, 1800))
        left += width + 12
    draw.rectangle((0, 1800, SIZE[0], 1960), fill=(186, 182, 174))
    draw.rectangle((0, 1960, SIZE[0], SIZE[1]), fill=(84, 86, 92))
    for start in range(60, SIZE[0], 420):
        draw.rectangle((start, 2160, start + 220, 2184), fill=(232, 228, 208))
    _car(draw, 620)
    _car(draw, 1480)
    return DemoScene(picture, _sign(draw, 2216, 1120))


def centre(picture: Image.Image) -> Box:
    """The middle third of a picture, at least one pixel wide and high."""
    width, height = picture.size
    left, top = width // 3, height // 3
    return left, top, max(left + 1, width - left), max(top + 1, height - top)


def _house(draw: ImageDraw.ImageDraw, random: Random, box: Box) -> None:
    left, top, right, bottom = box
    wall = random.choice([(196, 140, 112), (214, 196, 160), (160, 170, 180), (180, 120, 110), (206, 206, 196)])
    draw.rectangle(box, fill=wall)
    draw.polygon([(left - 10, top), ((left + right) // 2, top - 150), (right + 10, top)], fill=(112, 70, 62))
    for y in range(top + 60, bottom - 340, 190):
        for x in range(left + 46, right - 90, 120):
            glass = random.choice([(92, 116, 140), (120, 144, 168), (246, 226, 150)])
            draw.rectangle((x, y, x + 70, y + 110), fill=glass, outline=(240, 238, 230), width=6)
    door = (left + right) // 2
    draw.rectangle((door - 50, bottom - 220, door + 50, bottom), fill=(78, 58, 48))


def _car(draw: ImageDraw.ImageDraw, left: int) -> None:
    draw.rounded_rectangle((left, 1900, left + 520, 2050), 50, fill=(170, 52, 48))
    draw.rounded_rectangle((left + 100, 1810, left + 410, 1930), 50, fill=(150, 44, 42))
    draw.rectangle((left + 130, 1834, left + 245, 1900), fill=(198, 220, 232))
    draw.rectangle((left + 265, 1834, left + 380, 1900), fill=(198, 220, 232))
    for x in (left + 120, left + 400):
        draw.ellipse((x - 54, 1996, x + 54, 2104), fill=(30, 30, 32))


def _sign(draw: ImageDraw.ImageDraw, x: int, y: int) -> Box:
    draw.rectangle((x - 7, y, x + 7, 1900), fill=(52, 54, 58))
    draw.ellipse((x - 34, y - 70, x + 34, y), fill=(255, 240, 190))
    box = (x + 8, y + 120, x + 128, y + 168)
    draw.rectangle(box, fill=(24, 74, 140), outline=(240, 240, 240), width=2)
    for line, text in enumerate(SIGN_TEXT):
        draw.text((x + 68, y + 134 + 20 * line), text, fill=(250, 250, 250), font=_font(14), anchor="mm")
    return x - 60, y + 80, x + 200, y + 208


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
