"""World `geometry`: angles, lengths and areas from a drawn diagram with its marks and labels.

Diagrams are to scale to within a pixel; the gold answer follows from what is written on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import atan2, cos, degrees, dist, hypot, radians, sin
from typing import Final, Literal, get_args

import numpy as np
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import Box, Colour, blank, font, grow, put_text_centred, text_size
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

# A sheet for diagrams: lines, arcs, marks, and labels that never touch them.
#
# Points are computed in floating point and rounded to whole pixels before anything is drawn.

Point = tuple[float, float]
_INKS: tuple[tuple[Colour, Colour, Colour], ...] = (
    ((255, 255, 255), (20, 20, 20), (0, 0, 0)),
    ((255, 255, 255), (34, 74, 160), (20, 24, 40)),
    ((250, 247, 238), (120, 52, 40), (50, 30, 24)),
    ((240, 246, 242), (24, 104, 74), (16, 44, 34)),
    ((34, 52, 46), (226, 232, 220), (248, 248, 240)),
)
_CLEAR = 5
"""Least pixels of paper around a label."""


@dataclass(slots=True)
class Sheet:
    """A picture that is being drawn; made new for every sample, and no part of it afterwards."""

    picture: Image.Image
    paper: Colour
    line: Colour
    ink: Colour
    width: int
    text_size: int
    boxes: list[Box] = field(default_factory=list)
    """Where the labels stand, in the order they were put."""

    @property
    def pen(self) -> ImageDraw.ImageDraw:
        return ImageDraw.Draw(self.picture)

    def lines(self, points: Sequence[Point], *, closed: bool = False) -> None:
        pixels = [to_pixel(point) for point in points]
        for a, b in zip(pixels, pixels[1:] + pixels[:1] if closed else pixels[1:], strict=False):
            self.pen.line((a, b), fill=self.line, width=self.width)

    def circle(self, centre: Point, radius: int) -> None:
        x, y = to_pixel(centre)
        self.pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=self.line, width=self.width)

    def arc(self, corner: Point, a: Point, b: Point, radius: int) -> None:
        """Draw the arc of an angle at `corner` between the directions to `a` and to `b`, on its smaller side."""
        x, y = to_pixel(corner)
        start, end = (round(degrees(atan2(p[1] - corner[1], p[0] - corner[0]))) for p in (a, b))
        if (end - start) % 360 > 180:
            start, end = end, start
        self.pen.arc((x - radius, y - radius, x + radius, y + radius), start, end, fill=self.line, width=2)

    def right_angle(self, corner: Point, a: Point, b: Point, side: int = 14) -> None:
        first, second = toward(corner, a, side), toward(corner, b, side)
        middle = (first[0] + second[0] - corner[0], first[1] + second[1] - corner[1])
        self.lines([first, middle, second])

    def tick(self, a: Point, b: Point) -> None:
        """Draw the mark of equal length across the middle of a side."""
        middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
        length = dist(a, b)
        across = ((a[1] - b[1]) / length * 7, (b[0] - a[0]) / length * 7)
        self.lines([(middle[0] - across[0], middle[1] - across[1]), (middle[0] + across[0], middle[1] + across[1])])

    def label(self, text: str, start: Point, direction: Point) -> Box:
        """Put a label at the first clear place from `start` along `direction`; returns the box of its ink.

        ValueError if there is none on the sheet.
        """
        face = font(self.text_size)
        width, height = text_size(text, face)
        length = hypot(*direction) or 1.0
        drawn = np.any(np.asarray(self.picture) != self.paper, axis=2)
        for step in range(0, 240, 2):
            x, y = to_pixel((start[0] + direction[0] / length * step, start[1] + direction[1] / length * step))
            left, top = x - width // 2 - _CLEAR, y - height // 2 - _CLEAR
            right, bottom = left + width + 2 * _CLEAR, top + height + 2 * _CLEAR
            if left < 0 or top < 0 or right > self.picture.width or bottom > self.picture.height:
                break
            if not drawn[top:bottom, left:right].any():
                self.boxes.append(put_text_centred(self.pen, (x, y), text, face, self.ink))
                return self.boxes[-1]
        raise ValueError(f"no clear place for {text!r}")


def new_sheet(rng: Rng, size: tuple[int, int]) -> Sheet:
    """Return an empty sheet of a random style."""
    paper, line, ink = rng.choice(_INKS)
    return Sheet(blank(size, paper)[0], paper, line, ink, rng.integer(2, 3), rng.integer(16, 22))


def to_pixel(point: Point) -> tuple[int, int]:
    """Return the nearest whole pixel."""
    return round(point[0]), round(point[1])


def toward(a: Point, b: Point, pixels: float) -> Point:
    """Return the point so many pixels from `a` on the way to `b`."""
    part = pixels / dist(a, b)
    return a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part


def between(corner: Point, a: Point, b: Point) -> Point:
    """Return the direction that halves the angle at `corner` between `a` and `b`."""
    first, second = toward(corner, a, 1), toward(corner, b, 1)
    return first[0] + second[0] - 2 * corner[0], first[1] + second[1] - 2 * corner[1]


def polar(centre: Point, radius: float, angle: float) -> Point:
    """Return the point at `angle` degrees (clockwise from the right, as rows grow downwards)."""
    return centre[0] + radius * cos(radians(angle)), centre[1] + radius * sin(radians(angle))


def turned(points: Sequence[Point], angle: float) -> list[Point]:
    """Return the points turned about the origin by `angle` degrees."""
    turn, rise = cos(radians(angle)), sin(radians(angle))
    return [(x * turn - y * rise, x * rise + y * turn) for x, y in points]


def fitted(points: Sequence[Point], size: tuple[int, int], margin: int) -> list[Point]:
    """Return the points scaled and moved to fill a sheet but for its margin."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    scale = min((size[0] - 2 * margin) / wide, (size[1] - 2 * margin) / high)
    left, top = (size[0] - scale * wide) / 2, (size[1] - scale * high) / 2
    return [(left + (x - min(xs)) * scale, top + (y - min(ys)) * scale) for x, y in points]


