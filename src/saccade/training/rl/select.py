"""Select the rollouts of a step that are trained on, and compute their advantages.

Rules are pure: the same groups in the same order give the same selection, ties keep that order, rollouts of two groups
are never mixed, and one that is lost or has no reward is always dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveInt, SerializeAsAny, model_validator

from saccade.core.registry import Registry, all_of, is_a, is_subclass
from saccade.core.seam import has_methods
from saccade.core.settings import Settings
from saccade.record.trajectory import Broken
from saccade.training.rl.rollout import (
    Array,
    DropReason,
    Rollout,
    RolloutGroup,
    Rule,
    as_returns,
    batch_normalised,
    leave_one_out,
    mean_baseline,
    named,
    standardised,
)

if TYPE_CHECKING:
    from torch import Tensor


TOLERANCE: Final = 1e-6
"""Spread of rewards up to which a group has none: equal sums of parts differ by rounding."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The decision of a rule: every group that it was given, with the dropped rollouts marked."""

    groups: tuple[RolloutGroup, ...] = ()
    """Best first where the rule ranks, else in the given order."""

    def __len__(self) -> int:
        """Return how many rollouts enter the loss."""
        return len(self.rollouts)

    @property
    def kept(self) -> tuple[RolloutGroup, ...]:
        """The groups of which something is trained on. A baseline may be that of the whole group."""
        return tuple(group for group in self.groups if group.kept)

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """Those that enter the loss."""
        return tuple(item for group in self.groups for item in group.kept)

    @property
    def dropped(self) -> tuple[Rollout, ...]:
        """Those that do not."""
        return tuple(item for group in self.groups for item in group.rollouts if item.dropped is not None)

    def reasons(self) -> dict[DropReason, int]:
        """Count the dropped rollouts by reason."""
        counts = Counter(item.dropped for item in self.dropped)
        return {reason: counts[reason] for reason in DropReason if reason in counts}


class SelectionRule(Rule):
    """Base of all rules that select: settings, called with groups of rollouts."""

    @abstractmethod
    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Select the rollouts that are trained on. Raises `ValueError` if two groups share an id."""


SELECTIONS: Final = Registry[type[SelectionRule]](
    "selections",
    {
        "none@1": f"{__name__}:KeepAll",
        "pass-rate@1": f"{__name__}:PassRateBand",
        "oversample-filter-rank@1": f"{__name__}:OversampleFilterRank",
        "oversample-filter-rank-repo@1": f"{__name__}:RepoRank",
        "dynamic-sampling@1": f"{__name__}:DynamicSampling",
    },
    all_of(is_subclass(SelectionRule, f"a subclass of {__name__}.SelectionRule"), has_methods(SelectionRule)),
)
"""Other packages add rules by the entry point group `saccade.selections`."""

NamedSelection = Annotated[SerializeAsAny[SelectionRule], BeforeValidator(named(SELECTIONS, "none"))]
"""A rule as a recipe holds it: a table that names it."""


def keep_usable(groups: Sequence[RolloutGroup]) -> Selection:
    """Keep every usable rollout of every group. Raises `ValueError`: two groups share an id, or two rollouts do."""
    if len({group.id for group in groups}) < len(groups):
        raise ValueError("two groups share an id; put rollouts of one task into one group")
    ids = [item.id for group in groups for item in group.rollouts]
    if len(set(ids)) < len(ids):
        raise ValueError("two rollouts of different groups share an id; ids must be unique in a step")
    return keep_rollouts(Selection(tuple(groups)), DropReason.UNUSABLE, lambda rollout: rollout.usable)


def keep_rollouts(selection: Selection, reason: DropReason, keep: Callable[[Rollout], bool]) -> Selection:
    """Drop the rollouts for which `keep` is false; a group that loses all of them is gone."""
    return Selection(tuple(group.dropping(reason, lambda one: not keep(one)) for group in selection.groups))


def keep_groups(selection: Selection, reason: DropReason, keep: Callable[[RolloutGroup], bool]) -> Selection:
    """Drop the groups for which `keep` is false; it is not called for one that is gone already."""
    return Selection(
        tuple(
            group if not group.kept or keep(group) else group.dropping(reason, lambda _: True)
            for group in selection.groups
        )
    )


def best(selection: Selection, groups: int) -> Selection:
    """Keep the first `groups` groups; the others are ranked out."""
    first = {group.id for group in selection.kept[:groups]}
    return keep_groups(selection, DropReason.RANKED_OUT, lambda group: group.id in first)


class Band(Settings):
    """Pass rates from `lowest` to `highest`, both included: a curriculum keeps the tasks inside."""

    lowest: Annotated[float, Field(ge=0, le=1)] = 0.0
    highest: Annotated[float, Field(ge=0, le=1)] = 1.0
    fewest: PositiveInt = 1
    """Usable rollouts that a task needs, so that its rate says something."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self


