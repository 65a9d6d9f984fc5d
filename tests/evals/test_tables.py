"""The tables that a terminal shows, to the letter, from rows made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from saccade.evals.intervals import Interval
from saccade.evals.metrics import compare
from saccade.evals.rows import dollars_text
from saccade.evals.stored import Listed, runs_text
from saccade.evals.summary import comparison_text, summarise, summary_text

from .rows import row

GOLDEN = Path(__file__).parent / "golden"
MIXED = [
    row("a", 1.0, 0, source="x", tags=("easy",), turns=1, sampled_tokens=10),
    row("a", 0.0, 1, source="x", tags=("easy",), turns=3, calls=2, sampled_tokens=30),
    row("b", 0.0, 0, source="y", tags=("hard",), stop="context_limit", answer=None, turns=0, calls=0),
    row("b", 0.5, 1, source="y", tags=("hard",), sampled_tokens=20),
    row("c", None, 0, source="y"),
]
LISTED = Listed(
    path=Path("runs/one"),
    name="one",
    model="tiny",
    dialect="codev",
    sources=("vstar", "mine"),
    k=2,
    samples=1200,
    failed=0,
    right=0.5,
    interval=Interval(0.25, 0.75),
    dollars=0.75,
    priced=1200,
    changed=datetime(2025, 3, 4, 5, 6, tzinfo=UTC),
    complete=True,
)
TEXTS = {
    "mixed": summary_text(summarise(MIXED, k=2, missing=3, broken_rows=4)),
    "full": summary_text(summarise([row("a", 0.0, stop="context_limit", answer=None, turns=0, calls=0)])),
    "one": summary_text(summarise([row(f"t{number}", float(number % 2)) for number in range(12)])),
    "compared": comparison_text(
        compare(
            [row("a", 1.0), row("b", 1.0), row("c", 0.0), row("d", 1.0), row("e", 1.0), row("only", 1.0)],
            [row("a", 1.0), row("b", 0.0), row("c", 1.0), row("d", 0.0), row("e", 0.0), row("x", 1.0), row("y", 0.0)],
        ),
        "A",
        "B",
    ),
    "runs": runs_text(
        [
            LISTED,
            replace(LISTED, name="two", samples=3, failed=2, right=None, interval=None, priced=1, complete=False),
            replace(LISTED, name="three", dollars=None, priced=0, problem="line 2 is none"),
        ]
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_to_the_letter(name: str) -> None:
    assert TEXTS[name] + "\n" == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(0, "$0.00"), (0.00012, "$0.0001"), (0.5, "$0.5000"), (0.9999, "$0.9999"), (1, "$1.00"), (1234.567, "$1,234.57")],
)
def test_small_prices_have_more_digits(dollars: float, text: str) -> None:
    assert dollars_text(dollars) == text
