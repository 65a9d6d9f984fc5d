"""Tools that measure a part of an image by its pixels: colours, thresholds, outlines, edges, lines, circles, matches.

Coordinates in results are those of the whole named image, whatever part was looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, degrees, hypot
from typing import Annotated, Any, Final, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import Operation, ToolContext, wrong_format
from saccade.tools.definition import (
    BoxField,
    Channel,
    Cost,
    ImageChoice,
    PixelBox,
    RegionField,
    ToolModel,
    UnitsField,
    pixel_box,
    region,
)

PixelArray = NDArray[np.uint8]

MAX_PIXELS: Final = 40_000_000
"""Largest region that is measured: beyond it a call would take seconds and gigabytes."""


class LookArguments(ToolModel):
    """Which part of which image."""

    image: ImageChoice = None
    box: RegionField = None
    units: UnitsField = "pixels"


@dataclass(frozen=True, slots=True)
class Look:
    """A part of an image."""

    image: str
    box: PixelBox
    """Where it is in the image, in pixels."""
    rgb: PixelArray
    """(height, width, 3), RGB."""

    @property
    def grey(self) -> PixelArray:
        """(height, width), luma 0..255."""
        return _uint8(cv2.cvtColor(self.rgb, cv2.COLOR_RGB2GRAY))

    @property
    def area(self) -> int:
        """Number of pixels."""
        return int(self.rgb.shape[0] * self.rgb.shape[1])

    def box_of(self, left: int, top: int, width: int, height: int) -> PixelBox:
        """Return a rectangle of the part as a box of the whole image."""
        x, y = self.box[0] + left, self.box[1] + top
        return x, y, x + width, y + height

    def point_of(self, x: float, y: float) -> tuple[float, float]:
        """Return a point of the part as a point of the whole image, to a hundredth of a pixel."""
        return round(self.box[0] + float(x), 2), round(self.box[1] + float(y), 2)


def look(arguments: LookArguments, context: ToolContext) -> Look:
    """Return the part that `arguments` choose. Raises `CallProblem` if no such image, a box that is not in it, or more
    than `MAX_PIXELS` pixels.
    """
    source = context.image(arguments.image)
    box = region(arguments.box, arguments.units, source.size)
    if (box[2] - box[0]) * (box[3] - box[1]) > MAX_PIXELS:
        raise wrong_format(f"The region has more than {MAX_PIXELS:,} pixels. Choose a smaller box.")
    return Look(source.name, box, _uint8(source.image.crop(box)))


def picture_of(pixels: Any) -> Image.Image:
    """Return an RGB picture of a mask or an RGB array, eight bits a channel."""
    return Image.fromarray(_uint8(pixels)).convert("RGB")


def fraction(mask: PixelArray) -> float:
    """Return the part of the mask that is not zero, 0..1, to six digits."""
    return round(int(np.count_nonzero(mask)) / mask.size, 6)


def _uint8(pixels: Any) -> PixelArray:
    return np.asarray(pixels, dtype=np.uint8)


# Which pixels have a colour, by ranges of hue, saturation and value. Hue is a circle: a range may pass through 0.


Hue = Annotated[float, Field(ge=0, le=360)]
Part = Annotated[float, Field(ge=0, le=1)]
Hsv = tuple[float, float, float]

_EPSILON: Final = 1e-4  # float32 conversion: pure red is not always exactly hue 0


class ColorMaskArguments(LookArguments):
    """Where, and which colours."""

    hue: Annotated[
        tuple[Hue, Hue], Field(description="From, to in degrees: 0 red, 120 green, 240 blue. [350, 10] passes 0.")
    ] = (0.0, 360.0)
    saturation: Annotated[tuple[Part, Part], Field(description="From, to: 0 grey, 1 pure.")] = (0.0, 1.0)
    value: Annotated[tuple[Part, Part], Field(description="From, to: 0 black, 1 bright.")] = (0.0, 1.0)
    min_area: Annotated[int, Field(ge=1, le=10**9, description="Smallest counted part in pixels.")] = 20


class ColorMaskResult(ToolModel):
    """How much of the colour there is, and where."""

    image: str
    pixels: int
    fraction: float
    """Of the region, 0..1."""
    box: PixelBox | None
    """Smallest box around all pixels of the colour, in the whole image; None if there are none."""
    parts: int
    """Connected parts (8 neighbours) of at least `min_area` pixels."""


class ColorMask(Tool[ColorMaskArguments, ColorMaskResult]):
    """Marks the pixels within ranges of hue, saturation and value."""

    name = "color_mask"
    suits = (("counting", 1), ("colours and coloured maps", 1))
    operation = Operation.SEGMENT
    description = (
        "Find the pixels of a colour, given as ranges: hue=[from, to] in degrees, saturation and value in 0..1. Gives "
        "a new image, white where the colour is, with its number of pixels, its fraction, its bounding box and the "
        "number of connected parts."
    )
    arguments = ColorMaskArguments
    result = ColorMaskResult

    def run(self, arguments: ColorMaskArguments, context: ToolContext) -> ToolOutcome[ColorMaskResult]:
        """Compare in HSV with float precision."""
        for name, (low, high) in (("saturation", arguments.saturation), ("value", arguments.value)):
            if low > high:
                raise wrong_format(f"{name} goes from {low:g} down to {high:g}. Put the smaller number first.")
        seen = look(arguments, context)
        mask = _mask(seen.rgb, arguments)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        parts = int(np.count_nonzero(stats[1:, cv2.CC_STAT_AREA] >= arguments.min_area))
        box = seen.box_of(*cv2.boundingRect(mask)) if mask.any() else None
        value = ColorMaskResult(
            image=seen.image, pixels=int(np.count_nonzero(mask)), fraction=fraction(mask), box=box, parts=parts
        )
        return ToolOutcome(value, (("color_mask", picture_of(mask)),))


def _mask(rgb: PixelArray, arguments: ColorMaskArguments) -> PixelArray:
    # Rows at a time: HSV in floats takes twelve bytes a pixel.
    rows = [_rows(rgb[start : start + 512], arguments) for start in range(0, len(rgb), 512)]
    return np.concatenate(rows)


def _rows(rgb: PixelArray, arguments: ColorMaskArguments) -> PixelArray:
    hsv = cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)
    hue, saturation, value = hsv[..., 0], hsv[..., 1], hsv[..., 2]
    above, below = hue >= arguments.hue[0] - _EPSILON, hue <= arguments.hue[1] + _EPSILON
    chosen = above & below if arguments.hue[0] <= arguments.hue[1] else above | below
    for channel, (low, high) in ((saturation, arguments.saturation), (value, arguments.value)):
        chosen &= (channel >= low - _EPSILON) & (channel <= high + _EPSILON)
    return (chosen * 255).astype(np.uint8)


# Mean colour, spread and histogram of a region, RGB 0..255, averaged as stored and not in linear light.


class ColorStatsArguments(LookArguments):
    """Where, and how fine the histogram is."""

    bins: Annotated[int, Field(ge=1, le=64, description="Equal parts of 0..255 in each histogram.")] = 8


class ColorStatsResult(ToolModel):
    """Numbers per channel: red, green, blue."""

    image: str
    box: PixelBox
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    """Standard deviation."""
    histogram: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """Pixels in each bin."""


class ColorStats(Tool[ColorStatsArguments, ColorStatsResult]):
    """Mean colour and histogram."""

    name = "color_stats"
    suits = (("colours and coloured maps", 0),)
    operation = Operation.HISTOGRAM
    description = (
        "Measure the colours of an image or a region of it. Gives mean and standard deviation of red, green and blue "
        "(0..255), and a histogram of each. Use a small box to read the colour of one thing."
    )
    arguments = ColorStatsArguments
    result = ColorStatsResult

    def run(self, arguments: ColorStatsArguments, context: ToolContext) -> ToolOutcome[ColorStatsResult]:
        """Count 256 levels once; everything follows from the counts."""
        seen = look(arguments, context)
        levels = np.arange(256)
        means, deviations, histograms = [], [], []
        for channel in range(3):
            counts = np.bincount(seen.rgb[..., channel].ravel(), minlength=256)
            mean = float((counts * levels).sum() / seen.area)
            means.append(round(mean, 2))
            deviations.append(round(float(np.sqrt((counts * (levels - mean) ** 2).sum() / seen.area)), 2))
            bins = np.bincount(levels * arguments.bins // 256, weights=counts, minlength=arguments.bins)
            histograms.append(tuple(int(count) for count in bins))
        value = ColorStatsResult(
            image=seen.image,
            box=seen.box,
            mean=(means[0], means[1], means[2]),
            deviation=(deviations[0], deviations[1], deviations[2]),
            histogram=(histograms[0], histograms[1], histograms[2]),
        )
        return ToolOutcome(value)


# Black and white by a threshold: a fixed one, Otsu's, or one adapted to the neighbourhood.


Method = Literal["fixed", "otsu", "adaptive"]


class ThresholdArguments(LookArguments):
    """Where, and by which rule."""

    method: Annotated[Method, Field(description="fixed: `level`; otsu: best split; adaptive: local mean.")] = "otsu"
    level: Annotated[Channel | None, Field(description="Brightness above which a pixel is white; for fixed.")] = None
    window: Annotated[int, Field(ge=3, le=255, description="Side of the neighbourhood, odd; for adaptive.")] = 31
    offset: Annotated[float, Field(ge=-255, le=255, description="Subtracted from the local mean; for adaptive.")] = 10.0
    invert: Annotated[bool, Field(description="Swap black and white.")] = False


class ThresholdResult(ToolModel):
    """Areas of the split."""

    image: str
    box: PixelBox
    level: int | None
    """The brightness that splits, 0..255; None for adaptive."""
    white_fraction: float
    """0..1."""


class Threshold(Tool[ThresholdArguments, ThresholdResult]):
    """Black and white by brightness."""

    name = "threshold"
    suits = (("small or hidden things", 4),)
    operation = Operation.SEGMENT
    description = (
        "Turn an image or a region of it into black and white by brightness. The method is a level you give (fixed), "
        "the best level for the region (otsu), or the mean of each pixel's neighbourhood (adaptive, for uneven light). "
        "Gives "
        "a new image, the level and the fraction of white pixels."
    )
    arguments = ThresholdArguments
    result = ThresholdResult

    def run(self, arguments: ThresholdArguments, context: ToolContext) -> ToolOutcome[ThresholdResult]:
        """Threshold the luma."""
        if (arguments.method == "fixed") is (arguments.level is None):
            raise wrong_format('level belongs to method="fixed": give both or neither.')
        if arguments.window % 2 == 0:
            raise wrong_format(f"window must be odd, not {arguments.window}. Use {arguments.window + 1}.")
        seen = look(arguments, context)
        kind = cv2.THRESH_BINARY_INV if arguments.invert else cv2.THRESH_BINARY
        level: int | None = arguments.level
        if arguments.method == "adaptive":
            mean = cv2.ADAPTIVE_THRESH_MEAN_C
            mask = cv2.adaptiveThreshold(seen.grey, 255, mean, kind, arguments.window, arguments.offset)
        else:
            otsu = cv2.THRESH_OTSU if arguments.method == "otsu" else 0
            used, mask = cv2.threshold(seen.grey, level or 0, 255, kind | otsu)
            level = round(used)
        value = ThresholdResult(image=seen.image, box=seen.box, level=level, white_fraction=fraction(mask))  # type: ignore[arg-type]
        return ToolOutcome(value, (("threshold", picture_of(mask)),))


# Outlines of the things that stand out from their background by brightness, with their areas.
#
# Each thing is a connected group of pixels darker or lighter than a level; holes in it are filled. Things that touch
# are one, and texture gives many small ones: it measures clean figures, it does not recognise objects.


class ContoursArguments(LookArguments):
    """Where, and what counts as a thing."""

    things: Annotated[Literal["dark", "light"], Field(description="Are they darker or lighter than the level?")] = (
        "dark"
    )
    level: Annotated[Channel | None, Field(description="Brightness that splits. Default: the best one (otsu).")] = None
    min_area: Annotated[float, Field(ge=0, le=1e9, description="Smallest area in square pixels.")] = 20.0
    limit: Annotated[int, Field(ge=1, le=200, description="How many are listed, largest first.")] = 50


class Contour(ToolModel):
    """One outline; coordinates are those of the whole image."""

    area: float
    """Square pixels inside the outline, which runs through the centres of the border pixels."""
    perimeter: float
    """Pixels."""
    box: PixelBox
    center: tuple[float, float]
    """Centre of the box."""
    corners: int
    """Corners of the outline after straightening by 2 % of its perimeter."""


class ContoursResult(ToolModel):
    """Shapes that were found."""

    image: str
    level: int
    count: int
    """How many things of at least `min_area` there are, listed or not."""
    contours: tuple[Contour, ...]


class Contours(Tool[ContoursArguments, ContoursResult]):
    """Contours with areas."""

    name = "contours"
    suits = (("counting", 0),)
    operation = Operation.DETECT_EDGES
    description = (
        "Outline and list the dark (or light) things, largest first. Gives area, perimeter, bounding box, centre and "
        "number of corners of each, and a new image with the outlines in red. Good for counting and comparing clean "
        "shapes; things that touch count as one."
    )
    arguments = ContoursArguments
    result = ContoursResult

    def run(self, arguments: ContoursArguments, context: ToolContext) -> ToolOutcome[ContoursResult]:
        seen = look(arguments, context)
        kind = cv2.THRESH_BINARY_INV if arguments.things == "dark" else cv2.THRESH_BINARY
        otsu = cv2.THRESH_OTSU if arguments.level is None else 0
        used, mask = cv2.threshold(seen.grey, arguments.level or 0, 255, kind | otsu)
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        kept = [outline for outline in outlines if cv2.contourArea(outline) >= arguments.min_area]
        kept.sort(key=cv2.contourArea, reverse=True)
        drawn = seen.rgb.copy()
        cv2.drawContours(drawn, kept[: arguments.limit], -1, (255, 0, 0), 2)
        listed = tuple(_measured(outline, seen) for outline in kept[: arguments.limit])
        value = ContoursResult(image=seen.image, level=round(used), count=len(kept), contours=listed)
        return ToolOutcome(value, (("contours", picture_of(drawn)),))


def _measured(outline: Any, seen: Look) -> Contour:
    left, top, width, height = cv2.boundingRect(outline)
    perimeter = cv2.arcLength(outline, True)
    return Contour(
        area=round(cv2.contourArea(outline), 1),
        perimeter=round(perimeter, 1),
        box=seen.box_of(left, top, width, height),
        center=seen.point_of(left + width / 2, top + height / 2),
        corners=len(cv2.approxPolyDP(outline, 0.02 * perimeter, True)),
    )


# Edges by Canny. Thresholds are those of the gradient, as OpenCV takes them.


Gradient = Annotated[float, Field(ge=0, le=2000)]


class EdgesArguments(LookArguments):
    """Where, and how strong an edge must be."""

    low: Annotated[Gradient, Field(description="Weakest gradient that continues an edge.")] = 50.0
    high: Annotated[Gradient, Field(description="Weakest gradient that starts an edge; at least `low`.")] = 150.0


class EdgesResult(ToolModel):
    """How much of the region is edge."""

    image: str
    box: PixelBox
    edge_fraction: float
    """0..1."""


class Edges(Tool[EdgesArguments, EdgesResult]):
    """Canny's edge detector."""

    name = "edges"
    suits = (("small or hidden things", 3),)
    operation = Operation.DETECT_EDGES
    description = (
        "Find edges with the Canny detector. Gives a new image, white edges on "
        "black, and the fraction of pixels that are edges. Lower thresholds find weaker edges."
    )
    arguments = EdgesArguments
    result = EdgesResult

    def run(self, arguments: EdgesArguments, context: ToolContext) -> ToolOutcome[EdgesResult]:
        """Run Canny on the luma."""
        if arguments.low > arguments.high:
            raise wrong_format(f"low ({arguments.low:g}) is above high ({arguments.high:g}). Swap them.")
        seen = look(arguments, context)
        mask = cv2.Canny(seen.grey, arguments.low, arguments.high)
        value = EdgesResult(image=seen.image, box=seen.box, edge_fraction=fraction(mask))  # type: ignore[arg-type]
        return ToolOutcome(value, (("edges", picture_of(mask)),))


