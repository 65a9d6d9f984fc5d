"""In which numbers a model writes boxes and points, and the same in pixels of the pictures that its calls are about.

A picture may be shown smaller than it is. What a checkpoint learned decides what its numbers count, so it is a setting
of the dialect (or of the run) and never guessed. The mapping is exact: edges that were shown are edges of the picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from saccade.record.content import ImagePart, ToolCall


class BoxSpace(StrEnum):
    """What the numbers of boxes and points count."""

    FULL = "full"
    """Pixels of the picture itself."""
    SHOWN = "shown"
    """Pixels of the picture as it was shown (DeepEyes, Thyme, Qwen2.5-VL)."""
    THOUSAND = "thousand"
    """0 to 1000 along each side (Qwen3-VL, InternVL)."""


BOXES: Final = ("box", "bbox", "bbox_2d", "boxes")
"""Arguments that are boxes, by the names that tools and published prompts have for them."""
IMAGES: Final = ("image", "target_image", "image_id", "image_index")
"""Arguments that name the picture."""
_POINTS: Final = ("at", "start", "end", "point", "points")
_TEMPLATE: Final = ("template_box", "template_image")

SENTENCES: Final = {
    BoxSpace.FULL: "Boxes and points in calls count in pixels of the full-size picture.",
    BoxSpace.SHOWN: "Boxes and points in calls count in pixels of the picture as it is shown.",
    BoxSpace.THOUSAND: "Boxes and points in calls count from 0 to 1000 along each side of the picture.",
}
"""What a model is told."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A picture, and as what it was shown."""

    full: ImagePart
    shown: ImagePart

    def scale(self, space: BoxSpace) -> tuple[float, float, float, float]:
        """Return numerators and denominators (width, height, width, height) of the mapping to pixels of `full`."""
        if space is BoxSpace.THOUSAND:
            return self.full.width, self.full.height, 1000, 1000
        if space is BoxSpace.SHOWN:
            return self.full.width, self.full.height, self.shown.width, self.shown.height
        return 1, 1, 1, 1


def in_pixels(call: ToolCall, space: BoxSpace, pictures: Mapping[str, Seen]) -> ToolCall:
    """Return `call` with its boxes and points in pixels of the pictures that it names.

    Args:
        call: as the model wrote it. One that counts in fractions (`units="normalized"`) is given back as it is, and so
            is one whose picture is not known: the tool refuses it.
        space: what its numbers count.
        pictures: by the names that calls know, oldest first; without a name the first one is meant, and a number counts
            from 1.
    """
    if space is BoxSpace.FULL or call.arguments.get("units") == "normalized" or call.name.endswith("_normalized"):
        return call
    key = next((key for key in IMAGES if key in call.arguments), "")
    seen = _named(call.arguments.get(key), pictures)
    template = _named(call.arguments.get(_TEMPLATE[1]), pictures) if _TEMPLATE[1] in call.arguments else seen
    mapped = {
        name: _mapped(name, value, template if name == _TEMPLATE[0] else seen, space)
        for name, value in call.arguments.items()
    }
    return call if mapped == call.arguments else call.model_copy(update={"arguments": mapped})


def _named(which: object, pictures: Mapping[str, Seen]) -> Seen | None:
    if which is None:
        return next(iter(pictures.values()), None)
    if isinstance(which, int) and not isinstance(which, bool):
        return [*pictures.values()][which - 1] if 1 <= which <= len(pictures) else None
    return pictures.get(which) if isinstance(which, str) else None


def _mapped(name: str, value: Any, seen: Seen | None, space: BoxSpace) -> Any:
    if seen is None:
        return value
    if name in (*BOXES, *_POINTS, _TEMPLATE[0]):
        return _scaled(value, seen.scale(space))
    if isinstance(value, list | tuple):  # shapes to draw
        return [
            {key: _mapped(key, item, seen, space) for key, item in one.items()} if isinstance(one, dict) else one
            for one in value
        ]
    return value


def _scaled(value: Any, scale: tuple[float, float, float, float]) -> Any:
    """Return boxes and points, or lists of them, mapped; anything else as it is."""
    if not isinstance(value, list | tuple):
        return value
    if len(value) in (2, 4) and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
        across, down, wide, high = scale
        return [_fit(item * (down if at % 2 else across) / (high if at % 2 else wide)) for at, item in enumerate(value)]
    return [_scaled(item, scale) for item in value]


def _fit(number: float) -> float | int:
    """Keep whole numbers as such: an edge that is one is not moved by the last bit of a division."""
    whole = round(number)
    return whole if abs(number - whole) < 1e-6 else number
