"""The numbers by which benchmarks are known, worked by hand."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evals.rows import row

from saccade.evals.intervals import (
    BOOTSTRAP,
    NEWCOMBE,
    WILSON,
    agreement,
    bootstrap,
    mcnemar,
    newcombe,
    of_difference,
    of_mean,
    permutation,
    table,
    wilson,
)
from saccade.evals.metrics import Tagged, TaskResult, tag_mean, vsi_mean, we_math, worst_case
from saccade.evals.protocols.base import Rates, SampleRow
from saccade.evals.rows import EvalRow
from saccade.evals.summary import SUMMARY, summarise, summary_text, write_summary
from saccade.tasks.benchmarks.card import Metric


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


METRIC = Metric(id="type-mean@1", by=("kind", "other"))


def tasks(*given: tuple[float, dict[str, str]]) -> list[Tagged]:
    return [
        (TaskResult(str(number), average, int(average == 1), 1, average), tags)
        for number, (average, tags) in enumerate(given)
    ]


def test_a_kind_counts_once_however_many_tasks_it_has() -> None:
    found = tasks((1, {"kind": "a"}), (0, {"kind": "a"}), (1, {"kind": "a"}), (0, {"kind": "b", "other": "x"}), (1, {}))
    assert tag_mean(found, METRIC) == {"mean over kind": pytest.approx(1 / 3)}
    assert tag_mean(found[4:], METRIC) == {}
    assert tag_mean(found, Metric(id="type-mean@1")) == {}


def test_relative_direction_is_one_type_of_three_levels() -> None:
    found = tasks(
        (1, {"type": "object_count"}),
        (0, {"type": "object_rel_direction_easy"}),
        (0, {"type": "object_rel_direction_easy"}),
        (1, {"type": "object_rel_direction_medium"}),
        (0.5, {"type": "object_rel_direction_hard"}),
        (1, {"type": "route_planning"}),
    )
    assert vsi_mean(found, METRIC) == {"mean over type": pytest.approx((1 + 0.5 + 1) / 3)}
    assert vsi_mean(tasks((1, {})), METRIC) == {}


def test_a_group_of_variants_is_worth_its_worst() -> None:
    found = tasks((1, {"group": "a"}), (0.5, {"group": "a"}), (1, {"group": "b"}), (0, {}))
    assert worst_case(found, METRIC) == {"worst case": 0.75}
    assert worst_case(tasks((1, {})), METRIC) == {}


def problem(group: str, multi: float, *steps: float) -> list[tuple[float, dict[str, str]]]:
    named = [(f"{len(steps)}steps_multi", multi), *((f"step_{number}", step) for number, step in enumerate(steps))]
    return [(average, {"group": group, "variant": variant}) for variant, average in named]


@pytest.mark.parametrize(
    ("multi", "steps", "strict", "loose"),
    [
        (1, (1, 1), 1, 1),  # complete mastery
        (1, (1, 0), 0, 1),  # rote memorisation: mastered only by the loose rule
        (1, (0, 0), 0, 0),
        (0, (1, 1), 0.5, 0.5),  # inadequate generalisation
        (0, (1, 0), 0, 0),  # insufficient knowledge
        (0.5, (1, 1), 0.5, 0.5),  # right is more than half of the samples
        (0.6, (0.6, 1), 1, 1),
        (1, (0.5, 1), 0, 1),
    ],
)
def test_we_math_of_one_problem(multi: float, steps: tuple[float, ...], strict: float, loose: float) -> None:
    assert we_math(tasks(*problem("a", multi, *steps)), METRIC) == {
        "We-Math strict": strict,
        "We-Math loose": loose,
    }


def test_we_math_of_several() -> None:
    three = [*problem("a", 1, 1, 1), *problem("b", 1, 1, 0), *problem("c", 0, 1, 1)]
    left_out = [*problem("d", 1), (1, {"group": "e", "variant": "step_0"}), (1, {"group": "f"}), (1, {})]
    two_multi = [*problem("g", 1, 1), (1, {"group": "g", "variant": "3steps_multi"})]
    expected = {"We-Math strict": pytest.approx(1.5 / 3), "We-Math loose": pytest.approx(2.5 / 3)}
    assert we_math(tasks(*three, *left_out, *two_multi), METRIC) == expected
    assert we_math(tasks(*left_out), METRIC) == {}


def test_agreement_by_hand() -> None:
    # Cohen 1960: 20 and 15 the same of 50, 25 and 30 times yes: 0.7 against 0.5 by chance.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement([*pairs, (None, True), (False, None), (None, None)])
    assert found is not None
    assert (found.both, found.only_rule, found.only_judge, found.neither) == (20, 5, 10, 15)
    assert (found.raw, found.kappa) == (pytest.approx(0.7), pytest.approx(0.4))
    assert table(pairs) == (20, 5, 10, 15)
    assert (table(pairs).of, table(pairs).same) == (50, 35)
    assert agreement([(None, True)]) is None
    for said in (True, False):
        assert table([(said, said)] * 3).kappa is None
    assert table([(True, False)] * 3).kappa == 0.0
    assert table([(True, False), (False, True)]).kappa == -1.0


def vsi() -> list[EvalRow]:
    """Three counts of which two are right, one distance that is not: 50 % of tasks, 33.3 % over types."""
    counts = [row(f"c{n}", float(n < 2), source="vsi-bench@1", tags=("type=object_counting",)) for n in range(3)]
    return [*counts, row("d", 0.0, source="vsi-bench@1", tags=("type=route_planning",))]


def vstar(*credits: float | None) -> list[EvalRow]:
    return [row(f"v{n}", credit, source="vstar@1") for n, credit in enumerate(credits)]


def test_a_small_benchmark_counts_as_much_as_a_large_one_by_its_own_number() -> None:
    macro = summarise([*vsi(), *vstar(1.0)]).macro
    assert macro is not None
    assert macro.mean == pytest.approx((1 / 3 + 1) / 2)
    said = {name: (part.number, part.value) for name, part in macro.parts.items()}
    assert said == {"vsi-bench@1": ("mean over type", pytest.approx(1 / 3)), "vstar@1": ("avg@1", 1.0)}


def test_the_worst_case_stands_beside_the_average_and_not_for_it() -> None:
    variants = [
        row("1", 1.0, source="dynamath@1", tags=("group=1", "variant=1")),
        row("2", 0.0, source="dynamath@1", tags=("group=1", "variant=2")),
    ]
    macro = summarise([*variants, *vstar(1.0, 1.0)], k=4).macro
    assert macro is not None
    assert (macro.parts["dynamath@1"].number, macro.parts["dynamath@1"].value) == ("avg@4", 0.5)
    assert macro.mean == 0.75


def test_one_source_has_no_mean_over_benchmarks(tmp_path: Path) -> None:
    summary = summarise(vsi())
    assert summary.macro is None
    assert "mean over benchmarks" not in summary_text(summary)
    write_summary(tmp_path, [], summary)
    assert json.loads((tmp_path / SUMMARY).read_text())["macro"] is None


def test_a_source_without_a_number_leaves_no_mean(tmp_path: Path) -> None:
    summary = summarise([*vsi(), *vstar(None)])
    assert summary.macro is not None
    assert summary.macro.mean is None
    assert "mean over benchmarks: none; there is no graded task of vstar@1" in summary_text(summary)
    write_summary(tmp_path, [], summary)
    assert json.loads((tmp_path / SUMMARY).read_text())["macro"]["parts"]["vstar@1"]["value"] is None


def test_terminal_and_file_say_which_number_each_gives(tmp_path: Path) -> None:
    summary = summarise([*vsi(), *vstar(1.0, 0.0), row("t", 1.0, source="")])
    assert (
        "mean over benchmarks: 61.1, each counted once: tasks without a source 100.0 (avg@1), "
        "vsi-bench@1 33.3 (mean over type), vstar@1 50.0 (avg@1)"
    ) in summary_text(summary)
    write_summary(tmp_path, [], summary)
    stored = json.loads((tmp_path / SUMMARY).read_text())["macro"]
    assert stored["mean"] == pytest.approx((1 + 1 / 3 + 0.5) / 3)
    assert stored["parts"]["vsi-bench@1"] == {"number": "mean over type", "value": pytest.approx(1 / 3)}