# Straight line segments and circles by the Hough transform: two tools over one idea.
#
# Both find what votes support, not what is drawn: thick lines may give two segments and texture gives false circles.


_LISTED = 100


class LinesArguments(LookArguments):
    """Where, and what counts as a segment."""

    votes: Annotated[int, Field(ge=5, le=10_000, description="Edge pixels that must support a line.")] = 60
    min_length: Annotated[float, Field(ge=2, le=1e5, description="Shortest segment in pixels.")] = 30.0
    max_gap: Annotated[float, Field(ge=0, le=1e4, description="Largest gap in pixels that is bridged.")] = 5.0


class Segment(ToolModel):
    """One segment, in coordinates of the whole image."""

    start: tuple[float, float]
    end: tuple[float, float]
    length: float
    """Pixels."""
    angle: float
    """Degrees above the horizontal, counter-clockwise as seen: 0 <= angle < 180."""


class LinesResult(ToolModel):
    """Segments, longest first; at most 100 are listed."""

    image: str
    count: int
    lines: tuple[Segment, ...]


class HoughLines(Tool[LinesArguments, LinesResult]):
    """Straight segments by the Hough transform."""

    name = "hough_lines"
    suits = (("lengths, lines and circles", 0),)
    operation = Operation.DETECT_EDGES
    description = (
        "Find and list straight line segments, longest first. Gives both ends, length in pixels and angle in degrees "
        "of each, and a new image with the segments in red."
    )
    arguments = LinesArguments
    result = LinesResult
    cost = Cost.MEDIUM

    def run(self, arguments: LinesArguments, context: ToolContext) -> ToolOutcome[LinesResult]:
        """Run Canny, then the probabilistic transform."""
        seen = look(arguments, context)
        edges = cv2.Canny(seen.grey, 50, 150)
        raw: Any = cv2.HoughLinesP(
            edges, 1, np.pi / 180, arguments.votes, minLineLength=arguments.min_length, maxLineGap=arguments.max_gap
        )
        shapes = [] if raw is None else [tuple(map(int, line)) for line in np.reshape(raw, (-1, 4))]
        shapes.sort(key=lambda line: hypot(line[2] - line[0], line[3] - line[1]), reverse=True)
        drawn = seen.rgb.copy()
        for x1, y1, x2, y2 in shapes[:_LISTED]:
            cv2.line(drawn, (x1, y1), (x2, y2), (255, 0, 0), 2)
        value = LinesResult(
            image=seen.image, count=len(shapes), lines=tuple(_segment(line, seen) for line in shapes[:_LISTED])
        )
        return ToolOutcome(value, (("lines", picture_of(drawn)),))


