"""`image_cdl` and `construction_cdl`: what a clean diagram states, in CDL and as logic forms, by rules.

What VISTA calls by these names is a trained parser, DiagramFormalizer, which is the tool `diagram_formalizer`; these
two read only what `saccade.plugins.vista.geometry.image_cdl` knows, and say so otherwise.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, dist, hypot, pi
from string import ascii_uppercase
from typing import Any, Final, Literal

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.vista.geometry.statements import as_cdl
from saccade.plugins.vista.ocr import Ocr, OcrArguments, TextLine
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import Cost, Point, ToolModel
from saccade.tools.look import LookArguments, PixelArray, look

# A clean diagram of one polygon or one circle, its marks and its labels, by rules.
#
# Knows triangles, quadrilaterals and other polygons with straight sides that nothing crosses, and a circle with a
# radius or a diameter. Marks are squares of right angles and single strokes of equal sides. Points without printed
# letters are named A, B, C, ... clockwise from the top, and O is a centre. Anything else is told apart as `unknown`.


_INK: Final = 60
"""Least difference of brightness from the paper."""
_STRAIGHT: Final = 0.04
"""By which part of its size an outline may differ from its polygon."""
_LETTER: Final = 40
"""Parts of ink that are smaller, in pixels, are labels."""
_MOST_CORNERS: Final = 8
_LABEL: Final = re.compile(r"([\dA-Za-z.+\-*/()√]+?)(°|º|˚)?")


@dataclass(frozen=True, slots=True)
class DiagramLabel:
    """A number or a letter at an angle or a side."""

    text: str
    at: tuple[str, ...]
    """The points that name the angle (three) or the side (two)."""


@dataclass(frozen=True, slots=True)
class DiagramReading:
    """Figure that was read; points are in pixels of the part that was looked at."""

    kind: Literal["polygon", "circle", "unknown"]
    points: dict[str, Point]
    labels: tuple[DiagramLabel, ...] = ()
    right_angles: tuple[tuple[str, str, str], ...] = ()
    equal_sides: tuple[tuple[str, str], ...] = ()
    chords: tuple[tuple[str, str], ...] = ()
    """Radii or diameters of a circle."""


def read_diagram(rgb: PixelArray, lines: Sequence[TextLine]) -> DiagramReading:
    """Return the figure with what is written on it.

    Args:
        rgb: The picture.
        lines: Its texts, as OCR found them.
    """
    ink = _ink(rgb)
    figure = _figure(ink)
    outlines, _ = cv2.findContours(figure, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not outlines:
        return DiagramReading("unknown", {})
    outline: Any = max(outlines, key=cv2.contourArea)
    (x, y), radius = cv2.minEnclosingCircle(outline)
    if cv2.contourArea(outline) > 0.93 * pi * radius**2:
        return _circle(figure, (float(x), float(y)), float(radius), lines)
    corners = _corners(outline)
    if not 3 <= len(corners) <= _MOST_CORNERS:
        return DiagramReading("unknown", {})
    points = dict(zip(ascii_uppercase, corners, strict=False))
    return DiagramReading(
        "polygon",
        points,
        tuple(_labels(points, lines)),
        tuple(angle for angle in _angles(points) if _is_square(figure, *(points[name] for name in angle))),
        tuple(side for side in _sides(points) if _has_stroke(figure, points[side[0]], points[side[1]])),
    )


def _ink(rgb: PixelArray) -> PixelArray:
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    paper = int(np.bincount(grey.ravel()).argmax())
    return np.asarray(np.abs(grey.astype(int) - paper) > _INK, np.uint8)


def _figure(ink: PixelArray) -> PixelArray:
    """Return the ink without letters."""
    count, parts, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    large = [part for part in range(1, count) if max(stats[part][2:4]) > _LETTER]
    return np.isin(parts, large).astype(np.uint8)


def _corners(outline: Any) -> list[Point]:
    """Return corners clockwise, the topmost first."""
    _, _, width, height = cv2.boundingRect(outline)
    polygon = cv2.approxPolyDP(outline, _STRAIGHT * max(width, height), True)[:, 0]
    corners = [(float(x), float(y)) for x, y in polygon]
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, corners[1:] + corners[:1], strict=True))
    ordered = corners if area > 0 else corners[::-1]
    first = min(range(len(ordered)), key=lambda place: (ordered[place][1], ordered[place][0]))
    return ordered[first:] + ordered[:first]


def _sides(points: dict[str, Point]) -> list[tuple[str, str]]:
    names = list(points)
    return list(zip(names, names[1:] + names[:1], strict=True))


def _angles(points: dict[str, Point]) -> list[tuple[str, str, str]]:
    names = list(points)
    return list(zip(names[-1:] + names[:-1], names, names[1:] + names[:1], strict=True))


def _towards(a: Point, b: Point) -> Point:
    length = dist(a, b)
    return (b[0] - a[0]) / length, (b[1] - a[1]) / length


def _inked(figure: PixelArray, x: float, y: float) -> bool:
    """Whether there is ink at a place or a pixel next to it."""
    column, row = round(x), round(y)
    part = figure[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
    return bool(part.any())


def _is_square(figure: PixelArray, a: Point, corner: Point, b: Point) -> bool:
    """Whether the small square of a right angle stands at a corner."""
    u, v = _towards(corner, a), _towards(corner, b)
    if abs(u[0] * v[0] + u[1] * v[1]) > 0.034:
        return False

    def at(along: float, across: float) -> bool:
        return _inked(figure, corner[0] + along * u[0] + across * v[0], corner[1] + along * u[1] + across * v[1])

    # Inside the square is paper; an arc of any size has none of its far corner and both its sides inked.
    return any(
        at(side, side) and at(side, side / 3) and at(side / 3, side) and not at(side / 2, side / 2)
        for side in range(12, 26)
    )


def _has_stroke(figure: PixelArray, a: Point, b: Point) -> bool:
    """Whether one short stroke crosses the middle of a side."""
    middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    u = _towards(a, b)
    normal = (-u[1], u[0])

    def crossed(shift: float) -> bool:
        x, y = middle[0] + shift * u[0], middle[1] + shift * u[1]
        return all(_inked(figure, x + sign * 5 * normal[0], y + sign * 5 * normal[1]) for sign in (1, -1))

    return crossed(0) and not crossed(9) and not crossed(-9)


def _labels(points: dict[str, Point], lines: Sequence[TextLine]) -> list[DiagramLabel]:
    """Return each text at its angle, if it stands inside with a degree sign or near a corner, or else at its side."""
    made = []
    outline = np.array(list(points.values()), np.float32)[:, None]
    for line in lines:
        match = _LABEL.fullmatch(line.text.replace(" ", ""))
        if match is None:
            continue
        at = ((line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2)
        inside = cv2.pointPolygonTest(outline, at, False) > 0
        if match[2] or inside:
            place: tuple[str, ...] = min(_angles(points), key=lambda angle: dist(points[angle[1]], at))
        else:
            place = min(_sides(points), key=lambda side: _from_middle(points[side[0]], points[side[1]], at))
        made.append(DiagramLabel(_symbol(match[1]), place))
    return made


def _symbol(text: str) -> str:
    # A lone letter is an unknown, and OCR tells no x from X.
    return text.lower() if len(text) == 1 and text.isalpha() else text


def _from_middle(a: Point, b: Point, at: Point) -> float:
    return hypot((a[0] + b[0]) / 2 - at[0], (a[1] + b[1]) / 2 - at[1])


def _circle(figure: PixelArray, centre: Point, radius: float, lines: Sequence[TextLine]) -> DiagramReading:
    """Return the circle with the strokes from its centre to its rim."""
    # At the rim at most two pixels apart: a thin stroke passes between none of them.
    count = max(180, ceil(pi * radius))
    turned = (360 * number / count for number in range(count))
    angles = [angle for angle in turned if _is_ray(figure, centre, radius, angle)]
    groups: list[list[float]] = []
    for angle in angles:
        if groups and angle - groups[-1][-1] <= 6:
            groups[-1].append(angle)
        else:
            groups.append([angle])
    if len(groups) > 1 and groups[0][0] + 360 - groups[-1][-1] <= 6:
        groups[0] = [angle - 360 for angle in groups.pop()] + groups[0]
    points: dict[str, Point] = {"O": centre}
    turns = [sum(group) / len(group) for group in groups]
    for name, turn in zip("ABCDEFG", turns, strict=False):
        points[name] = (
            centre[0] + radius * float(np.cos(np.radians(turn))),
            centre[1] + radius * float(np.sin(np.radians(turn))),
        )
    rim = [name for name in points if name != "O"]
    through = [(a, b) for a, b in combinations(rim, 2) if _opposite(points[a], points[b], centre, radius)]
    chords: tuple[tuple[str, str], ...] = tuple(through) or tuple(("O", name) for name in rim)
    labels = []
    for line in lines:
        match = _LABEL.fullmatch(line.text.replace(" ", ""))
        at = ((line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2)
        if match and chords and dist(at, centre) < radius:
            side = min(chords, key=lambda chord: _beside(points[chord[0]], points[chord[1]], at))
            labels.append(DiagramLabel(_symbol(match[1]), side))
    return DiagramReading("circle", points, tuple(labels), chords=chords)


def _is_ray(figure: PixelArray, centre: Point, radius: float, angle: float) -> bool:
    u = (float(np.cos(np.radians(angle))), float(np.sin(np.radians(angle))))
    steps = np.linspace(0.15, 0.9, 20) * radius
    return all(_inked(figure, centre[0] + step * u[0], centre[1] + step * u[1]) for step in steps)


def _opposite(a: Point, b: Point, centre: Point, radius: float) -> bool:
    return dist(a, b) > 1.96 * radius and dist(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), centre) < 0.1 * radius


def _beside(a: Point, b: Point, at: Point) -> float:
    """Return the distance of a place from the line through two points."""
    return abs((b[0] - a[0]) * (a[1] - at[1]) - (a[0] - at[0]) * (b[1] - a[1])) / dist(a, b)


_LEAST_CONFIDENCE = 0.2
_UNKNOWN = "No polygon or circle that stands alone was found; crop one figure out, or describe it yourself."
_SHAPES = {3: "Triangle", 4: "Quadrilateral", 5: "Pentagon", 6: "Hexagon", 7: "Heptagon", 8: "Octagon"}


class DiagramCdlResult(ToolModel):
    """Figure that was read."""

    image: str
    cdl: tuple[str, ...]
    """Statements in the language of FormalGeo."""
    logic_forms: tuple[str, ...]
    """The same as logic forms of Geometry3K, as `inter_gps` takes them."""
    points: dict[str, Point]
    """Where the points are, in pixels of the whole image; the names are given here unless letters are printed."""


class _DiagramTool(Tool[LookArguments, DiagramCdlResult]):
    arguments = LookArguments
    result = DiagramCdlResult
    needs = Ocr.needs
    cost = Cost.MEDIUM

    def __init__(self) -> None:
        self._ocr = Ocr()

    @abstractmethod
    def _forms(self, reading: DiagramReading) -> tuple[list[str], list[str]]:
        """Read CDL and logic forms."""

    def run(self, arguments: LookArguments, context: ToolContext) -> ToolOutcome[DiagramCdlResult]:
        """Read the text by OCR, then the outline and its marks."""
        seen = look(arguments, context)
        part = ToolContext({"part": Image.fromarray(seen.rgb)})
        lines = self._ocr.run(OcrArguments(min_confidence=_LEAST_CONFIDENCE), part).value.lines
        reading = read_diagram(seen.rgb, lines)
        cdl, forms = self._forms(reading)
        points = {name: seen.point_of(x, y) for name, (x, y) in reading.points.items()}
        value = DiagramCdlResult(image=seen.image, cdl=tuple(cdl), logic_forms=tuple(forms), points=points)
        return ToolOutcome(value, text=_UNKNOWN if reading.kind == "unknown" else "")


class ImageCdl(_DiagramTool):
    """Measures and marks of a diagram."""

    name = "image_cdl"
    suits = (("diagrams of geometry", 0),)
    description = (
        "Read the measures and marks of a clean diagram of one polygon or circle as formal statements. Gives lengths, "
        "angles, right angles and equal sides in CDL and as logic forms, and where the points are that name them."
    )

    def _forms(self, reading: DiagramReading) -> tuple[list[str], list[str]]:
        forms = [*_shape(reading), *_marks(reading)]
        return [one for form in _marks(reading) if (one := as_cdl(form)) is not None], forms


class ConstructionCdl(_DiagramTool):
    """Points and lines of a diagram."""

    name = "construction_cdl"
    suits = (("diagrams of geometry", 1),)
    description = (
        "Read how a clean diagram of one polygon or circle is built, as formal statements. Gives the outline and the "
        "points on one line or circle in CDL and as logic forms, with the places of the points."
    )

    def _forms(self, reading: DiagramReading) -> tuple[list[str], list[str]]:
        names = list(reading.points)
        if reading.kind == "polygon":
            sides = ",".join(a + b for a, b in zip(names, names[1:] + names[:1], strict=True))
            return [f"Shape({sides})"], list(_shape(reading))
        rim = "".join(name for name in names if name != "O")
        lines = [f"Collinear({a}O{b})" for a, b in reading.chords if a != "O"]
        return ([f"Cocircular(O,{rim})", *lines] if rim else []), list(_shape(reading))


def _shape(reading: DiagramReading) -> Iterator[str]:
    names = list(reading.points)
    if reading.kind == "polygon":
        yield f"{_SHAPES[len(names)]}({','.join(names)})"
    elif reading.kind == "circle":
        yield "Circle(O)"
        for name in names[1:]:
            yield f"PointLiesOnCircle({name},Circle(O))"
        for a, b in reading.chords:
            if a != "O":
                yield f"PointLiesOnLine(O,Line({a},{b}))"


def _marks(reading: DiagramReading) -> Iterator[str]:
    for a, corner, b in reading.right_angles:
        yield f"Perpendicular(Line({a},{corner}),Line({corner},{b}))"
    for other in reading.equal_sides[1:]:
        first = reading.equal_sides[0]
        yield f"Equals(LengthOf(Line({','.join(first)})),LengthOf(Line({','.join(other)})))"
    for label in reading.labels:
        kind = "MeasureOf(Angle" if len(label.at) == 3 else "LengthOf(Line"
        yield f"Equals({kind}({','.join(label.at)})),{label.text})"
