"""Scenes of coloured things that appear, move along lanes and leave: the raw frames of the video worlds.

Every coordinate is a whole number, so the frames are equal on every machine. Things never touch one another: each
stands in a place or a lane of its own, or follows another one there after a pause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from saccade.tasks.worlds.canvas import COLOURS, Box, Colour, blank, free_place
from saccade.tasks.worlds.rng import Rng

SIZE: Final = (320, 240)
"""Width and height of every frame in pixels."""
THING_COLOURS: Final = ("red", "yellow", "green", "blue", "purple")
"""Hues far enough from each other to survive an encoder."""
Shape = Literal["circle", "square", "triangle"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing, visible in the frames `first <= frame < end`."""

    colour: str
    shape: Shape
    size: int
    """Side of its box in pixels."""
    first: int
    end: int
    centre: tuple[int, int]
    """In frame `first`."""
    step: tuple[int, int] = (0, 0)
    """Motion in 1/256 pixel a frame."""

    @property
    def name(self) -> str:
        """Such as `red circle`."""
        return f"{self.colour} {self.shape}"

    def box(self, frame: int) -> Box:
        """Where it is in a frame; may reach beyond the edges."""
        x, y = (at + (step * (frame - self.first) >> 8) for at, step in zip(self.centre, self.step, strict=True))
        half = self.size // 2
        return x - half, y - half, x - half + self.size, y - half + self.size


@dataclass(frozen=True, slots=True)
class VideoScene:
    """A background and the things before it."""

    frames: int
    fps: int
    background: Image.Image
    things: tuple[Thing, ...]

    def draw(self) -> Iterator[NDArray[np.uint8]]:
        """The frames in order, each H×W×3 RGB."""
        for frame in range(self.frames):
            picture = self.background.copy()
            pen = ImageDraw.Draw(picture)
            for thing in self.things:
                if thing.first <= frame < thing.end:
                    _put(pen, thing, thing.box(frame))
            yield np.asarray(picture)


def _put(pen: ImageDraw.ImageDraw, thing: Thing, box: Box) -> None:
    x0, y0, x1, y1 = box[0], box[1], box[2] - 1, box[3] - 1
    fill = COLOURS[thing.colour]
    if thing.shape == "circle":
        pen.ellipse((x0, y0, x1, y1), fill=fill)
    elif thing.shape == "square":
        pen.rectangle((x0, y0, x1, y1), fill=fill)
    else:
        pen.polygon([((x0 + x1) // 2, y0), (x1, y1), (x0, y1)], fill=fill)


_GREYS: tuple[Colour, ...] = ((232, 232, 228), (58, 60, 66), (198, 202, 210), (24, 26, 30), (214, 208, 196))


def random_background(rng: Rng) -> Image.Image:
    """Dull paper: flat, with a floor, or with blocks of other greys."""
    paper = rng.choice(_GREYS)
    picture, pen = blank(SIZE, paper)
    style = rng.choice(("flat", "floor", "blocks"))
    if style == "floor":
        pen.rectangle((0, rng.integer(120, 190), *SIZE), fill=_shade(paper, -14))
    elif style == "blocks":
        for _ in range(rng.integer(4, 12)):
            x, y = rng.integer(-30, SIZE[0]), rng.integer(-30, SIZE[1])
            box = (x, y, x + rng.integer(20, 120), y + rng.integer(20, 90))
            pen.rectangle(box, fill=_shade(paper, rng.integer(-16, 16)))
    return picture


def _shade(colour: Colour, by: int) -> Colour:
    red, green, blue = (max(0, min(255, channel + by)) for channel in colour)
    return red, green, blue


_SPEED = 60
"""Slow enough to be followed by four looks a second: things of one colour are 60 pixels apart or more."""


@dataclass(frozen=True, slots=True)
class Span:
    """When something is visible, in frames; `end` exclusive."""

    first: int
    end: int
    fps: int


def still_things(rng: Rng, names: list[tuple[str, Shape]], spans: list[Span]) -> list[Thing]:
    """Things at random places that stand still; places keep 14 pixels off each other."""
    while True:
        taken: list[Box] = []
        things = []
        for (colour, shape), span in zip(names, spans, strict=True):
            size = rng.integer(28, 44)
            place = free_place(rng, (size, size), (4, 4, SIZE[0] - 4, SIZE[1] - 4), taken, 14)
            if place is None:
                break
            taken.append(place)
            centre = (place[0] + size // 2, place[1] + size // 2)
            things.append(Thing(colour, shape, size, span.first, span.end, centre))
        if len(things) == len(names):
            return things


def lane_thing(rng: Rng, lane: tuple[int, int, bool], name: tuple[str, Shape], span: Span, *, slides: bool) -> Thing:
    """A thing that moves along its lane during its span.

    It makes at most `_SPEED` pixels a second. `lane` is (number, how many there are, whether they are columns).
    If it `slides`, it may come in over the edge.
    """
    number, count, columns = lane
    across, along = SIZE if columns else SIZE[::-1]
    pitch = across // count
    size = rng.integer(min(26, pitch - 12), min(40, pitch - 10))
    beside = number * pitch + pitch // 2
    start = -size // 3 if slides and rng.chance(40) else rng.integer(size // 2 + 4, along // 3)
    finish = rng.integer(along * 3 // 5, along - size // 2 - 4)
    finish = min(finish, start + _SPEED * (span.end - span.first) // span.fps)
    if rng.chance(50):
        start, finish = along - start, along - finish
    step = ((finish - start) << 8) // max(1, span.end - 1 - span.first)
    centre = (beside, start) if columns else (start, beside)
    return Thing(*name, size, span.first, span.end, centre, (0, step) if columns else (step, 0))
