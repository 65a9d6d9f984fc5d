"""Use tools that measure pixels: colours, shares, and shapes that are counted."""

from __future__ import annotations

import colorsys
from collections.abc import Generator
from typing import Final

from pydantic import JsonValue

from saccade.sft.experts.plays import ExpertPart, Move
from saccade.sft.experts.seen import Seen
from saccade.sft.experts.tool_ways import (
    Consulted,
    Consulting,
    ToolStrategy,
    inside,
    is_world,
    named_picture,
    result_of,
    use,
)
from saccade.tasks.worlds.canvas import COLOURS, Colour

_CORNERS: Final = {3: "triangle", 4: "square", 5: "pentagon"}
_PAPER: Final = 245
"""A level of brightness below white paper and above every ink."""
_ODDS: Final = 0.02
"""By how much of a channel's range hue, saturation and value may differ from a colour that is looked for."""


def _value(part: ExpertPart) -> Consulting:
    mean = yield from _mean(part, 0, "consult")
    return Consulted(", ".join(str(round(channel)) for channel in mean), 1)


def _same(part: ExpertPart) -> Consulting:
    first = yield from _mean(part, 0, "consult")
    second = yield from _mean(part, 1, "then")
    return Consulted("yes" if first == second else "no", 2)


def _mean(part: ExpertPart, number: int, occasion: str) -> Generator[Move, Seen, list[float]]:
    name, box, _ = part.scene.evidence[number]
    arguments: dict[str, JsonValue] = {"image": part.scene.shown_as[name], "box": inside(part, box, 5, 7)}
    seen = yield from use(part, "color_stats", arguments, occasion)
    return [float(channel) for channel in result_of(seen)["mean"]]


def _share(part: ExpertPart) -> Consulting:
    asked = next(name for name in COLOURS if f" is {name}?" in part.scene.task.question)
    seen = yield from use(part, "color_mask", {**named_picture(part), **colour_range(COLOURS[asked])})
    return Consulted(str(round(100 * result_of(seen)["fraction"])), 1)


def _shapes(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "contours", {**named_picture(part), "level": _PAPER})
    asked = next(name for name in ("circle", *_CORNERS.values()) if f"{name}s" in part.scene.task.question)
    found = [_CORNERS.get(item["corners"], "circle") for item in result_of(seen)["contours"]]
    return Consulted(str(found.count(asked)), 1)


def _contact(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "contours", {**named_picture(part), "level": _PAPER, "limit": 2})
    return Consulted("yes" if result_of(seen)["count"] == 1 else "no", 1)


def colour_range(colour: Colour, turn: float = 360 * _ODDS) -> dict[str, JsonValue]:
    """The arguments of `color_mask` that mean this colour and little beside it; `turn` is in degrees of hue."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in colour))
    low, high = (round((360 * hue + sign * turn) % 360, 1) for sign in (-1, 1))
    made: dict[str, JsonValue] = {"hue": [low, high]}
    for name, middle in (("saturation", saturation), ("value", value)):
        made[name] = [round(max(0.0, middle - _ODDS), 3), round(min(1.0, middle + _ODDS), 3)]
    return made


STRATEGIES: Final = (
    ToolStrategy("the colour of a patch", ("color_stats",), is_world("pixel-colour", kinds=("value",)), _value),
    ToolStrategy("two colours", ("color_stats", "color_stats"), is_world("pixel-colour", kinds=("same",)), _same),
    ToolStrategy("the share of a colour", ("color_mask",), is_world("pixel-colour", kinds=("share",)), _share),
    ToolStrategy("outlines and their corners", ("contours",), is_world("shape-count", kinds=("scatter",)), _shapes),
    ToolStrategy("one outline or two", ("contours",), is_world("touching-circles"), _contact),
)
