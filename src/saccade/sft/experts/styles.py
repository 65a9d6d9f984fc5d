"""Which styles fit a sample in a dialect, and which one an expert takes."""

from __future__ import annotations

from saccade.sft.experts.consult import strategies_for
from saccade.sft.experts.hand import weighted_index
from saccade.sft.experts.plays import ExpertPart, can_compute, can_crop
from saccade.sft.experts.settings import STYLES, Style
from saccade.sft.experts.slips import possible_slips
from saccade.sft.synth.experts import UnfitSampleError

_SHRUNK = frozenset({"visual-search"})
"""Worlds whose details are lost when a model's input is shrunk."""


def fitting(part: ExpertPart) -> dict[Style, float]:
    """The styles that fit, with their weights.

    Raises:
        UnfitSampleError: none does; names what the dialect lacks.
    """
    scene, weights = part.scene, part.scene.settings.styles
    left = scene.turns
    fits: dict[Style, float] = {}
    if can_crop(part, left):
        fits["crop"] = weights.crop
    if can_compute(part, left):
        fits["compute"] = weights.compute
    if strategies_for(part, left):
        fits["consult"] = weights.consult
    if possible_slips(part, left):
        fits["mistake"] = weights.mistake
    if _plain(part):
        fits["direct"] = weights.direct
    fits = {style: weight for style, weight in fits.items() if weight > 0}
    if not fits:
        raise UnfitSampleError(
            f"no expert can answer {scene.task.id} in dialect {scene.dialect.id}: it "
            + (
                "runs no code, and the evidence cannot be cropped."
                if not part.actions.codes
                else "has no fitting style."
            )
            + " Leave the world out, or change the dialect or the styles' weights."
        )
    return fits


def choose(part: ExpertPart) -> Style:
    """One of the fitting styles, as often as its weight says. Raises as `fitting`."""
    fits = fitting(part)
    weights = tuple(fits.get(style, 0.0) for style in STYLES)
    return STYLES[weighted_index(part.scene, weights)]


def _plain(part: ExpertPart) -> bool:
    scene = part.scene
    pixels = sum(picture.width * picture.height for picture in scene.pictures.values())
    difficulty = scene.task.difficulty
    easy = difficulty is not None and difficulty <= scene.settings.direct_difficulty
    shown = scene.opening.pictures > 0 and scene.world not in _SHRUNK
    return easy and shown and pixels <= scene.settings.direct_pixels
