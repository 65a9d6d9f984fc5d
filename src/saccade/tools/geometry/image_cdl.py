"""`image_cdl` and `construction_cdl`: what a clean diagram states, in CDL and as logic forms, by rules.

What VISTA calls by these names is a trained parser, DiagramFormalizer, which is the tool `diagram_formalizer`; these
two read only what `saccade.tools.geometry.diagram` knows, and say so otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from PIL import Image

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Cost, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import Point
from saccade.tools.geometry.cdl import as_cdl
from saccade.tools.geometry.diagram import DiagramReading, read_diagram
from saccade.tools.look import LookArguments, look
from saccade.tools.ocr import Ocr, OcrArguments

_LEAST_CONFIDENCE = 0.2
_UNKNOWN = "No polygon or circle that stands alone was found; crop one figure out, or describe it yourself."
_SHAPES = {3: "Triangle", 4: "Quadrilateral", 5: "Pentagon", 6: "Hexagon", 7: "Heptagon", 8: "Octagon"}


class DiagramCdlResult(ToolModel):
    """What was read."""

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
        """CDL and logic forms."""

    def run(self, arguments: LookArguments, context: ToolContext) -> ToolOutcome[DiagramCdlResult]:
        """OCR, the outline, its marks."""
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
