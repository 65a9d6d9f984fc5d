"""Use tools that measure and read coloured maps, lit solids and rows of small pictures."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, Final

from pydantic import JsonValue

from saccade.sft.experts.plays import ExpertPart, Move
from saccade.sft.experts.seen import Seen
from saccade.sft.experts.tool_ways import Consulted, Consulting, ToolStrategy, is_world, named_picture, result_of, use
from saccade.sft.experts.ways_colours import colour_range
from saccade.tasks.worlds.canvas import COLOURS, Colour

_SWATCHES: Final = 200
"""Pixels at the right of a map that the legend takes."""
_TURN: Final = 8
"""Degrees of hue by which the shades of a solid may differ."""
_STRONG: Final = 0.3
"""Saturation above that of floors and papers."""


def _legend(part: ExpertPart) -> list[tuple[Colour, str]]:
    """Colour and text of each class, lightest first, as the expert sees them in the picture."""
    rows = (line.split(" ", 3) for line in part.scene.notes["legend"].splitlines())
    return [((int(red), int(green), int(blue)), text) for red, green, blue, text in rows]


def _region(part: ExpertPart, number: int, occasion: str) -> Generator[Move, Seen, int]:
    """The class of a region, by the mean colour of a strip beside its name."""
    name, (x0, y0, _, y1), _ = part.scene.evidence[number]
    strip: list[JsonValue] = [x0 + 1, y0 + 2, x0 + 9, y1 - 2]
    seen = yield from use(part, "color_stats", {"image": part.scene.shown_as[name], "box": strip, "bins": 1}, occasion)
    mean = result_of(seen)["mean"]
    legend = _legend(part)
    return min(
        range(len(legend)), key=lambda place: sum(abs(a - b) for a, b in zip(legend[place][0], mean, strict=True))
    )


def _class(part: ExpertPart) -> Consulting:
    found = yield from _region(part, 0, "consult")
    return Consulted(_legend(part)[found][1], 1)


def _higher(part: ExpertPart) -> Consulting:
    first = yield from _region(part, 0, "consult")
    second = yield from _region(part, 1, "then")
    return Consulted("yes" if first > second else "no", 2)


def _regions(part: ExpertPart) -> Consulting:
    colour = next(colour for colour, text in _legend(part) if part.scene.task.question.endswith(f"range {text}?"))
    seen = yield from use(part, "color_mask", {**named_picture(part), **colour_range(colour), "min_area": 300})
    return Consulted(str(result_of(seen)["parts"] - 1), 1)  # the legend's own patch


def _highest(part: ExpertPart) -> Consulting:
    name, picture = next(iter(part.scene.pictures.items()))
    land: list[JsonValue] = [0, 0, picture.width - _SWATCHES, picture.height]
    where: dict[str, JsonValue] = {"image": part.scene.shown_as[name]}
    seen = yield from use(part, "color_mask", {**where, "box": land, **colour_range(_legend(part)[-1][0])})
    box = result_of(seen)["box"]
    if box is None:
        return Consulted(None, 1)
    read = yield from use(part, "ocr", {**where, "box": box}, "then")
    return Consulted(str(result_of(read)["text"]).strip(), 2)


def _solids(part: ExpertPart) -> Consulting:
    return Consulted(str((yield from _parts(part, _asked_colour(part), "consult"))), 1)


def _left(part: ExpertPart) -> Consulting:
    everything = yield from _parts(part, None, "consult")
    taken = yield from _parts(part, _asked_colour(part), "then")
    return Consulted(str(everything - taken), 2)


def _asked_colour(part: ExpertPart) -> Colour:
    return next(colour for name, colour in COLOURS.items() if f" {name} things" in part.scene.task.question)


def _parts(part: ExpertPart, colour: Colour | None, occasion: str) -> Generator[Move, Seen, int]:
    """How many things have the hue of a colour, or any hue at all."""
    hue = {} if colour is None else {"hue": colour_range(colour, _TURN)["hue"]}
    arguments: dict[str, JsonValue] = {**named_picture(part), **hue, "saturation": [_STRONG, 1.0], "min_area": 100}
    seen = yield from use(part, "color_mask", arguments, occasion)
    return int(result_of(seen)["parts"])


def _pictures(part: ExpertPart) -> Consulting:
    return (yield from _counted(part, 1))


def _two_rows(part: ExpertPart) -> Consulting:
    return (yield from _counted(part, 2))


def _counted(part: ExpertPart, rows: int) -> Consulting:
    """What a picture stands for is read, and the pictures of one row or of two are counted."""
    read = yield from use(part, "ocr", {**named_picture(part), "min_confidence": 0.3})
    worth = re.search(r"=\s*(\d+)", str(result_of(read)["text"]))
    if worth is None:
        return Consulted(None, 1)
    counts = []
    for name, box, _ in part.scene.evidence[:rows]:
        where: dict[str, Any] = {"image": part.scene.shown_as[name], "box": list(box)}
        seen = yield from use(part, "color_mask", {**where, "saturation": [_STRONG, 1.0], "min_area": 60}, "then")
        counts.append(int(result_of(seen)["parts"]))
    count = counts[0] if rows == 1 else abs(counts[0] - counts[1])
    return Consulted(str(int(worth[1]) * count), 1 + rows)


def _mapped(*kinds: str) -> Any:
    fits = is_world("region-map", kinds=kinds)
    return lambda part: fits(part) and "legend" in part.scene.notes


STRATEGIES: Final = (
    ToolStrategy("the class of a region", ("color_stats",), _mapped("class"), _class),
    ToolStrategy("the classes of two regions", ("color_stats", "color_stats"), _mapped("higher"), _higher),
    ToolStrategy("regions of a class", ("color_mask",), _mapped("count"), _regions),
    ToolStrategy("the region of a class", ("color_mask", "ocr"), _mapped("highest"), _highest),
    ToolStrategy("solids of a colour", ("color_mask",), is_world("solid-scene", kinds=("count",)), _solids),
    ToolStrategy(
        "solids of other colours", ("color_mask", "color_mask"), is_world("solid-scene", kinds=("left",)), _left
    ),
    ToolStrategy("a row of pictures", ("ocr", "color_mask"), is_world("pictograph", kinds=("value",)), _pictures),
    ToolStrategy(
        "two rows of pictures",
        ("ocr", "color_mask", "color_mask"),
        is_world("pictograph", kinds=("difference",)),
        _two_rows,
    ),
)
