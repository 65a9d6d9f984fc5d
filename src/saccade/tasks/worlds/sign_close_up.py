"""World `sign-close-up`: a sign of world `visual-search` alone, cut out and enlarged, as a good crop shows it.

For learning to read signs before learning to find them. The same signs, questions and choices; the middle of the sign
lies near the middle of the picture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from PIL import Image
from pydantic import Field

from saccade.record.task import EvidenceBox
from saccade.tasks.worlds.base import Knobs, Sample, World
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.visual_search import VisualSearchKnobs
from saccade.tasks.worlds.visual_search import draw as draw_search

Kind = Literal["letter", "number", "dot"]


class SignCloseUpKnobs(Knobs):
    """What is asked, and how the sign is cut out."""

    kinds: tuple[Kind, ...] = Field(("letter", "number", "dot"), min_length=1)
    window: int = Field(56, ge=40, le=120)
    """Side in pixels of what is cut out; a plate is 24 to 40 pixels wide."""
    side: int = Field(84, ge=28, le=448)
    """Side in pixels of the picture."""
    off_centre: int = Field(6, ge=0, le=20)
    """Pixels by which the sign may lie off the middle of what is cut out, in each direction."""


def draw(rng: Rng, knobs: SignCloseUpKnobs) -> Sample:
    """One sign, cut out of a small scene of signs."""
    scene = VisualSearchKnobs(
        kinds=knobs.kinds, megapixels=(0.02, 0.03), detail=20, signs=3, conjunction=0, clutter=4, grain=0
    )
    sample = draw_search(rng, scene)
    (evidence,) = sample.evidence
    box = evidence.xyxy
    left, top = (
        int(low + high - knobs.window) // 2 + rng.integer(-knobs.off_centre, knobs.off_centre)
        for low, high in ((box[0], box[2]), (box[1], box[3]))
    )
    picture = sample.media["image_0"]
    assert isinstance(picture, Image.Image)
    cut = picture.crop((left, top, left + knobs.window, top + knobs.window))
    factor = knobs.side / knobs.window
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


WORLD = World("sign-close-up@1", "Read a sign that fills the picture.", SignCloseUpKnobs, draw)
