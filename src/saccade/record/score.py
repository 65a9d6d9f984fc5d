"""Scores and rewards as named parts: each kept, none summed away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import FiniteFloat

from saccade.record.base import Name, Record, Text

CORRECT: Final = "correct"
"""Name of the score that says how right the answer is, from 0 to 1, whoever graded it; `detail` says how."""


class Score(Record):
    """One named part of a score.

    `value` is None until it was computed, so "not scored" differs from zero.
    """

    name: Name
    value: FiniteFloat | None = None
    weight: FiniteFloat = 1.0
    """Factor of the part in the sum; 0 for a part that is only observed."""
    detail: Text = ""
    """Why the value is what it is, for a person."""


def total(scores: Iterable[Score]) -> float | None:
    """Weighted sum of the parts; None while a part with a weight other than 0 has no value."""
    amount = 0.0
    for score in scores:
        if score.weight == 0:
            continue
        if score.value is None:
            return None
        amount += score.weight * score.value
    return amount
