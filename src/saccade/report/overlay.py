"""What is drawn over the pictures of a question: a numbered box for each region that a turn looked at, and evidence.

Large boxes lie below small ones, and numbers avoid each other as far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from saccade.looks.regions import Region
from saccade.looks.views import Xyxy
from saccade.record.box import area
from saccade.record.content import MediaPart
from saccade.record.task import EvidenceBox

_TAG: Final = 30
"""A number is this many times smaller than the longer side of its picture."""

COLOURS: Final = 8
"""Colours that turns take in their order, and then again."""


@dataclass(frozen=True, slots=True)
class Box:
    """A region drawn over a picture."""

    number: str
    """Text at it: the number of the turn, or `E` for evidence."""
    colour: str
    """Name of the class that colours it."""
    edges: Xyxy
    """Pixels of the picture."""
    tag: Xyxy
    """Place of the number, in pixels of the picture."""
    place: str
    """Size and corner in words."""
    title: str
    """How it is known, or what evidence it is."""
    turn: int | None
    """From 1; None for evidence."""


def colour(number: int) -> str:
    """Return the class that colours turn `number`, from 1."""
    return f"hue{(number - 1) % COLOURS}"


def legend(drawn: Iterable[Box]) -> list[Box]:
    """Return the boxes in the order of their turns, evidence last."""
    return sorted(drawn, key=lambda box: (box.turn is None, box.turn or 0))


def boxes(part: MediaPart, regions: list[Region], evidence: list[EvidenceBox]) -> tuple[Box, ...]:
    """The boxes over one picture, in the order in which they are drawn."""
    height = max(part.width, part.height) / _TAG
    wanted = [(region.box, str(region.turn + 1), region.turn + 1, _how(region)) for region in regions]
    marks: list[tuple[Xyxy, str, int | None, str]] = [(item.xyxy, "E", None, _evidence(item)) for item in evidence]
    marks += wanted
    marks.sort(key=lambda mark: -area(mark[0]))
    tags: list[Xyxy] = []
    drawn = []
    for box, number, turn, title in marks:
        tag = _tag(box, (height * (0.55 * len(number) + 0.55), height), (part.width, part.height), tags)
        tags.append(tag)
        hue = "evidence" if turn is None else colour(turn)
        drawn.append(Box(number, hue, box, tag, _place(box), title, turn))
    return tuple(drawn)


def _tag(box: Xyxy, size: tuple[float, float], room: tuple[int, int], taken: list[Xyxy]) -> Xyxy:
    """Where the number stands: at a corner of the box, inside the picture, over no other number if that can be had."""
    width, height = size
    left, top, right, bottom = box
    corners = (
        (left, top - height),
        (right - width, top - height),
        (left, bottom),
        (right - width, bottom),
        (left - width, top),
        (right, top),
        (left, top),
    )
    places = [(min(max(x, 0.0), room[0] - width), min(max(y, 0.0), room[1] - height)) for x, y in corners]
    tags = [(x, y, x + width, y + height) for x, y in places]
    return next((tag for tag in tags if not any(_meet(tag, other) for other in taken)), tags[0])


def _meet(one: Xyxy, other: Xyxy) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _place(box: Xyxy) -> str:
    left, top, right, bottom = box
    return f"{right - left:g}×{bottom - top:g} at {left:g}, {top:g}"


def _how(region: Region) -> str:
    if region.seen:
        return "asked for, confirmed by pixels" if region.said else "found by its pixels"
    return "asked for"


def _evidence(item: EvidenceBox) -> str:
    return f"evidence: {item.label}" if item.label else "evidence"