TAIL_PATCH: Final = Band(lowest=0.125, highest=0.375)
"""VISTA-R1: hard but learnable, one to three of eight rollouts right."""


def pass_rates(groups: Iterable[RolloutGroup]) -> dict[str, tuple[float, int]]:
    """Return the share of right rollouts and the number of usable ones of each group that has any."""
    counted = ((group.id, group.pass_rate, len(group.usable)) for group in groups)
    return {name: (rate, usable) for name, rate, usable in counted if rate is not None}


def in_band(rates: Mapping[str, tuple[float, int]], band: Band) -> tuple[str, ...]:
    """Return the tasks whose pass rate is in the band, in the order of `rates`."""
    return tuple(
        name for name, (rate, usable) in rates.items() if usable >= band.fewest and band.lowest <= rate <= band.highest
    )


def epoch_order(tasks: Iterable[str], seed: int, epoch: int) -> tuple[str, ...]:
    """Shuffle the tasks for an epoch; depends only on the seed, the epoch and the tasks."""
    names = sorted(tasks)
    return tuple(names[index] for index in np.random.default_rng([seed, epoch]).permutation(len(names)))


class OversampleFilterRank(SelectionRule):
    """PyVision-RL's algorithm 1: groups with spread that are not broken, the largest spread first.

    More tasks are rolled out than a step needs; whole groups stay or go, ranked stably.
    """

    rule: Literal["oversample-filter-rank"] = "oversample-filter-rank"
    groups: PositiveInt = 16
    """Groups of a step; as many again are rolled out at an oversampling of 2."""
    broken: Literal["group", "rollout"] = "rollout"
    """`group`: a group goes if all its rollouts are broken (Algorithm 1). `rollout`: each broken one goes too, as
    section 3.3 says."""
    tolerance: NonNegativeFloat = TOLERANCE
    fewest: PositiveInt = 2
    """Rollouts that a group needs to stay."""
    rank: bool = True
    """False: the first groups that pass the filters, which is the paper's ablation."""

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Keep at most `groups` groups, largest spread first."""
        chosen = keep_usable(groups)
        chosen = keep_groups(chosen, DropReason.ALL_BROKEN, lambda item: any(not one.broken for one in item.kept))
        if self.broken == "rollout":
            chosen = keep_rollouts(chosen, DropReason.BROKEN, lambda one: not one.broken)
        chosen = keep_groups(chosen, DropReason.TOO_FEW, lambda item: len(item.kept) >= self.fewest)
        chosen = keep_groups(chosen, DropReason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        if self.rank:
            chosen = Selection(tuple(sorted(chosen.groups, key=lambda item: item.spread, reverse=True)))
        return best(chosen, self.groups)


class RepoRank(SelectionRule):
    """PyVision-RL's released code: filters look at single rollouts, and only a surplus is ranked.

    The cut may split a group; its advantage takes the baseline from the full group, dropped rollouts included.
    """

    rule: Literal["oversample-filter-rank-repo"] = "oversample-filter-rank-repo"
    rollouts: PositiveInt = 512
    """Rollouts of a step: groups times rollouts of a group."""
    forbidden: tuple[Broken, ...] = (Broken.OVER_LENGTH, Broken.OVER_IMAGES)
    """Reasons to drop a rollout; errors and time-outs are trained on there, as rollouts without reward."""
    need_pictures: bool = True
    """Whether a rollout whose calls gave no picture goes, a right one too."""
    tolerance: NonNegativeFloat = TOLERANCE

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Keep at most `rollouts` rollouts; ranked by the spread of their group only if there are more."""
        chosen = keep_usable(groups)
        chosen = keep_groups(chosen, DropReason.NO_SPREAD, lambda item: item.spread > self.tolerance)
        spreads = {group.id: group.spread for group in chosen.groups}
        if self.need_pictures:
            chosen = keep_rollouts(chosen, DropReason.NO_PICTURES, lambda one: one.pictures > 0)
        chosen = keep_rollouts(chosen, DropReason.BROKEN, lambda one: one.broken.isdisjoint(self.forbidden))
        if len(chosen) <= self.rollouts:
            return chosen
        ranked = Selection(tuple(sorted(chosen.groups, key=lambda group: spreads[group.id], reverse=True)))
        place = count()
        return keep_rollouts(ranked, DropReason.RANKED_OUT, lambda _: next(place) < self.rollouts)


