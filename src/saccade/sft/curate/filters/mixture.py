"""A mixture of categories in exact proportions, drawn without repetition by a seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from saccade.errors import SettingsError
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.categories import CategoryRule, categories
from saccade.sft.curate.filters.split import unit_hash
from saccade.sft.curate.stage import KEEP, DatasetStage, Drop, FilterContext, FilterOutcome, FilterSettings, FilterStage

Note = tuple[str, str | None]
"""Id of a trajectory, and its category among those that have a weight."""


class Mixture(FilterSettings):
    """Draws the largest set in which categories stand in the proportions of their weights.

    Nothing is repeated, so the scarcest category, or the tightest cap, decides how large the set is. Which ones of a
    category are drawn depends on ids and seed alone. A trajectory of no category with a weight is left out; one with
    several tags that have weights counts for the first of them in the table.
    """

    ABOUT_TASKS = True

    weights: dict[str, NonNegativeFloat]
    """Category -> weight; they need not sum to 1."""
    by: CategoryRule = "source"
    caps: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Category -> most trajectories of it."""
    size: PositiveInt | None = None
    """Most trajectories in all."""
    seed: int = 0

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if sum(self.weights.values()) <= 0:
            raise ValueError("weights needs a category with a weight above 0")
        unknown = sorted(self.caps.keys() - self.weights.keys())
        if unknown:
            raise ValueError(f"caps names categories without a weight: {', '.join(unknown)}")
        return self

    def start(self, around: FilterContext) -> FilterStage:
        """The stage; it raises `SettingsError` if a category that has a weight is empty."""
        return DatasetStage(self._note, self._choose)

    def _note(self, trajectory: Trajectory) -> Note:
        own = categories(trajectory, self.by)
        return trajectory.id, next((name for name in self.weights if name in own), None)

    def _choose(self, notes: Sequence[Note]) -> Sequence[FilterOutcome]:
        there = Counter(category for _, category in notes if category is not None)
        room = {name: min(there[name], self.caps.get(name, there[name])) for name in self.weights}
        missing = [name for name, weight in self.weights.items() if weight > 0 and not room[name]]
        if missing:
            raise SettingsError(
                f"the mixture gives weight to {', '.join(missing)}, of which there is nothing left to draw. "
                "Give them weight 0, or look into the report of the filters before it."
            )
        quota = quotas(self.weights, room, self.size)
        by_category: defaultdict[str, list[str]] = defaultdict(list)
        for id_, category in notes:
            if category is not None:
                by_category[category].append(id_)
        drawn = {
            id_
            for category, ids in by_category.items()
            for id_ in sorted(ids, key=lambda id_: (unit_hash(self.seed, id_), id_))[: quota[category]]
        }
        return [self._outcome(note, drawn) for note in notes]

    def _outcome(self, note: Note, drawn: set[str]) -> FilterOutcome:
        id_, category = note
        if id_ in drawn:
            return KEEP
        return Drop("category has no weight") if category is None else Drop(f"{category}: not drawn")


def quotas(weights: Mapping[str, float], room: Mapping[str, int], size: int | None) -> dict[str, int]:
    """How many of each category: the largest total whose rounded shares all have room.

    Shares are rounded by largest remainders (ties by the order of `weights`), so they sum to the total exactly.
    """
    weight_sum = sum(weights.values())
    shares = {name: weight / weight_sum for name, weight in weights.items()}
    # A share is rounded up by less than 1, so no larger total can fit.
    bound = min(int((room[name] + 1) / share) for name, share in shares.items() if share > 0)
    total = min(bound, sum(room.values()), bound if size is None else size)
    while total > 0:
        counts = _rounded(shares, total)
        if all(counts[name] <= room[name] for name in shares):
            return counts
        total -= 1
    return dict.fromkeys(weights, 0)


def _rounded(shares: Mapping[str, float], total: int) -> dict[str, int]:
    counts = {name: int(share * total) for name, share in shares.items()}
    remainders = sorted(shares, key=lambda name: counts[name] - shares[name] * total)
    for name in remainders[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
