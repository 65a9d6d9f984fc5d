"""World `pixel-colour`: questions about colours that need the pixels themselves, not an impression of them.

Kinds: whether two patches on different surrounds are the same colour; the exact RGB of a patch; the lightest of a row
of patches; what per cent of a mosaic one colour covers; which colour covers most of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import Image
from pydantic import Field

from saccade.plugins.worlds.canvas import COLOURS, Box, Colour, blank
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

Kind = Literal["same", "value", "lightest", "share", "most"]
KINDS: tuple[Kind, ...] = ("same", "value", "lightest", "share", "most")
_INKS = ("red", "yellow", "green", "blue", "purple", "orange")

_PATCHES = """\
import cv2
import numpy as np

pixels = np.array(image_0.convert("RGB"))
# Every patch is framed in pure black; the frame's hole is the patch.
frame = (pixels.max(axis=2) == 0).astype(np.uint8)
contours, tree = cv2.findContours(frame, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
boxes = sorted(cv2.boundingRect(c) for c, links in zip(contours, tree[0]) if links[3] >= 0)
insides = [pixels[y + 2:y + h - 2, x + 2:x + w - 2] for x, y, w, h in boxes]
patches = [np.median(inside.reshape(-1, 3), axis=0).astype(int) for inside in insides]
print([patch.tolist() for patch in patches])
"""
_MOSAIC = f"""\
import numpy as np

COLOURS = { ({name: COLOURS[name] for name in _INKS}) }
pixels = np.array(image_0.convert("RGB")).astype(int)
shares = {{name: float((np.abs(pixels - colour).max(axis=2) < 8).mean()) for name, colour in COLOURS.items()}}
print(shares)
"""
_END: dict[Kind, str] = {
    "same": 'print("yes" if (patches[0] == patches[1]).all() else "no")\n',
    "value": 'print(", ".join(str(level) for level in patches[0]))\n',
    "lightest": "print(1 + max(range(len(patches)), key=lambda n: patches[n].sum()))\n",
    "share": "print(round(100 * shares[WANTED]))\n",
    "most": "print(max(shares, key=shares.get))\n",
}


class PixelColourKnobs(Knobs):
    """How small the differences are."""

    kinds: tuple[Kind, ...] = Field(KINDS, min_length=1)
    least: int = Field(4, ge=1, le=15)
    """Least difference of two patches in levels of 255."""
    cells: int = Field(20, ge=10, le=50)
    """Cells of a mosaic across and down."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    picture: Image.Image
    boxes: tuple[Box, ...]
    question: str
    answer: str
    answer_type: AnswerType
    program: str
    choices: tuple[str, ...] = ()


def draw(rng: Rng, knobs: PixelColourKnobs) -> WorldSample:
    """Return one picture of patches or of a mosaic."""
    kind = rng.choice(knobs.kinds)
    drawn = {"same": _same, "value": _value, "lightest": _lightest, "share": _share, "most": _most}[kind](rng, knobs)
    return WorldSample(
        question=drawn.question,
        media={"image_0": drawn.picture},
        choices=drawn.choices,
        answer=drawn.answer,
        answer_type=drawn.answer_type,
        program=drawn.program + _END[kind],
        evidence=tuple(EvidenceBox(image="image_0", xyxy=box, label=kind) for box in drawn.boxes),
        difficulty=round(1 - knobs.least / 20, 3),
        tags=(kind,),
    )


def _same(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    colour = _colour(rng, 60, 190)
    same = rng.chance(50)
    step = rng.integer(knobs.least, knobs.least + 8) * rng.choice((-1, 1))
    picture, boxes = _row(rng, [colour, colour if same else _lit(colour, step)])
    question = rng.choice(
        ("Do the two framed patches have exactly the same colour?", "Are the two framed squares equal in colour?")
    )
    return _Drawn(picture, boxes, question, "yes" if same else "no", AnswerType.YES_NO, _PATCHES)


def _value(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    colour = _colour(rng, 10, 245)
    picture, boxes = _row(rng, [colour])
    question = "What colour is the framed patch? Answer with red, green, blue from 0 to 255, for example: 12, 200, 7"
    return _Drawn(picture, boxes, question, ", ".join(map(str, colour)), AnswerType.LIST, _PATCHES)


def _lightest(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    base = _colour(rng, 100, 200)
    steps = rng.shuffled([-knobs.least * number for number in range(rng.integer(3, 6))])
    picture, boxes = _row(rng, [_lit(base, step) for step in steps])
    place = steps.index(0)
    question = "Counted from the left, which of the framed patches is the lightest? Answer with its number."
    return _Drawn(picture, (boxes[place],), question, str(place + 1), AnswerType.NUMBER, _PATCHES)


def _share(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    picture, counts = _mosaic(rng, knobs.cells)
    # Shares just between two whole numbers could be rounded either way.
    clear = [name for name, count in counts.items() if 200 * count % (2 * knobs.cells**2) != knobs.cells**2]
    name = rng.choice(clear or tuple(counts))
    question = f"What percentage of the picture is {name}? Round to a whole number."
    answer = str(round(100 * counts[name] / knobs.cells**2))
    program = f'WANTED = "{name}"\n' + _MOSAIC
    return _Drawn(picture, ((0, 0, *picture.size),), question, answer, AnswerType.NUMBER, program)


def _most(rng: Rng, knobs: PixelColourKnobs) -> _Drawn:
    picture, counts = _mosaic(rng, knobs.cells)
    question = "Which colour covers the largest part of the picture?"
    choices = tuple(sorted(counts))
    answer = max(counts, key=lambda name: counts[name])
    return _Drawn(picture, ((0, 0, *picture.size),), question, answer, AnswerType.CHOICE, _MOSAIC, choices)


def _colour(rng: Rng, low: int, high: int) -> Colour:
    return rng.integer(low, high), rng.integer(low, high), rng.integer(low, high)


def _lit(colour: Colour, step: int) -> Colour:
    return colour[0] + step, colour[1] + step, colour[2] + step


def _row(rng: Rng, colours: list[Colour]) -> tuple[Image.Image, tuple[Box, ...]]:
    """Return framed patches side by side, each on a surround of its own, and the boxes of their insides."""
    field, height = rng.integer(120, 240), rng.integer(160, 400)
    side = rng.integer(24, 60)
    picture, pen = blank((field * len(colours), height), (255, 255, 255))
    boxes = []
    for number, colour in enumerate(colours):
        shade = rng.choice((20, 60, 190, 225))
        pen.rectangle((number * field, 0, (number + 1) * field - 1, height), fill=_colour(rng, shade, shade + 25))
        x = number * field + rng.integer(10, field - side - 10)
        y = rng.integer(10, height - side - 10)
        pen.rectangle((x - 2, y - 2, x + side + 1, y + side + 1), fill=(0, 0, 0))
        pen.rectangle((x, y, x + side - 1, y + side - 1), fill=colour)
        boxes.append((x, y, x + side, y + side))
    return picture, tuple(boxes)


def _mosaic(rng: Rng, cells: int) -> tuple[Image.Image, dict[str, int]]:
    """Return square cells of four colours, and the number of cells of each; one colour has clearly most."""
    side, total = rng.choice((10, 16, 24)), cells * cells
    first = total * rng.integer(29, 36) // 100
    second = first - total * rng.integer(2, 6) // 100
    third = (total - first - second) // 2
    names = rng.sample(_INKS, 4)
    counts = dict(zip(names, (first, second, third, total - first - second - third), strict=True))
    fields = rng.shuffled([name for name, count in counts.items() for _ in range(count)])
    picture, pen = blank((side * cells, side * cells), (255, 255, 255))
    for number, name in enumerate(fields):
        x, y = number % cells * side, number // cells * side
        pen.rectangle((x, y, x + side - 1, y + side - 1), fill=COLOURS[name])
    return picture, counts


WORLD = World("pixel-colour@1", "Compare, name or measure colours by their pixels.", PixelColourKnobs, draw)