Share = Annotated[float, Field(ge=0, le=1)]


class KeepAll(SelectionRule):
    """Every usable rollout of every group, as VISTA-R1 trains: uniform groups too."""

    rule: Literal["none"] = "none"

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Return everything but lost rollouts and those without a reward."""
        return keep_usable(groups)


class PassRateBand(SelectionRule):
    """Groups whose share of right rollouts is in a band, both ends included."""

    rule: Literal["pass-rate"] = "pass-rate"
    lowest: Share = 0.0
    highest: Share = 1.0
    fewest: PositiveInt = 2
    """Rollouts that a group needs to stay."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Return groups inside the band, in the given order."""
        chosen = keep_groups(keep_usable(groups), DropReason.TOO_FEW, lambda item: len(item.kept) >= self.fewest)
        chosen = keep_groups(chosen, DropReason.TOO_HARD, lambda item: _rate(item) >= self.lowest)
        return keep_groups(chosen, DropReason.TOO_EASY, lambda item: _rate(item) <= self.highest)


class DynamicSampling(SelectionRule):
    """The first groups that hold right and wrong rollouts, in the given order (DAPO): others teach nothing."""

    rule: Literal["dynamic-sampling"] = "dynamic-sampling"
    groups: PositiveInt = 64
    """Groups of a step."""
    by: Literal["accuracy", "reward"] = "accuracy"
    """Quantity that must differ inside a group."""
    tolerance: NonNegativeFloat = TOLERANCE

    def __call__(self, groups: Sequence[RolloutGroup]) -> Selection:
        """Keep at most `groups` groups; nothing is ranked."""
        return best(keep_groups(keep_usable(groups), DropReason.NO_SPREAD, self._differs), self.groups)

    def _differs(self, item: RolloutGroup) -> bool:
        if self.by == "reward":
            return item.spread > self.tolerance
        return len({rollout.right for rollout in item.kept}) > 1


def _rate(item: RolloutGroup) -> float:
    return sum(rollout.right for rollout in item.kept) / len(item.kept)


# Advantage rules with their parameters, over a selection, and estimators of the KL divergence, as a recipe names them.
# The baseline is that of the rollouts that are trained on (`kept`), or of all usable ones of their group, dropped ones
# included (`group`, as in PyVision-RL's code).


LARGEST_LOG_RATIO = 20.0
"""Nats; larger ones would overflow in half precision."""


