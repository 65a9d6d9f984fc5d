"""What the samples of a run cost: tokens and dollars, each with how many samples it is known of.

Dollars come from the table of prices that held when a turn was made. Calls that failed and were tried again, samples
that came to nothing and a judge's calls are in no number here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from saccade.evals.rows import EvalRow


@dataclass(frozen=True, slots=True)
class Known:
    """A sum over the samples of which the number is known."""

    amount: float
    samples: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What some samples cost."""

    samples: int
    read: Known
    """Tokens that the model read in all turns together, again and again."""
    written: Known
    """Tokens that the model wrote."""
    dollars: Known


def spent(rows: Sequence[EvalRow]) -> Spent:
    """What `rows` cost."""
    return Spent(
        samples=len(rows),
        read=_known(row.read_tokens for row in rows),
        written=_known(row.sampled_tokens for row in rows),
        dollars=_known(row.dollars for row in rows),
    )


def spent_text(totals: Spent) -> list[str]:
    """Lines for a terminal; none where nothing is known."""
    lines = []
    if totals.read.samples or totals.written.samples:
        read, written = (f"{known.amount:,.0f}{_of(known, totals)}" for known in (totals.read, totals.written))
        lines.append(f"tokens: {read} read in all turns, {written} written")
    if totals.dollars.samples:
        lines.append(f"cost: {dollars_text(totals.dollars.amount)}{_of(totals.dollars, totals)}")
    elif lines:
        lines.append("cost: unknown, for the model is not in the table of prices")
    return lines


def dollars_text(dollars: float) -> str:
    """A price, small ones with more digits."""
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def _known(values: Iterable[float | None]) -> Known:
    known = [value for value in values if value is not None]
    return Known(fsum(known), len(known))


def _of(known: Known, overall: Spent) -> str:
    """Says of how many samples it is known, where it is not known of all."""
    return "" if known.samples == overall.samples else f" (known of {known.samples:,} of {overall.samples:,} samples)"
