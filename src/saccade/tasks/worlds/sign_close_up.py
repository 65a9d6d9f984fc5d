"""World `sign-close-up`: a sign of world `visual-search` alone, cut out and enlarged, as a good crop shows it.

For learning to read signs before learning to find them. The same signs, questions and choices; the middle of the sign
lies near the middle of the picture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from PIL import Image
from pydantic import Field

from saccade.record.task import EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.visual_search import VisualSearchKnobs
from saccade.tasks.worlds.visual_search import draw as draw_search

Kind = Literal["letter", "number", "dot"]
WindowPixels = Annotated[int, Field(ge=12, le=120)]


class SignCloseUpKnobs(Knobs):
    """What is asked, and how the sign is cut out."""

    kinds: tuple[Kind, ...] = Field(("letter", "number", "dot"), min_length=1)
    window: tuple[WindowPixels, WindowPixels] = (56, 56)
    """Least and greatest side in pixels of what is cut out; a letter is 9 pixels high."""
    sharpness: int = Field(1, ge=1, le=6)
    """How many times larger all of that is drawn before it is cut out."""
    side: int = Field(84, ge=28, le=448)
    """Side in pixels of the picture."""
    off_centre: int = Field(6, ge=0, le=20)
    """Pixels by which the sign may lie off the middle of what is cut out, in each direction."""
    plate_percent: int = Field(260, ge=220, le=400)
    """As in world `visual-search`."""
    dot_percent: int = Field(40, ge=30, le=110)
    """As in world `visual-search`."""


def draw(rng: Rng, knobs: SignCloseUpKnobs) -> WorldSample:
    """One sign, cut out of a small scene of signs."""
    sample = draw_search(rng, _scene(knobs))
    (evidence,) = sample.evidence
    box = evidence.xyxy
    off = [knobs.sharpness * rng.integer(-knobs.off_centre, knobs.off_centre) for _ in range(2)]
    window = knobs.sharpness * rng.integer(*knobs.window)
    left, top = (int(box[axis] + box[axis + 2] - window) // 2 + off[axis] for axis in (0, 1))
    picture = sample.media["image_0"]
    assert isinstance(picture, Image.Image)
    cut = picture.crop((left, top, left + window, top + window))
    factor = knobs.side / window
    shown = [round((value - start) * factor) for value, start in zip(box, (left, top, left, top), strict=True)]
    inside = [min(max(value, 0), knobs.side) for value in shown]
    where = EvidenceBox(image="image_0", xyxy=(inside[0], inside[1], inside[2], inside[3]), label=evidence.label)
    return replace(
        sample,
        media={"image_0": cut.resize((knobs.side, knobs.side), Image.Resampling.BICUBIC)},
        evidence=(where,),
        difficulty=0.2,
        tags=(sample.tags[0], "close-up"),
    )


def _scene(knobs: SignCloseUpKnobs) -> VisualSearchKnobs:
    larger = knobs.sharpness**2
    return VisualSearchKnobs(
        kinds=knobs.kinds,
        megapixels=(0.02 * larger, 0.03 * larger),
        detail=60,
        plate_percent=knobs.plate_percent,
        dot_percent=knobs.dot_percent,
        signs=3,
        conjunction=0,
        clutter=4,
        grain=0,
    )


WORLD = World("sign-close-up@1", "Read a sign that fills the picture.", SignCloseUpKnobs, draw)
