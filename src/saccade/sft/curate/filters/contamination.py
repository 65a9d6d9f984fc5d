"""Trajectories whose pictures or questions are in a test set that will be measured on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat

from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.fingerprint import BITS, Fingerprints, NearIndex, fingerprint
from saccade.sft.curate.held_out import HeldOut
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    each,
    task_pictures,
)
from saccade.sft.curate.wording import normal_text


class Contamination(FilterSettings):
    """Leaves out trajectories with a picture (or question) that is in one of the named test sets.

    Every picture counts: those of the task, and any other that the prompt shows. Videos are not compared.
    """

    ABOUT_TASKS = True

    sets: tuple[HeldOut, ...] = Field(min_length=1)
    match: Literal["pictures", "both", "either"] = "pictures"
    """A near picture; a near picture with the same question; or one of the two. Questions of some sets are the same
    for all their pictures, so that a question alone says little."""
    bits: int = Field(default=10, ge=0, lt=BITS)
    """Bits of 256 in which the hashes of near pictures may differ."""
    color: NonNegativeFloat = 8.0
    """Mean difference of colour, of 255, that near pictures may have."""

    def start(self, around: FilterContext) -> FilterStage:
        """The stage, which has read all test sets. Raises `SettingsError` for one that cannot be read."""
        pictures = NearIndex(self.bits, self.color)
        questions: dict[str, set[str]] = {}
        pairs: set[tuple[str, str]] = set()
        for chosen in self.sets:
            for item in chosen.items():
                words = normal_text(item.question)
                if words:
                    questions.setdefault(words, set()).add(item.name)
                pairs.add((item.name, words))
                for image in item.pictures:
                    pictures.add(fingerprint(image), item.name)

        prints = Fingerprints(around.media)

        def decide(trajectory: Trajectory) -> FilterOutcome:
            words = normal_text(trajectory.task.question)
            shown = {part.sha256: part for part in task_pictures(trajectory)}
            shown |= {part.sha256: part for part in _prompt_pictures(trajectory)}
            near = [name for part in shown.values() for name in pictures.near(prints.of(part))]
            if self.match == "both":
                near = [name for name in near if (name, words) in pairs]
            if near:
                return Drop(f"picture of {_set(near[0])}", near[0])
            if self.match == "either" and words in questions:
                name = min(questions[words])
                return Drop(f"question of {_set(name)}", name)
            return KEEP

        return each(decide)


def _prompt_pictures(trajectory: Trajectory) -> tuple[ImagePart, ...]:
    parts = (part for message in trajectory.prompt for part in message.media)
    return tuple(part for part in parts if isinstance(part, ImagePart))


def _set(name: str) -> str:
    return name.partition("/")[0]
