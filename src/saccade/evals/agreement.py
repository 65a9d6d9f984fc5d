"""How far two judges of the same things agree: the four counts, raw agreement, and Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts of a rule and of a judge; what only one of them has a verdict on is left out."""

    both: int
    """Right for both."""
    only_rule: int
    """Right for the rule, wrong for the judge."""
    only_judge: int
    neither: int
    raw: float
    """Share of the same verdicts."""
    kappa: float | None
    """Cohen's kappa; None where chance alone gives full agreement."""


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> Agreement | None:
    """The agreement over pairs of a rule's and a judge's verdict; None without a pair of two."""
    counts = Counter(pair for pair in pairs if None not in pair)
    of = counts.total()
    if not of:
        return None
    both, neither = counts[True, True], counts[False, False]
    only_rule, only_judge = counts[True, False], counts[False, True]
    return Agreement(
        both,
        only_rule,
        only_judge,
        neither,
        raw=(both + neither) / of,
        kappa=kappa(both + neither, (both + only_rule, both + only_judge), of),
    )


def kappa(same: int, yes: tuple[int, int], of: int) -> float | None:
    """Cohen's kappa (1960): agreement beyond what two judges with these counts of `yes` would reach by chance.

    None where chance alone gives full agreement: each says one thing only, and both the same.
    """
    chance = yes[0] * yes[1] + (of - yes[0]) * (of - yes[1])
    # In whole numbers: 1 - chance is 0 exactly where both judges say one thing alone.
    return (same * of - chance) / (of * of - chance) if of * of > chance else None
