"""Intervals and paired tests against numbers worked by hand, published ones and brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.evals.intervals import (
    BOOTSTRAP,
    NEWCOMBE,
    WILSON,
    bootstrap,
    mcnemar,
    newcombe,
    of_difference,
    of_mean,
    permutation,
    wilson,
)
from saccade.evals.protocols.base import Rates, SampleRow


@pytest.mark.parametrize(
    ("right", "count", "ends"),
    [
        # All right: (1 + z²/2n - z²/2n) / (1 + z²/n) = 1 / (1 + 3.8415/12) = 0.7575.
        (12, 12, (0.7575, 1.0)),
        (0, 12, (0.0, 0.2425)),
        # Half: 0.5 ± z sqrt(0.25/12 + 3.8415/576) / (1 + 0.3201) = 0.5 ± 0.2462.
        (6, 12, (0.2538, 0.7462)),
        # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I: 81 of 263, 15 of 148, 1 of 29.
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_wilson(right: int, count: int, ends: tuple[float, float]) -> None:
    assert wilson(right, count) == pytest.approx(ends, abs=6e-5)


@pytest.mark.parametrize(("right", "count"), [(1, 0), (3, 2), (-1, 2)])
def test_wilson_of_nonsense_raises(right: int, count: int) -> None:
    with pytest.raises(ValueError, match="out of"):
        wilson(right, count)


@pytest.mark.parametrize(
    ("table", "ends"),
    [
        # Fagerland et al. 2014, hyper-responsiveness of 21 children: 1, 1, 7, 12.
        ((1, 1, 7, 12), (-0.507, -0.026)),
        # Correlation (8 * 9 - 2 * 1 - 20 / 2) / sqrt(10 * 10 * 9 * 11) = 0.603; Wilson 0.2993 to 0.7007 and 0.2582 to
        # 0.6579: 0.05 - sqrt(0.2007^2 - 2 * 0.603 * 0.2007 * 0.2079 + 0.2079^2), 0.05 + the same with 0.1918.
        ((8, 2, 1, 9), (-0.1322, 0.2250)),
        # One run all right, the other all wrong: 1 - sqrt(2) * 0.2425 = 0.657.
        ((0, 12, 0, 0), (0.657, 1.0)),
        # Both all right: 0 ± 0.2425, not 0 to 0.
        ((12, 0, 0, 0), (-0.2425, 0.2425)),
    ],
)
def test_newcombe(table: tuple[int, int, int, int], ends: tuple[float, float]) -> None:
    assert newcombe(table) == pytest.approx(ends, abs=6e-4)
    both, first, second, neither = table
    low, high = newcombe((both, second, first, neither))
    assert (-high, -low) == pytest.approx(ends, abs=6e-4)


def test_newcombe_of_nothing_raises() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        newcombe((0, 0, 0, 0))


def test_the_bootstrap_is_seeded_and_finds_the_known_interval() -> None:
    values = [1.0] * 80 + [0.0] * 20
    low, high = bootstrap(values)
    assert (low, high) == bootstrap(values) != bootstrap(values, seed=1)
    # A normal approximation: 0.8 +- 1.96 * sqrt(0.8 * 0.2 / 100).
    assert low == pytest.approx(0.8 - 0.0784, abs=0.015)
    assert high == pytest.approx(0.8 + 0.0784, abs=0.015)
    # 0.75^12 = 0.032 of the draws have no hit, (4/7)^7 = 0.020 have hits alone.
    assert bootstrap([1.0] * 3 + [0.0] * 9).low == 0.0
    assert bootstrap([1.0] * 4 + [0.0] * 3).high == pytest.approx(6 / 7)
    with pytest.raises(ValueError, match="no values"):
        bootstrap([])


def test_which_interval_a_mean_has() -> None:
    assert of_mean([1.0, 0.0]) == (wilson(1, 2), WILSON)
    assert of_mean([1.0, 0.5, 0.0]) == (bootstrap([1.0, 0.5, 0.0]), BOOTSTRAP)
    # Every task right in three of four samples: the widest that values from 0 to 1 can be.
    assert of_mean([0.75] * 8) == (wilson(6, 8), WILSON)
    with pytest.raises(ValueError, match="no values"):
        of_mean([])


def test_which_interval_a_difference_has() -> None:
    assert of_difference([1.0, 0.0, 1.0], [0.0, 0.0, 1.0]) == (newcombe((1, 1, 0, 1)), NEWCOMBE)
    assert of_difference([1.0, 0.5], [0.5, 0.5]) == (bootstrap([0.5, 0.0]), BOOTSTRAP)
    low, high = of_difference([0.5] * 6, [0.5] * 6).interval
    assert low < 0 < high
    with pytest.raises(ValueError, match="no values"):
        of_difference([], [])


def test_without_a_seed_it_is_zero() -> None:
    left, right = [number / 97 for number in range(97)], [0.5] * 97
    gaps = [ours - theirs for ours, theirs in zip(left, right, strict=True)]
    assert bootstrap(left) == bootstrap(left, seed=0) != bootstrap(left, seed=1)
    assert of_mean(left).interval == bootstrap(left, seed=0)
    assert of_difference(left, right).interval == bootstrap(gaps, seed=0)
    assert of_mean(left, seed=1).interval == bootstrap(left, seed=1)
    assert of_difference(left, right, seed=1).interval == bootstrap(gaps, seed=1)
    assert permutation(gaps) == permutation(gaps, seed=0) != permutation(gaps, seed=1)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30))
def test_an_interval_holds_its_mean_and_has_a_width(values: list[float]) -> None:
    low, high = of_mean(values).interval
    assert -1e-12 <= low <= sum(values) / len(values) + 1e-12
    assert sum(values) / len(values) - 1e-12 <= high <= 1 + 1e-12
    assert low < high


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_the_paired_interval_holds_the_difference_and_has_a_width(table: tuple[int, int, int, int]) -> None:
    _, first, second, _ = table
    low, high = newcombe(table)
    assert -1 <= low < high <= 1
    assert low - 1e-12 <= (first - second) / sum(table) <= high + 1e-12


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(0, 0, 1.0), (5, 5, 1.0), (5, 0, 0.0625), (8, 1, 0.0390625), (1, 8, 0.0390625)]
)
def test_mcnemar_is_exact_and_the_permutation_test_of_signs(wins: int, losses: int, p: float) -> None:
    assert mcnemar(wins, losses) == p
    assert permutation([1.0] * wins + [-1.0] * losses + [0.0] * 3) == p


def test_mcnemar_of_thousands() -> None:
    assert 0 < mcnemar(5200, 4800) < 1e-4


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.25, 0.75]), min_size=1, max_size=7))
def test_the_permutation_test_counts_assignments_of_signs(gaps: list[float]) -> None:
    sums = [abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True))) for signs in _signs(len(gaps))]
    assert permutation(gaps) == pytest.approx(sum(one >= abs(sum(gaps)) for one in sums) / len(sums))


def test_the_permutation_test_of_many_is_near_the_exact_one_and_seeded() -> None:
    gaps = [1.0] * 30 + [-1.0] * 12
    assert permutation(gaps) == permutation(gaps) == pytest.approx(mcnemar(30, 12), abs=0.003)
    assert 0 < permutation([0.5] * 400) < 1e-4


def test_a_sum_that_no_draw_reaches_has_the_least_p() -> None:
    # Only two of 2**40 assignments of signs reach the sum: (0 + 1) / (20,000 + 1).
    assert permutation([number + 1.0 for number in range(40)]) == 1 / 20_001


def test_a_share_of_all_has_a_width_and_an_amount_of_all_has_none() -> None:
    rows = [SampleRow(id=f"{n}", task=f"{n // 2}", rollout=n % 2, source="", correct=1.0) for n in range(24)]
    rates = Rates(rows)
    all_right = rates.rate([True] * 24)
    # 24 samples of 12 tasks: as 12 of 12, since samples of a task are not independent.
    assert (all_right.value, all_right.low, all_right.high) == (1.0, pytest.approx(0.7575, abs=1e-4), 1.0)
    # Of a part with one sample of each task: 9 of 12.
    first = rates.rate([None if n % 2 else n < 18 for n in range(24)])
    assert (first.low, first.high) == pytest.approx(tuple(wilson(9, 12)))
    credit = rates.credits([[1.0] * 24])[0]
    assert credit is not None
    assert credit.low == all_right.low
    calls = rates.means([[1.0] * 24])[0]
    assert calls is not None
    assert (calls.low, calls.high) == (1.0, 1.0)


def _signs(count: int) -> list[tuple[int, ...]]:
    return list(product((1, -1), repeat=count))
