"""What stands in a chart after reading: marks with their values, and entries of the legend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from saccade.tools.fields import PixelBox, Rgb
from saccade.tools.ocr import TextLine

ChartKind = Literal["bar", "line", "pie", "unknown"]


@dataclass(frozen=True, slots=True)
class ChartLegendEntry:
    """A name and the colour that stands before it."""

    text: TextLine
    color: Rgb


@dataclass(frozen=True, slots=True)
class ChartMark:
    """One bar, point or slice."""

    kind: Literal["bar", "point", "slice"]
    box: PixelBox
    color: Rgb
    label: TextLine | None = None
    """The category it stands at."""
    series: ChartLegendEntry | None = None
    value: float | None = None
    """None where no axis could be read and no number is printed at the mark; of a slice its share in percent."""

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def same_colour(a: Rgb, b: Rgb) -> bool:
    """Whether two colours are one to the eye of a reader of charts."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 30