class CirclesArguments(LookArguments):
    """Where, and which circles."""

    min_radius: Annotated[int, Field(ge=2, le=10_000, description="Pixels.")] = 5
    max_radius: Annotated[int, Field(ge=2, le=10_000, description="Pixels.")] = 200
    min_distance: Annotated[float, Field(ge=1, le=1e5, description="Smallest distance of two centres, pixels.")] = 10.0
    roundness: Annotated[float, Field(ge=0.5, le=1, description="How perfect a circle must be.")] = 0.85


class Circle(ToolModel):
    """One circle, in coordinates of the whole image."""

    center: tuple[float, float]
    radius: float
    """Pixels."""


class CirclesResult(ToolModel):
    """Circles, best supported first; at most 100 are listed."""

    image: str
    count: int
    circles: tuple[Circle, ...]


class HoughCircles(Tool[CirclesArguments, CirclesResult]):
    """Circles by the Hough transform."""

    name = "hough_circles"
    suits = (("counting", 3), ("lengths, lines and circles", 1))
    operation = Operation.DETECT_EDGES
    description = (
        "Find circles of a range of radii and list their centres and radii. All lengths are in pixels. Gives a new "
        "image with the circles in red. A smaller roundness finds more circles, and more false ones."
    )
    arguments = CirclesArguments
    result = CirclesResult
    cost = Cost.MEDIUM

    def run(self, arguments: CirclesArguments, context: ToolContext) -> ToolOutcome[CirclesResult]:
        """Return the gradient transform that scores roundness."""
        low, high = arguments.min_radius, arguments.max_radius
        if low > high:
            raise wrong_format(f"min_radius ({low}) is above max_radius ({high}). Swap them.")
        seen = look(arguments, context)
        # No circle of the region is larger than the region; a larger limit only costs time.
        high = max(low, min(high, max(seen.rgb.shape[:2])))
        raw: Any = cv2.HoughCircles(
            cv2.medianBlur(seen.grey, 3),
            cv2.HOUGH_GRADIENT_ALT,
            1.5,
            arguments.min_distance,
            param1=300,
            param2=arguments.roundness,
            minRadius=low,
            maxRadius=high,
        )
        shapes = (
            [] if raw is None else [tuple(map(float, circle[:3])) for circle in np.reshape(raw, (-1, raw.shape[-1]))]
        )
        drawn = seen.rgb.copy()
        for x, y, radius in shapes[:_LISTED]:
            cv2.circle(drawn, (round(x), round(y)), round(radius), (255, 0, 0), 2)
        circles = tuple(Circle(center=seen.point_of(x, y), radius=round(r, 2)) for x, y, r in shapes[:_LISTED])
        value = CirclesResult(image=seen.image, count=len(shapes), circles=circles)
        return ToolOutcome(value, (("circles", picture_of(drawn)),))