# Questions about angles: triangles, isosceles triangles, parallel lines with a transversal, angles in a circle.


Asked = tuple[str, str, str]
"""Question, answer, and the end of the program (`labels` and `lines` are defined before it)."""

_ASK_X = ("What is x, in degrees?", "Find the measure of the angle marked x, in degrees.", "How large is x (degrees)?")


def triangle_angle(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for the third angle of a triangle of which two are given."""
    while True:
        angles = [rng.integer(30, 105), rng.integer(30, 105)]
        angles.append(180 - sum(angles))
        if 30 <= angles[2] <= 105:
            break
    points = _triangle(rng, sheet, angles)
    _mark_angles(sheet, points, (f"{angles[0]}°", f"{angles[1]}°", "x°"), rng.integer(20, 30))
    lines = "given = [value for value, _ in known(labels)]\nprint(given)\nprint(show(180 - sum(given)))"
    return rng.choice(_ASK_X), str(angles[2]), lines


def isosceles(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for an angle of an isosceles triangle of which another is given."""
    top = 2 * rng.choice([half for half in range(17, 56) if not 24 <= half <= 36])
    base = (180 - top) // 2
    points = _triangle(rng, sheet, [top, base, base])
    sheet.tick(points[0], points[1])
    sheet.tick(points[0], points[2])
    texts, answer = rng.choice(
        (((f"{top}°", "x°", ""), base), (("x°", f"{base}°", ""), top), (("", f"{base}°", "x°"), base))
    )
    _mark_angles(sheet, points, texts, rng.integer(20, 28))
    lines = (
        "[(given, at)] = known(labels)\npoints = corners(lines)\ntop = apex(points)\n"
        "at_top = [min(points, key=lambda p: dist(p, spot)) == top for spot in (at, unknown(labels))]\n"
        "print(given, at_top)\n"
        "print(show((180 - given) / 2 if at_top[0] else 180 - 2 * given if at_top[1] else given))"
    )
    question = rng.choice(("The two marked sides are equally long. ", "Equal marks stand for equal sides. "))
    return question + rng.choice(_ASK_X), str(answer), lines


def transversal(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for an angle where a line crosses the second of two parallels; one at the first is given."""
    width, height = sheet.picture.size
    tilt, angle = rng.integer(-12, 12), rng.integer(42, 76)
    lean = tilt + (angle if rng.chance(50) else 180 - angle)
    middle = (width / 2, height / 2)
    # The crossings are on the transversal, as far from the middle as makes the lines `gap` apart.
    gap = rng.integer(130, 170)
    reach = gap / 2 / sin(radians(angle))
    crossings = [polar(middle, reach, lean), polar(middle, -reach, lean)]
    for crossing in crossings:
        sheet.lines([polar(crossing, -190, tilt), polar(crossing, 190, tilt)])
    sheet.lines([polar(middle, reach + 90, lean), polar(middle, -reach - 90, lean)])
    # Corners of a crossing by the direction of their middle; opposite ones are equal.
    halves = [(tilt + lean) / 2, (tilt + lean) / 2 + 90]
    sizes = [(lean - tilt) % 180, 180 - (lean - tilt) % 180]
    picks = [rng.integer(0, 3), rng.integer(0, 3)]
    given, asked = (sizes[pick % 2] for pick in picks)
    for crossing, pick, text in zip(rng.shuffled(crossings), picks, (f"{given}°", "x°"), strict=True):
        direction = polar((0, 0), 1, halves[pick % 2] + 180 * (pick // 2))
        sheet.label(text, (crossing[0] + 12 * direction[0], crossing[1] + 12 * direction[1]), direction)
    lines = (
        "[(given, at)] = known(labels)\nfound = straight_lines(lines, 3)\n"
        "turn = lambda a, b: min(abs(a[1] - b[1]), np.pi - abs(a[1] - b[1]))\n"
        "cut = max(found, key=lambda line: min(turn(line, other) for other in found if other != line))\n"
        "parallels = [line for line in found if line != cut]\n"
        "def acute(spot):\n"
        "    nearest = min(parallels, key=lambda line: dist(meeting(cut, line), spot))\n"
        "    return in_acute(spot, cut, nearest)\n"
        "kinds = acute(at), acute(unknown(labels))\nprint(given, kinds)\n"
        "print(show(given if kinds[0] == kinds[1] else 180 - given))"
    )
    return f"Two of the lines are parallel. {rng.choice(_ASK_X)}", str(asked), lines


def inscribed(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for one of the angles under which an arc is seen from the centre and from the circle."""
    width, height = sheet.picture.size
    centre, radius = (width / 2, height / 2), min(width, height) // 2 - 30
    half, facing = rng.integer(32, 70), rng.integer(0, 359)
    a, b = polar(centre, radius, facing - half), polar(centre, radius, facing + half)
    # The point of the circle looks at the arc from about the other side.
    eye = polar(centre, radius, facing + 180 + rng.integer(-12, 12))
    sheet.circle(centre, radius)
    sheet.lines([a, centre, b])
    sheet.lines([a, eye, b])
    texts = (f"{2 * half}°", "x°") if rng.chance(50) else ("x°", f"{half}°")
    sheet.label(texts[0], centre, polar((0, 0), 1, facing))
    sheet.label(texts[1], eye, between(eye, a, b))
    lines = (
        "[(given, at)] = known(labels)\ncentre, _ = round_outline(lines)\n"
        "central = dist(at, centre) < dist(unknown(labels), centre)\nprint(given, central)\n"
        "print(show(given / 2 if central else given * 2))"
    )
    answer = half if texts[1] == "x°" else 2 * half
    question = "One corner of the two angles is the centre of the circle, the other lies on the circle. "
    return question + rng.choice(_ASK_X), str(answer), lines


def _triangle(rng: Rng, sheet: Sheet, angles: list[int]) -> list[Point]:
    """Draw a triangle with these angles, turned at random; its corners in their order."""
    longer = [sin(radians(angle)) for angle in angles]
    points = [(0.0, 0.0), (longer[2], 0.0), polar((0, 0), longer[1], angles[0])]
    placed = fitted(turned(points, rng.integer(0, 359)), sheet.picture.size, 30)
    sheet.lines(placed, closed=True)
    return placed


def _mark_angles(sheet: Sheet, points: list[Point], texts: tuple[str, ...], radius: int) -> None:
    for index, text in enumerate(texts):
        if text:
            corner, a, b = (points[(index + turn) % 3] for turn in range(3))
            sheet.arc(corner, a, b, radius)
            sheet.label(text, corner, between(corner, a, b))


# Questions about lengths and areas: right triangles, rectangles, circles, polygons on squared paper.


_TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29))
_UNITS = ("cm", "m", "inches", "feet")


