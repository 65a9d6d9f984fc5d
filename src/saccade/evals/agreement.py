"""How far two judges of the same things agree: the four counts, raw agreement, and Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class ContingencyTable(NamedTuple):
    """How often two judges say yes and no to the same things."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def of(self) -> int:
        """Things that both judged."""
        return sum(self)

    @property
    def same(self) -> int:
        """Things on which both say the same."""
        return self.both + self.neither

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa (1960): agreement beyond what two judges with these counts of yes would reach by chance.

        None where chance alone gives full agreement: each says one thing only, and both the same.
        """
        first, second = self.both + self.only_first, self.both + self.only_second
        chance = first * second + (self.of - first) * (self.of - second)
        # In whole numbers: 1 - chance is 0 exactly where both judges say one thing alone.
        return (self.same * self.of - chance) / (self.of**2 - chance) if self.of**2 > chance else None


def table(pairs: Iterable[tuple[bool | None, bool | None]]) -> ContingencyTable:
    """The counts over pairs of a first and a second judge's verdict; what only one of them judged is left out."""
    counts = Counter(pair for pair in pairs if None not in pair)
    return ContingencyTable(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


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
    counts = table(pairs)
    return Agreement(*counts, raw=counts.same / counts.of, kappa=counts.kappa) if counts.of else None
