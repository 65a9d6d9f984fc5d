"""Programs that find the signs of world `visual-search` by colour and shape and read them against rendered glyphs.

They work by what the question says: a hue, a shape, the choices. None holds a place, a size or an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from saccade.tasks.worlds.signs import Sign

FIND = """\
import cv2
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

HUES = {"red": 0, "orange": 14, "yellow": 25, "green": 67, "blue": 111, "purple": 139, "pink": 164}
pixels = np.array(image_0.convert("RGB"))
hue = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[:, :, 0]
chroma = pixels.max(axis=2) - pixels.min(axis=2)


def signs(colour):
    distance = np.abs(hue.astype(np.int16) - HUES[colour])
    mask = (np.minimum(distance, 180 - distance) <= 5) & (chroma > 80)
    mask = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    found = []
    for contour in cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]:
        hull = cv2.convexHull(contour)
        x, y, w, h = cv2.boundingRect(hull)
        if min(w, h) < 14:
            continue
        full = cv2.contourArea(hull) / ((w - 1) * (h - 1))
        found.append(("square" if full > 0.9 else "round" if full > 0.68 else "diamond", (x, y, w, h), hull, mask))
    return sorted(found, key=lambda sign: -sign[1][2] * sign[1][3])


def ink(sign):
    # How far every pixel inside the plate is from the plate's own colour.
    x, y, w, h = sign[1]
    inside = np.zeros((h, w), np.uint8)
    cv2.fillConvexPoly(inside, sign[2] - (x, y), 1)
    inside = cv2.erode(inside, np.ones((5, 5), np.uint8), borderValue=0)
    crop = pixels[y:y + h, x:x + w].astype(np.float32)
    plate = np.median(crop[sign[3][y:y + h, x:x + w] > 0], axis=0)
    return crop, np.abs(crop - plate).max(axis=2) * inside
"""

READ = """\


def score(sign, text):
    crop, far = ink(sign)
    far = np.pad(np.clip(far / max(far.max(), 1), 0, 1), 4)
    # Close round the ink: a window of flat plate has no correlation to speak of.
    ys, xs = np.nonzero(far > 0.5)
    far = far[max(0, ys.min() - 4):ys.max() + 5, max(0, xs.min() - 4):xs.max() + 5]
    guess = (ys.max() - ys.min() + 1) / 0.729
    best = -1.0
    for size in range(max(8, int(guess) - 2), int(guess) + 4):
        face = ImageFont.truetype(FONT, size)
        left, top, right, bottom = face.getbbox(text)
        glyph = Image.new("L", (int(right - left) + 4, int(bottom - top) + 4))
        ImageDraw.Draw(glyph).text((2 - left, 2 - top), text, font=face, fill=255)
        template = np.array(glyph, np.float32) / 255
        if template.shape[0] <= far.shape[0] and template.shape[1] <= far.shape[1]:
            best = max(best, float(cv2.matchTemplate(far, template, cv2.TM_CCOEFF_NORMED).max()))
    return best


FONT = matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans-Bold.ttf"
"""

DOT = """\

COLOURS = {
    "red": (214, 40, 40), "yellow": (248, 214, 36), "green": (30, 150, 60), "blue": (36, 84, 205),
    "black": (16, 16, 16), "white": (248, 248, 248),
}
"""


def read_program(sign: Sign, by_shape: bool, choices: Sequence[str]) -> str:
    """Which of the choices stands on the sign, or is the colour of its dot?"""
    pick = f'[s for s in signs("{sign.colour}") if s[0] == "{sign.shape}"]' if by_shape else f'signs("{sign.colour}")'
    take = f"sign = {pick}[0]\nprint(sign[0], sign[1])\n"
    if sign.detail == "dot":
        end = (
            "crop, far = ink(sign)\ncolour = np.median(crop[far > 0.7 * far.max()], axis=0)\nprint(colour)\n"
            f"print(min({list(choices)}, key=lambda name: np.abs(colour - COLOURS[name]).sum()))\n"
        )
        return FIND + DOT + take + end
    return FIND + READ + take + f"print(max({list(choices)}, key=lambda text: score(sign, text)))\n"


def colours_program(first: Sign, second: Sign, axis: int, words: tuple[str, str]) -> str:
    """On which side of the second sign is the first, both known by their colours?"""
    return FIND + _compare(f'signs("{first.colour}")[0]', f'signs("{second.colour}")[0]', axis, words)


def letters_program(first: Sign, second: Sign, axis: int, words: tuple[str, str]) -> str:
    """On which side of the second sign is the first, both known by their letters?"""
    everything = "every = [sign for colour in HUES for sign in signs(colour)]\n"
    pick = 'max(every, key=lambda sign: score(sign, "{}"))'
    return FIND + READ + everything + _compare(pick.format(first.content), pick.format(second.content), axis, words)


def _compare(first: str, second: str, axis: int, words: tuple[str, str]) -> str:
    return (
        f"first = {first}\nsecond = {second}\nprint(first[1], second[1])\n"
        f'print("{words[0]}" if first[1][{axis}] < second[1][{axis}] else "{words[1]}")\n'
    )
