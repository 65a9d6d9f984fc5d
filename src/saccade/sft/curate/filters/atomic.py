"""CodeDance's atomic categories of code, as tags: transform the picture, compute, edit (draw on it)."""

from __future__ import annotations

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage, Keep, each
from saccade.sft.synth.atomic import atomic_categories, labelled
from saccade.sft.synth.settings import AtomicCategory


class Atomic(FilterSettings):
    """Tags every trajectory with the categories of its code (`atomic:transform`, ...), told by what the code calls.

    With `keep`, those that ran code of none of the categories named are left out; so are then direct answers.
    """

    keep: tuple[AtomicCategory, ...] = ()

    def start(self, around: FilterContext) -> FilterStage:
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        categories = atomic_categories(trajectory)
        if self.keep and not set(categories) & set(self.keep):
            return Drop("code of another category", ", ".join(categories) or "none")
        return Keep(labelled(trajectory))
