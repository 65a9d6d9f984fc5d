"""Edges by Canny. Thresholds are those of the gradient, as OpenCV takes them."""

from __future__ import annotations

from typing import Annotated

import cv2
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import PixelBox
from saccade.tools.look import LookArguments, fraction, look, picture_of
from saccade.tools.operation import Operation
from saccade.tools.problem import wrong_format

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
        """Canny on the luma."""
        if arguments.low > arguments.high:
            raise wrong_format(f"low ({arguments.low:g}) is above high ({arguments.high:g}). Swap them.")
        seen = look(arguments, context)
        mask = cv2.Canny(seen.grey, arguments.low, arguments.high)
        value = EdgesResult(image=seen.image, box=seen.box, edge_fraction=fraction(mask))  # type: ignore[arg-type]
        return ToolOutcome(value, (("edges", picture_of(mask)),))
