"""How far two judges agree: raw agreement and Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from saccade.evals.protocols.faithfulness.records import Agreement
from saccade.evals.protocols.findings import Rate


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> Agreement:
    """Verdicts of the model and of the boxes on the same things; pairs with a None are left out.

    Cohen's kappa (1960) is the agreement beyond what two judges with these shares of yes would reach by chance.
    """
    counts = Counter(pair for pair in pairs if None not in pair)
    both, neither = counts[True, True], counts[False, False]
    only_model, only_boxes = counts[True, False], counts[False, True]
    of = both + neither + only_model + only_boxes
    return Agreement(
        both=both,
        only_model=only_model,
        only_boxes=only_boxes,
        neither=neither,
        same=Rate(count=both + neither, of=of),
        kappa=_kappa((both + neither), (both + only_model, both + only_boxes), of),
    )


def _kappa(same: int, yes: tuple[int, int], of: int) -> float | None:
    chance = yes[0] * yes[1] + (of - yes[0]) * (of - yes[1])
    # In whole numbers: 1 - chance is 0 exactly where both judges say one thing alone.
    return (same * of - chance) / (of * of - chance) if of * of > chance else None
