"""Turn an image by any angle. Direction and whether the canvas grows are stated by the call, never guessed."""

from __future__ import annotations

from typing import Annotated, Literal

from PIL import Image
from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Alias, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import ColorField, ImageChoice
from saccade.tools.operation import Operation

Direction = Literal["counterclockwise", "clockwise"]


class RotateArguments(ToolModel):
    """Which image, how far and which way."""

    angle: Annotated[float, Field(ge=-360, le=360, description="Degrees.")]
    image: ImageChoice = None
    direction: Annotated[Direction, Field(description="Which way a positive angle turns.")] = "counterclockwise"
    expand: Annotated[bool, Field(description="Grow the canvas so that no corner is lost.")] = True
    fill: ColorField = (0, 0, 0)


class RotateResult(ToolModel):
    """What was turned."""

    image: str
    angle: float
    """Degrees counter-clockwise, -360..360."""
    size: tuple[int, int]
    """Width and height of the new image."""


class Rotate(Tool[RotateArguments, RotateResult]):
    """Turns a picture by an angle."""

    name = "rotate"
    suits = (("tables, forms and other print", 2),)
    operation = Operation.ROTATE
    description = (
        "Turn an image by an angle in degrees. Positive angles turn counterclockwise "
        'unless direction="clockwise". With expand the canvas grows so that nothing is lost; without it the size stays '
        "and corners are cut."
    )
    arguments = RotateArguments
    result = RotateResult
    aliases = (
        Alias("image_rotate_tool", given={"direction": "counterclockwise", "expand": False}, ignored=("label",)),
    )

    def run(self, arguments: RotateArguments, context: ToolContext) -> ToolOutcome[RotateResult]:
        """Rotate about the centre; quarter turns with `expand` lose no pixel."""
        source = context.image(arguments.image)
        angle = arguments.angle if arguments.direction == "counterclockwise" else -arguments.angle
        turned = source.image.rotate(
            angle, resample=Image.Resampling.BICUBIC, expand=arguments.expand, fillcolor=arguments.fill
        )
        value = RotateResult(image=source.name, angle=angle, size=turned.size)
        return ToolOutcome(value, (("rotated", turned),), f"Turned {source.name} by {angle:g}° counterclockwise.")
