"""`image_cdl` and `construction_cdl`: what a clean diagram states, in CDL and as logic forms, by rules.

What VISTA calls by these names is a trained parser, DiagramFormalizer, which is the tool `diagram_formalizer`; these
two read only what `saccade.plugins.vista.geometry.image_cdl` knows, and say so otherwise.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, cos, dist, inf, pi, radians, sin
from string import ascii_uppercase
from typing import Any, Final, Literal, TypeVar

import cv2
import numpy as np
from PIL import Image

from saccade.plugins.vista.geometry.figure import corners as angles
from saccade.plugins.vista.geometry.figure import ring
from saccade.plugins.vista.geometry.statements import as_cdl
from saccade.plugins.vista.ocr import Ocr, OcrArguments, TextLine
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import Cost, Point, ToolModel
from saccade.tools.measure import LookArguments, PixelArray, look

# A clean diagram of one polygon or one circle, its marks and its labels, by rules.
#
# Knows triangles, quadrilaterals and other polygons with straight sides that nothing crosses, and a circle with a
# radius or a diameter. Marks are squares of right angles and single strokes of equal sides. A capital beside a point is
# its name; points without one are named A, B, C, ... clockwise from the top, and O is a centre. A diagram with other
# lines, or with a letter that names no point found, is `unknown`, and so is a label that could belong to two places.

_INK: Final = 60
"""Least difference of brightness from the paper."""
_STRAIGHT: Final = 0.04
"""By which part of its size an outline may differ from its polygon."""
_LETTER: Final = 40
"""Parts of ink that are smaller, in pixels, are labels."""
_MOST_CORNERS: Final = 8
_LABEL: Final = re.compile(r"([\dA-Za-z.+\-*/()√]+?)(°|º|˚)?")
_SURE: Final = 0.8
"""Confidence of OCR from which a label is used."""
_EITHER: Final = frozenset("CKOPSUVWXYZ")
"""Capitals that OCR cannot tell from the small letter, which is an unknown."""
_BESIDE: Final = 2.0
"""Sizes of a letter within which it stands beside a point."""
_DRAWN: Final = 0.75
"""Part of a side that has ink within a pixel."""
_SHARPEST: Final = 0.985
"""Cosine of the smallest angle of a polygon, ten degrees."""
_STRAY: Final = 0.2
"""Part of the figure's size from which ink beside the outline is a line of its own."""
_BAND: Final = 4
"""Pixels to both sides of an outline that belong to it."""
_CLEAR: Final = 1.4
"""How many times as far the next side or corner is from a label as its own."""


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
    figure = _figure(_ink(rgb))
    outlines, _ = cv2.findContours(figure, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not outlines:
        return _UNREAD
    outline: Any = max(outlines, key=cv2.contourArea)
    (x, y), radius = cv2.minEnclosingCircle(outline)
    if cv2.contourArea(outline) > 0.93 * pi * radius**2:
        return _circle(figure, (float(x), float(y)), float(radius), lines)
    corners = _corners(outline)
    # The end of a line that is longer than a side is a corner without an angle, or without a side.
    whole = all(_is_drawn(figure, a, b) and _cosine(before, a, b) < _SHARPEST for before, a, b in angles(corners))
    if not 3 <= len(corners) <= _MOST_CORNERS or not whole:
        return _UNREAD
    shown = np.zeros_like(figure)
    cv2.polylines(shown, [np.array(corners, np.int32)], True, 1, 2 * _BAND + 1)
    _, _, width, height = cv2.boundingRect(outline)
    if _stray(figure, shown, min(width, height)):
        return _UNREAD
    named = _named(corners, _outside(corners, lines), ascii_uppercase)
    if named is None:
        return _UNREAD
    points = dict(zip(named, corners, strict=True))
    return DiagramReading(
        "polygon",
        points,
        tuple(_labels(points, lines)),
        tuple(angle for angle in angles(named) if _is_square(figure, *(points[name] for name in angle))),
        tuple(side for side in ring(named) if _has_stroke(figure, points[side[0]], points[side[1]])),
    )


_UNREAD: Final = DiagramReading("unknown", {})


def _stray(figure: PixelArray, shown: PixelArray, size: float) -> bool:
    """Return whether there is a line besides those shown: longer than marks of angles and of equal sides are."""
    rest = np.asarray(figure & (1 - shown), np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(rest, connectivity=8)
    return any(max(stats[part][2:4]) > max(_LETTER, _STRAY * size) for part in range(1, count))


def _outside(corners: Sequence[Point], lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the texts but for small letters, or such as may be small, inside a polygon: they are unknowns there."""
    outline = np.array(corners, np.float32)[:, None]
    inside = [cv2.pointPolygonTest(outline, _centre(line), False) > 0 for line in lines]
    return [line for line, within in zip(lines, inside, strict=True) if not (within and line.text.upper() in _EITHER)]


def _named(places: Sequence[Point], lines: Sequence[TextLine], free: str) -> list[str] | None:
    """Return the name of each point: the capital beside it, or else the next free letter.

    None if a capital stands beside no point or two beside one: then there are points that were not found.
    """
    printed: dict[int, str] = {}
    letters = [line for line in lines if len(line.text) == 1 and line.text.isalpha() and line.text.isascii()]
    for line in letters:
        name = line.text.upper()
        distances = [dist(place, _centre(line)) for place in places]
        nearest, reach = int(np.argmin(distances)), _BESIDE * max(line.box[3] - line.box[1], line.box[2] - line.box[0])
        if distances[nearest] <= reach and (line.text.isupper() or name in _EITHER):
            if nearest in printed or name in printed.values():
                return None
            printed[nearest] = name
        elif line.text.isupper() and name not in _EITHER:
            return None
    rest = (name for name in free if name not in printed.values())
    return [printed[place] if place in printed else next(rest) for place in range(len(places))]


def _midpoint(a: Sequence[float], b: Sequence[float]) -> Point:
    return (a[0] + b[0]) / 2, (a[1] + b[1]) / 2


def _centre(line: TextLine) -> Point:
    return _midpoint(line.box[:2], line.box[2:])


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
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in ring(corners))
    ordered = corners if area > 0 else corners[::-1]
    first = min(range(len(ordered)), key=lambda place: (ordered[place][1], ordered[place][0]))
    return ordered[first:] + ordered[:first]


def _towards(a: Point, b: Point) -> Point:
    length = dist(a, b)
    return (b[0] - a[0]) / length, (b[1] - a[1]) / length


def _inked(figure: PixelArray, x: float, y: float) -> bool:
    """Return whether there is ink at a place or a pixel next to it."""
    column, row = round(x), round(y)
    part = figure[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
    return bool(part.any())


def _cosine(a: Point, corner: Point, b: Point) -> float:
    u, v = _towards(corner, a), _towards(corner, b)
    return u[0] * v[0] + u[1] * v[1]


def _is_drawn(figure: PixelArray, a: Point, b: Point) -> bool:
    """Return whether a line joins two corners."""
    steps = np.linspace(0, 1, max(8, round(dist(a, b) / 4)))
    return float(np.mean([_inked(figure, a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])) for t in steps])) > _DRAWN


def _is_square(figure: PixelArray, a: Point, corner: Point, b: Point) -> bool:
    """Return whether the small square of a right angle stands at a corner."""
    u, v = _towards(corner, a), _towards(corner, b)
    if abs(_cosine(a, corner, b)) > 0.034:
        return False

    def at(along: float, across: float) -> bool:
        return _inked(figure, corner[0] + along * u[0] + across * v[0], corner[1] + along * u[1] + across * v[1])

    # Inside the square is paper; an arc of any size has none of its far corner and both its sides inked.
    return any(
        at(side, side) and at(side, side / 3) and at(side / 3, side) and not at(side / 2, side / 2)
        for side in range(12, 26)
    )


def _has_stroke(figure: PixelArray, a: Point, b: Point) -> bool:
    """Return whether one short stroke crosses the middle of a side."""
    middle, u = _midpoint(a, b), _towards(a, b)
    normal = (-u[1], u[0])

    def crossed(shift: float) -> bool:
        x, y = middle[0] + shift * u[0], middle[1] + shift * u[1]
        return all(_inked(figure, x + sign * 5 * normal[0], y + sign * 5 * normal[1]) for sign in (1, -1))

    return crossed(0) and not crossed(9) and not crossed(-9)


def _measure(line: TextLine) -> tuple[str, bool] | None:
    """Return the number or expression that a text is, and whether it is in degrees; None for any other text.

    Letters together, such as AB, are names; an expression in brackets is an angle whose sign was not read.
    """
    match = _LABEL.fullmatch(line.text.replace(" ", "").replace("−", "-").replace("—", "-").replace("–", "-"))
    if match is None or line.confidence < _SURE:
        return None
    text, degrees = match[1], match[2] is not None
    if text.startswith("(") and text.endswith(")"):
        text, degrees = text[1:-1], True
    if len(text) == 1 and text.isalpha():
        # A lone letter is an unknown, and OCR tells no x from X.
        return (text.lower(), degrees) if text.islower() or text in _EITHER else None
    return (text, degrees) if text.count("(") == text.count(")") and any(map(str.isdigit, text)) else None


def _labels(points: dict[str, Point], lines: Sequence[TextLine]) -> list[DiagramLabel]:
    """Return each measure at its angle, if it stands inside near a corner, or at its side, if outside near its middle.

    One that has two such places, and two at one place, are left out.
    """
    made = [label for line in lines if (label := _label(points, line)) is not None]
    return [label for label in made if sum(other.at == label.at for other in made) == 1]


def _label(points: dict[str, Point], line: TextLine) -> DiagramLabel | None:
    measure, at = _measure(line), _centre(line)
    if measure is None or (measure[0].isalpha() and not measure[1] and _is_name(line, points)):
        return None
    text, degrees = measure
    place: tuple[str, ...] | None
    outline = np.array(list(points.values()), np.float32)[:, None]
    if cv2.pointPolygonTest(outline, at, False) <= 0:
        place = None if degrees else _clearest(ring(list(points)), lambda side: _from_middle(points, side, at))
    else:
        # Without its sign a small number is the name of an angle; what is nearer to the middle of a side is its length.
        near = min(dist(at, place) for place in points.values())
        middles = [_midpoint(points[a], points[b]) for a, b in ring(list(points))]
        bare = text.isalpha() or (text.isdigit() and 10 <= int(text) < 180)
        angle = degrees or (bare and near < min(dist(at, middle) for middle in middles))
        place = _clearest(angles(list(points)), lambda angle: dist(points[angle[1]], at)) if angle else None
        if place and near > max(dist(points[place[1]], points[end]) for end in place[::2]) / 2:
            return None
    return DiagramLabel(text, place) if place else None


def _is_name(line: TextLine, points: dict[str, Point]) -> bool:
    reach = _BESIDE * max(line.box[3] - line.box[1], line.box[2] - line.box[0])
    return any(dist(_centre(line), place) <= reach for place in points.values())


_Names = TypeVar("_Names", bound=tuple[str, ...])


def _clearest(places: Sequence[_Names], distance: Callable[[_Names], float]) -> _Names | None:
    """Return the nearest place; None if it is out of reach or the next one is nearly as near."""
    first, second = sorted(places, key=distance)[:2]
    return first if distance(first) < inf and distance(second) >= _CLEAR * distance(first) else None


def _from_middle(points: dict[str, Point], side: tuple[str, str], at: Point) -> float:
    """Distance of a place from a side; infinite where it is not beside its middle part."""
    a, b = points[side[0]], points[side[1]]
    along = ((at[0] - a[0]) * (b[0] - a[0]) + (at[1] - a[1]) * (b[1] - a[1])) / dist(a, b) ** 2
    aside = _beside(a, b, at)
    return aside if 0.2 <= along <= 0.8 and aside <= max(_LETTER, dist(a, b) / 3) else inf


def _circle(figure: PixelArray, centre: Point, radius: float, lines: Sequence[TextLine]) -> DiagramReading:
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
    turns = [sum(group) / len(group) for group in groups]
    rim = [(centre[0] + radius * cos(radians(turn)), centre[1] + radius * sin(radians(turn))) for turn in turns]
    shown = np.zeros_like(figure)
    middle = (round(centre[0]), round(centre[1]))
    cv2.circle(shown, middle, round(radius), 1, 4 * _BAND)
    for x, y in rim:
        cv2.line(shown, middle, (round(x), round(y)), 1, 2 * _BAND + 1)
    named = None if _stray(figure, shown, radius) else _named([centre, *rim], lines, "OABCDEFGHIJKLMN")
    if named is None:
        return _UNREAD
    points = dict(zip(named, (centre, *rim), strict=True))
    origin, *ends = named
    through = [(a, b) for a, b in combinations(ends, 2) if _opposite(points[a], points[b], centre, radius)]
    chords: tuple[tuple[str, str], ...] = tuple(through) or tuple((origin, name) for name in ends)
    labels = []
    for line in lines:
        measure, at = _measure(line), _centre(line)
        if measure is None or measure[1] or not chords or dist(at, centre) > radius:
            continue
        if measure[0].isalpha() and _is_name(line, points):
            continue
        distances = sorted((_beside(points[a], points[b], at), (a, b)) for a, b in chords)
        if distances[0][0] <= radius / 3 and all(other >= _CLEAR * distances[0][0] for other, _ in distances[1:]):
            labels.append(DiagramLabel(measure[0], distances[0][1]))
    return DiagramReading("circle", points, tuple(labels), chords=chords)


def _is_ray(figure: PixelArray, centre: Point, radius: float, angle: float) -> bool:
    u = cos(radians(angle)), sin(radians(angle))
    steps = np.linspace(0.15, 0.9, 20) * radius
    return all(_inked(figure, centre[0] + step * u[0], centre[1] + step * u[1]) for step in steps)


def _opposite(a: Point, b: Point, centre: Point, radius: float) -> bool:
    return dist(a, b) > 1.96 * radius and dist(_midpoint(a, b), centre) < 0.1 * radius


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
            sides = ",".join(a + b for a, b in ring(names))
            return [f"Shape({sides})"], list(_shape(reading))
        if reading.kind == "unknown":
            return [], []
        centre, *rim = names
        lines = [f"Collinear({a}{centre}{b})" for a, b in reading.chords if a != centre]
        return ([f"Cocircular({centre},{''.join(rim)})", *lines] if rim else []), list(_shape(reading))


def _shape(reading: DiagramReading) -> Iterator[str]:
    names = list(reading.points)
    if reading.kind == "polygon":
        yield f"{_SHAPES[len(names)]}({','.join(names)})"
    elif reading.kind == "circle":
        centre, *rim = names
        yield f"Circle({centre})"
        for name in rim:
            yield f"PointLiesOnCircle({name},Circle({centre}))"
        for a, b in reading.chords:
            if a != centre:
                yield f"PointLiesOnLine({centre},Line({a},{b}))"


def _marks(reading: DiagramReading) -> Iterator[str]:
    for a, corner, b in reading.right_angles:
        yield f"Perpendicular(Line({a},{corner}),Line({corner},{b}))"
    for other in reading.equal_sides[1:]:
        first = reading.equal_sides[0]
        yield f"Equals(LengthOf(Line({','.join(first)})),LengthOf(Line({','.join(other)})))"
    for label in reading.labels:
        kind = "MeasureOf(Angle" if len(label.at) == 3 else "LengthOf(Line"
        yield f"Equals({kind}({','.join(label.at)})),{label.text})"