@dataclass(frozen=True, slots=True)
class KlEstimator:
    """An estimator of the divergence of the policy from a reference: `loss.kl = "k3"` names one.

    A function of `d = reference - logprob` of the sampled ids, in nats (Schulman, "Approximating KL Divergence").
    """

    description: str
    """Description in `saccade list kl-estimators`."""
    of: Callable[[Tensor], Tensor]
    """From d to the distance, both (rows, tokens)."""
    verl: str = ""
    """Its name among verl's `kl_loss_type`; empty where verl has none such."""

    def __call__(self, logprobs: Tensor, reference: Tensor) -> Tensor:
        """Estimate the distance of each token, (rows, tokens). Gradients flow through `logprobs`."""
        return self.of((reference.detach() - logprobs).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


K1: Final = KlEstimator("-d: unbiased, of large variance, and negative for half of the tokens.", lambda d: -d, "kl")
K2: Final = KlEstimator(
    "d²/2: biased, of small variance, with the gradient of the divergence.", lambda d: d * d / 2, "mse"
)
K3: Final = KlEstimator(
    "exp(d) - d - 1: unbiased, of small variance, and never negative.", lambda d: d.exp() - d - 1.0, "low_var_kl"
)
ABS: Final = KlEstimator("|d|: biased, with a gradient of the same size for each token.", lambda d: d.abs(), "abs")

KL_ESTIMATORS: Final = Registry[KlEstimator](
    "kl-estimators",
    {
        "k1@1": f"{__name__}:K1",
        "k2@1": f"{__name__}:K2",
        "k3@1": f"{__name__}:K3",
        "abs@1": f"{__name__}:ABS",
    },
    is_a(KlEstimator, f"a {__name__}.KlEstimator"),
)
"""Other packages add estimators by the entry point group `saccade.kl-estimators`."""

Estimate: TypeAlias = Callable[[Array, NDArray[np.int64]], Array]
Baseline = Literal["kept", "group"]


class AdvantageRule(Rule):
    """Base of all advantage rules: settings, called with a selection."""

    @abstractmethod
    def __call__(self, selection: Selection) -> list[Rollout]:
        """Return each kept rollout with its advantage (`Rollout.with_advantage`), in the selection's order."""


class Grpo(AdvantageRule):
    """GRPO: the reward minus the group's mean, divided by its standard deviation unless that is turned off."""

    rule: Literal["grpo"] = "grpo"
    divide_by_std: bool = True
    """False: PyVision-RL, Dr. GRPO and TAPO (CodeV)."""
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        return _with_advantages(selection, standardised if self.divide_by_std else mean_baseline, self.baseline)


class Rloo(AdvantageRule):
    """REINFORCE with the mean of the other rollouts as the baseline."""

    rule: Literal["rloo"] = "rloo"
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        return _with_advantages(selection, leave_one_out, self.baseline)


class TurnLevel(AdvantageRule):
    """CodeDance: GRPO on the sequence, and a term for each turn that is normalised over the batch."""

    rule: Literal["turn-level"] = "turn-level"
    weight: NonNegativeFloat = 0.2
    part: str = "returns"
    """Name of the reward's part of the turns."""
    divide_by_std: bool = True
    baseline: Baseline = "kept"

    def __call__(self, selection: Selection) -> list[Rollout]:
        """Return each kept rollout with its advantage. Raises KeyError for a missing part."""
        estimate = standardised if self.divide_by_std else mean_baseline
        compared = _compared(selection, estimate, self.baseline)
        terms = batch_normalised([as_returns(item.reward.turn_part(self.part)) for item, _ in compared])
        return [
            item.with_advantage(sequence, self.weight * term)
            for (item, sequence), term in zip(compared, terms, strict=True)
        ]


ADVANTAGES: Final = Registry[type[AdvantageRule]](
    "advantages",
    {
        "grpo@1": f"{__name__}:Grpo",
        "rloo@1": f"{__name__}:Rloo",
        "turn-level@1": f"{__name__}:TurnLevel",
    },
    all_of(is_subclass(AdvantageRule, f"a subclass of {__name__}.AdvantageRule"), has_methods(AdvantageRule)),
)
"""Other packages add rules by the entry point group `saccade.advantages`."""

NamedAdvantage = Annotated[SerializeAsAny[AdvantageRule], BeforeValidator(named(ADVANTAGES, "grpo"))]
"""A rule as a recipe holds it: a table that names it."""


def _with_advantages(selection: Selection, estimate: Estimate, baseline: Baseline) -> list[Rollout]:
    return [item.with_advantage(sequence) for item, sequence in _compared(selection, estimate, baseline)]


def _compared(selection: Selection, estimate: Estimate, baseline: Baseline) -> list[tuple[Rollout, float]]:
    """Return every kept rollout with its estimate against its group."""
    compared: list[tuple[Rollout, float]] = []
    for group in selection.kept:
        members = group.kept if baseline == "kept" else group.usable
        rewards = np.array([item.reward.total for item in members], np.float64)
        values = estimate(rewards, np.zeros(len(members), np.int64))
        pairs = zip(members, values, strict=True)
        compared += [(item, float(value)) for item, value in pairs if item.dropped is None]
    return compared
