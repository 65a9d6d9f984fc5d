"""Prices as they are shown."""

from __future__ import annotations

import pytest

from saccade.evals.rows import dollars_text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(0, "$0.00"), (0.00012, "$0.0001"), (0.5, "$0.5000"), (0.9999, "$0.9999"), (1, "$1.00"), (1234.567, "$1,234.57")],
)
def test_small_prices_have_more_digits(dollars: float, text: str) -> None:
    assert dollars_text(dollars) == text
