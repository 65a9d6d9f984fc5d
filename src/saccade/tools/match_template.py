"""Where a small region of one image appears again, by normalised correlation.

Same size and orientation only; brightness and contrast may differ. Overlapping matches are reduced to the best.
"""

from __future__ import annotations

from typing import Annotated, Final

import cv2
import numpy as np
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Cost, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import BoxField, ImageChoice, PixelBox, pixel_box
from saccade.tools.look import LookArguments, PixelArray, look
from saccade.tools.operation import Operation
from saccade.tools.problem import wrong_format

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
        """Correlate in grey, take peaks."""
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