def right_triangle(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for the third side of a right triangle."""
    legs, sides = _right_triangle(rng, sheet)
    unknown = rng.integer(0, 2)
    for index, (a, b) in enumerate(sides):
        _label_side(sheet, "x" if index == unknown else str(legs[index]), (a, b), sheet.picture.size)
    lines = (
        "edges = sides(corners(lines))\nlong = edges[0][1]\n"
        "given = known(labels)\nprint(given)\n"
        "at = lambda spot: min(edges, key=lambda edge: dist(edge[1], spot))[1]\n"
        "squares = [value**2 for value, _ in given]\n"
        "print(show((sum(squares) if at(unknown(labels)) == long else abs(squares[0] - squares[1])) ** 0.5))"
    )
    question = rng.choice(("How long is the side x of the right triangle?", "Find x in this right triangle."))
    return question, str(legs[unknown]), lines


def triangle_area(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for the area of a right triangle with given legs."""
    legs, sides = _right_triangle(rng, sheet)
    for index in (0, 1):
        _label_side(sheet, str(legs[index]), sides[index], sheet.picture.size)
    unit = rng.choice(_UNITS)
    lines = "given = [value for value, _ in known(labels)]\nprint(given)\nprint(show(given[0] * given[1] / 2))"
    answer = legs[0] * legs[1]
    question = f"Lengths are in {unit}. What is the area of the right triangle, in square {unit}?"
    return question, str(answer // 2) if answer % 2 == 0 else f"{answer // 2}.5", lines


def rectangle(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for the area or the perimeter of a rectangle."""
    width, height = rng.sample(range(4, 31), 2)
    while not 1 / 3 < width / height < 3:
        width, height = rng.sample(range(4, 31), 2)
    corners = fitted([(0, 0), (width, 0), (width, height), (0, height)], sheet.picture.size, 70)
    sheet.lines(corners, closed=True)
    for corner in range(4):
        sheet.right_angle(corners[corner], corners[corner - 1], corners[(corner + 1) % 4])
    first, second = (0, 1) if rng.chance(50) else (2, 3)
    _label_side(sheet, str(width), (corners[first], corners[first + 1]), sheet.picture.size)
    _label_side(sheet, str(height), (corners[second], corners[(second + 1) % 4]), sheet.picture.size)
    unit = rng.choice(_UNITS)
    start = "given = [value for value, _ in known(labels)]\nprint(given)\n"
    if rng.chance(50):
        question = f"Lengths are in {unit}. What is the area of the rectangle, in square {unit}?"
        return question, str(width * height), start + "print(show(given[0] * given[1]))"
    question = f"Lengths are in {unit}. What is the perimeter of the rectangle, in {unit}?"
    return question, str(2 * (width + height)), start + "print(show(2 * (given[0] + given[1])))"


def circle(rng: Rng, sheet: Sheet) -> Asked:
    """Ask for the area or the circumference of a circle with a given radius or diameter."""
    width, height = sheet.picture.size
    centre, radius = (width / 2, height / 2), min(width, height) // 2 - rng.integer(30, 80)
    length, full, angle = rng.integer(2, 20), rng.chance(50), rng.integer(0, 359)
    end = polar(centre, radius - 1, angle)
    start = polar(centre, 1 - radius, angle) if full else centre
    sheet.circle(centre, radius)
    sheet.lines([start, end])
    x, y = round(centre[0]), round(centre[1])
    sheet.pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=sheet.line)
    middle = polar(centre, radius * 0.5, angle)
    sheet.label(str(length), middle, polar((0, 0), 1, angle + 90))
    lines = (
        "[(given, _)] = known(labels)\n(x, y), radius = round_outline(lines)\n"
        "inside = cv2.circle(np.zeros_like(lines), (round(x), round(y)), round(radius * 0.9), 1, -1) & lines\n"
        "rows, columns = np.nonzero(inside)\nspots = np.column_stack([columns - x, rows - y])\n"
        # A radius is on one side of the centre, a diameter on both.
        "far = spots[np.hypot(*spots.T).argmax()]\nopposite = (spots @ far).min() < -0.5 * far @ far\n"
        "radius = given / 2 if opposite else given\nprint(given, opposite)\n"
    )
    start_question = "The dot is the centre of the circle. "
    if rng.chance(50):
        question = "What is its area? Use 3.14 for pi and round to two decimals."
        # Hundredths as whole numbers: 314 r² is exact, or a quarter, which halves round up.
        return (
            start_question + question,
            _two(314 * length * length, 4 if full else 1),
            lines + _ROUND.format("radius**2"),
        )
    question = "What is its circumference? Use 3.14 for pi and round to two decimals."
    return start_question + question, _two(628 * length, 2 if full else 1), lines + _ROUND.format("2 * radius")


_ROUND = 'print(f"{{int(314 * {} + 0.5) / 100:.2f}}")'


def _two(hundredths: int, parts: int) -> str:
    """Return `hundredths / parts / 100` with two decimals, halves rounded up."""
    rounded = (2 * hundredths + parts) // (2 * parts)
    return f"{rounded // 100}.{rounded % 100:02d}"


def grid_area(rng: Rng, sheet: Sheet) -> Asked:
    """Return the area of a polygon on squared paper, in squares."""
    pitch = rng.integer(22, 36)
    width, height = sheet.picture.size
    columns, rows = width // pitch - 1, height // pitch - 1
    left, top = (width - columns * pitch) // 2, (height - rows * pitch) // 2
    faint = tuple((3 * paper + line) // 4 for paper, line in zip(sheet.paper, sheet.line, strict=True))
    for column in range(columns + 1):
        x = left + column * pitch
        sheet.pen.line((x, top, x, top + rows * pitch), fill=faint)
    for row in range(rows + 1):
        y = top + row * pitch
        sheet.pen.line((left, y, left + columns * pitch, y), fill=faint)
    nodes = _polygon(rng, columns, rows)
    sheet.lines([(left + x * pitch, top + y * pitch) for x, y in nodes], closed=True)
    xs, ys = [x for x, _ in nodes], [y for _, y in nodes]
    sheet.boxes.append((left + min(xs) * pitch, top + min(ys) * pitch, left + max(xs) * pitch, top + max(ys) * pitch))
    twice = abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(nodes, nodes[1:] + nodes[:1], strict=True)))
    lines = (
        'grey = cv2.cvtColor(np.asarray(image_0.convert("RGB")), cv2.COLOR_RGB2GRAY).astype(int)\n'
        "paper = np.bincount(grey.ravel()).argmax()\n"
        # Half of a column or a row is inked where a line of the squared paper runs.
        "across, down = (np.flatnonzero((grey != paper).mean(axis=axis) > 0.5) for axis in (0, 1))\n"
        "pitch = np.median(np.diff(across))\nprint('pitch', pitch)\n"
        "snap = lambda point: (round((point[0] - across[0]) / pitch), round((point[1] - down[0]) / pitch))\n"
        "points = [snap(point) for point in corners(lines, 5)]\nprint(points)\nprint(show(polygon_area(points)))"
    )
    question = "Each square of the paper has side 1. What is the area of the drawn shape?"
    return question, str(twice // 2) if twice % 2 == 0 else f"{twice // 2}.5", lines


def _polygon(rng: Rng, columns: int, rows: int) -> list[tuple[int, int]]:
    """Return a rectangle, an L, a triangle or a trapezium with corners on the nodes of the paper."""
    wide, high = rng.integer(4, columns - 2), rng.integer(4, rows - 2)
    x, y = rng.integer(1, columns - wide - 1), rng.integer(1, rows - high - 1)
    notch = rng.integer(1, wide - 2), rng.integer(1, high - 2)
    shape = rng.choice(
        (
            [(0, 0), (wide, 0), (wide, high), (0, high)],
            [(0, 0), (wide, 0), (wide, notch[1]), (notch[0], notch[1]), (notch[0], high), (0, high)],
            [(notch[0], 0), (wide, high), (0, high)],
            [(0, 0), (notch[0], 0), (wide, high), (0, high)],
        )
    )
    return [(x + column, y + row) for column, row in shape]


def _right_triangle(rng: Rng, sheet: Sheet) -> tuple[list[int], list[tuple[Point, Point]]]:
    """Draw a right triangle of whole sides; lengths and ends of its legs and of the side opposite the right angle."""
    triple = rng.choice(_TRIPLES)
    factor = rng.integer(1, 3) if triple[2] > 13 else rng.integer(1, 6)
    legs = [side * factor for side in triple]
    if rng.chance(50):
        legs[0], legs[1] = legs[1], legs[0]
    points = [(0.0, 0.0), (float(legs[0]), 0.0), (0.0, float(legs[1]))]
    corner, a, b = fitted(turned(points, rng.integer(0, 359)), sheet.picture.size, 70)
    sheet.lines([corner, a, b], closed=True)
    sheet.right_angle(corner, a, b)
    return legs, [(corner, a), (corner, b), (a, b)]


def _label_side(sheet: Sheet, text: str, side: tuple[Point, Point], size: tuple[int, int]) -> None:
    """Put a label outside the figure next to the middle of a side."""
    (ax, ay), (bx, by) = side
    middle = ((ax + bx) / 2, (ay + by) / 2)
    normal = ((by - ay) / dist(*side), (ax - bx) / dist(*side))
    outwards = (middle[0] - size[0] / 2) * normal[0] + (middle[1] - size[1] / 2) * normal[1]
    sheet.label(text, middle, normal if outwards > 0 else (-normal[0], -normal[1]))


GeometryKind = Literal[
    "triangle-angle",
    "isosceles",
    "transversal",
    "inscribed",
    "right-triangle",
    "triangle-area",
    "rectangle",
    "circle",
    "grid-area",
]
KINDS: Final[tuple[GeometryKind, ...]] = get_args(GeometryKind)
_DRAW: Final[dict[GeometryKind, Callable[[Rng, Sheet], Asked]]] = {
    "triangle-angle": triangle_angle,
    "isosceles": isosceles,
    "transversal": transversal,
    "inscribed": inscribed,
    "right-triangle": right_triangle,
    "triangle-area": triangle_area,
    "rectangle": rectangle,
    "circle": circle,
    "grid-area": grid_area,
}


class GeometryKnobs(Knobs):
    """Size of the sheet, and what is asked."""

    least_side: int = Field(380, ge=380, le=700)
    most_side: int = Field(560, ge=380, le=900)
    kinds: tuple[GeometryKind, ...] = KINDS


def draw(rng: Rng, knobs: GeometryKnobs) -> WorldSample:
    """Return one diagram and a question about it."""
    kind = rng.choice(knobs.kinds)
    while True:
        sides = [rng.integer(knobs.least_side, max(knobs.least_side, knobs.most_side)) for _ in range(2)]
        sheet = new_sheet(rng, (sides[0], sides[1]))
        try:
            question, answer, lines = _DRAW[kind](rng, sheet)
        except ValueError:  # a label found no clear place: draw another diagram
            continue
        break
    start = 'labels, lines = diagram(np.asarray(image_0.convert("RGB")))\nprint(labels)\n'
    return WorldSample(
        question=question,
        media={"image_0": sheet.picture},
        answer=answer,
        answer_type=AnswerType.NUMBER,
        program=compose(reading, last=start + lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=grow(box, 2, sheet.picture.size), label="label") for box in sheet.boxes
        ),
        difficulty=(KINDS.index(kind) % 4 + 1) / 4,
        tags=(kind,),
    )


WORLD = World("geometry@1", "Angles, lengths and areas from a diagram with marks and labels.", GeometryKnobs, draw)
