"""Examples for the live page, one of each family of PyVision: drawn on the spot, the same on every machine.

Five come from generated worlds, on seeds of the test split; the scan is drawn here. None shows anything real.
"""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from saccade.errors import RegistryError, UnavailableError
from saccade.tasks.worlds.base import Clip, draw_sample
from saccade.tasks.worlds.registry import load_world

_THUMBNAIL: Final = 320
"""Longest side in pixels."""
_SCAN: Final = 448
"""Side of the scan in pixels."""


@dataclass(frozen=True, slots=True)
class ExampleMedium:
    """A picture or video as it is sent."""

    data: bytes
    mime: str
    thumbnail: Image.Image


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its media."""

    question: str
    media: tuple[ExampleMedium, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _World:
    name: str
    seed: int
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Example:
        world = load_world(self.name)
        sample = draw_sample(world, "test", self.seed, world.knobs.model_validate(self.knobs))
        return Example(sample.question, tuple(map(_medium, sample.media.values())), sample.choices)


_SIGNS: Final = {"kinds": ("dot",), "megapixels": (1.0, 1.4), "detail": 24, "dot_percent": 100, "plate_percent": 220}
_EASY: Final = {"signs": 7, "conjunction": 0, "clutter": 20, "grain": 0}


def _scan() -> Example:
    """A slice of a head that nobody has: ovals of nearly one grey, and in it a spot that is hardly brighter."""
    draw = ImageDraw.Draw(picture := Image.new("L", (_SCAN, _SCAN), 12))
    for inset, grey in ((26, 150), (44, 30), (52, 96)):
        draw.ellipse((inset + 24, inset, _SCAN - inset - 24, _SCAN - inset), fill=grey)
    for left, top, right, bottom, grey in (
        (172, 150, 214, 262, 84),
        (234, 150, 276, 262, 84),
        (196, 290, 252, 330, 88),
    ):
        draw.ellipse((left, top, right, bottom), fill=grey)
    draw.ellipse((282, 268, 320, 302), fill=103)
    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(3)), np.float64)
    pixels += np.random.default_rng(31).normal(0, 2.5, pixels.shape)
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert("RGB")
    question = (
        "This drawn scan has hardly any contrast. In which quarter of it is a spot that is brighter than the rest?"
    )
    return Example(question, (_medium(picture),), ("top left", "top right", "bottom left", "bottom right"))


@dataclass(frozen=True, slots=True)
class _Entry:
    family: str
    draw: Callable[[], Example]
    tiny: bool = True
    """Whether the bundled model learned this kind of question."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    """By model, where the example needs another than the model's usual one."""


_EXAMPLES: Final[Mapping[str, _Entry]] = {
    "search": _Entry("Visual search", _World("visual-search", 60002, {**_SIGNS, **_EASY})),
    "medical": _Entry("Medical", _scan, tiny=False),
    "puzzle": _Entry("Puzzle", _World("path-follow", 60003)),
    "sketch": _Entry("Sketch", _World("geometry", 60002)),
    "difference": _Entry("Spot the difference", _World("spot-difference", 60003)),
    "video": _Entry("Video", _World("video-events", 60001), dialects={"tiny": "tiny:video"}),
}


def examples() -> list[dict[str, Any]]:
    """All of them as JSON: `name`, `family`, `tiny`, `dialects`, `question`, `choices`, `media` (types), `thumbnail`.

    One that cannot be drawn here, since a package or its world is missing, has `name`, `family` and `problem`.
    """
    return [_listed(name, entry) for name, entry in _EXAMPLES.items()]


def example_medium(name: str, number: int) -> ExampleMedium | None:
    """Medium `number` of an example; None if there is none. Raises `UnavailableError` if it cannot be drawn here."""
    media = _drawn(name).media if name in _EXAMPLES else ()
    return media[number] if 0 <= number < len(media) else None


def _listed(name: str, entry: _Entry) -> dict[str, Any]:
    try:
        drawn = _drawn(name)
    except (RegistryError, UnavailableError) as error:
        return {"name": name, "family": entry.family, "problem": str(error)}
    return {
        "name": name,
        "family": entry.family,
        "tiny": entry.tiny,
        "dialects": entry.dialects,
        "question": drawn.question,
        "choices": drawn.choices,
        "media": [medium.mime for medium in drawn.media],
        "thumbnail": _data_url(drawn.media),
    }


@cache
def _drawn(name: str) -> Example:
    return _EXAMPLES[name].draw()


def _medium(medium: Image.Image | Clip) -> ExampleMedium:
    if isinstance(medium, Clip):
        return ExampleMedium(medium.data, medium.mime, _middle_frame(medium))
    out = io.BytesIO()
    medium.save(out, "PNG")
    small = medium.convert("RGB")
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return ExampleMedium(out.getvalue(), "image/png", small)


def _middle_frame(clip: Clip) -> Image.Image:
    from saccade.media.video import Uniform, sample_frames

    with tempfile.TemporaryDirectory(prefix="saccade-example-") as folder:
        (path := Path(folder, "clip")).write_bytes(clip.data)
        return sample_frames(path, Uniform(3))[1].image


def _data_url(media: tuple[ExampleMedium, ...]) -> str:
    """The pictures side by side."""
    width = sum(medium.thumbnail.width for medium in media) + 6 * (len(media) - 1)
    sheet = Image.new("RGB", (width, max(medium.thumbnail.height for medium in media)), "white")
    left = 0
    for medium in media:
        sheet.paste(medium.thumbnail, (left, 0))
        left += medium.thumbnail.width + 6
    out = io.BytesIO()
    sheet.save(out, "WEBP", quality=82)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