def _segment(line: tuple[int, ...], seen: Look) -> Segment:
    x1, y1, x2, y2 = line
    # y points down in images and up in geometry; a segment has no direction, so 180 degrees are 0.
    angle = round(degrees(atan2(y1 - y2, x2 - x1)) % 180, 2) % 180
    length = round(hypot(x2 - x1, y2 - y1), 2)
    return Segment(start=seen.point_of(x1, y1), end=seen.point_of(x2, y2), length=length, angle=angle)


# Where a small region of one image appears again, by normalised correlation.
#
# Same size and orientation only; brightness and contrast may differ. Overlapping matches are reduced to the best.


_MIN_SIDE: Final = 4
_MIN_DEVIATION: Final = 2.0  # grey levels; below it the correlation is noise divided by noise


class MatchTemplateArguments(LookArguments):
    """Where to look, and for what."""

    template_box: BoxField
    template_image: Annotated[
        ImageChoice, Field(description="Image that `template_box` is cut from. Default: the first image.")
    ] = None
    min_score: Annotated[float, Field(ge=0.1, le=1, description="Smallest correlation of a match.")] = 0.8
    limit: Annotated[int, Field(ge=1, le=100, description="How many matches are listed, best first.")] = 20


class Match(ToolModel):
    """One place, in coordinates of the whole image."""

    box: PixelBox
    score: float
    """Correlation, up to 1."""


class MatchTemplateResult(ToolModel):
    """The places found, best first."""

    image: str
    template: PixelBox
    """The template in pixels of its image."""
    matches: tuple[Match, ...]


class MatchTemplate(Tool[MatchTemplateArguments, MatchTemplateResult]):
    """Finds where a part of a picture occurs again."""

    name = "match_template"
    operation = Operation.COMPARE
    description = (
        "Find where the content of template_box appears again in an image. It is searched for at the same size and "
        "orientation, in the region `box` if one is given; both boxes are in the same units. Lists boxes and scores, "
        "best first; the template itself is among them if it lies in the region searched."
    )
    arguments = MatchTemplateArguments
    result = MatchTemplateResult
    cost = Cost.MEDIUM

    def run(self, arguments: MatchTemplateArguments, context: ToolContext) -> ToolOutcome[MatchTemplateResult]:
        """Correlate the template with the region in grey and return the peaks."""
        seen = look(arguments, context)
        source = context.image(arguments.template_image)
        box = pixel_box(arguments.template_box, arguments.units, source.size, _MIN_SIDE)
        template = np.asarray(source.image.crop(box).convert("L"))
        height, width = template.shape
        if height > seen.rgb.shape[0] or width > seen.rgb.shape[1]:
            raise wrong_format(
                f"The template ({width} × {height}) is larger than the region searched. Choose a smaller template."
            )
        if template.std() < _MIN_DEVIATION:
            raise wrong_format("The template is of one colour, so it matches anything. Choose one with an edge in it.")
        peaks = _peaks(seen.grey, template, arguments)
        matches = tuple(Match(box=seen.box_of(x, y, width, height), score=score) for x, y, score in peaks)
        return ToolOutcome(MatchTemplateResult(image=seen.image, template=box, matches=matches))


def _peaks(grey: PixelArray, template: PixelArray, arguments: MatchTemplateArguments) -> list[tuple[int, int, float]]:
    # From -1 to 1, and 0 where the image is flat.
    scores = np.array(cv2.matchTemplate(grey, template, cv2.TM_CCOEFF_NORMED))
    height, width = template.shape
    peaks: list[tuple[int, int, float]] = []
    while len(peaks) < arguments.limit:
        y, x = np.unravel_index(int(np.argmax(scores)), scores.shape)
        score = float(scores[y, x])
        if score < arguments.min_score:
            break
        peaks.append((int(x), int(y), round(score, 4)))
        top, left = max(0, int(y) - height // 2), max(0, int(x) - width // 2)
        scores[top : int(y) + height // 2 + 1, left : int(x) + width // 2 + 1] = -1
    return sorted(peaks, key=lambda match: (-match[2], match[1], match[0]))
