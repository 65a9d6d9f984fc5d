"""Metrics and tests against worked examples and brute force."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evals.rows import row

from saccade.errors import SettingsError
from saccade.evals.intervals import Interval, mcnemar
from saccade.evals.metrics import by_task, compare, majority, mean_pass, pass_at
from saccade.evals.rows import Known, dollars_text, natural
from saccade.evals.stored import Listed, runs_text
from saccade.evals.summary import comparison_text, figures, summarise, summary_text


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(outcomes: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(outcomes)))
    draws = [any(draw) for draw in combinations(outcomes, k)]
    assert pass_at(k, len(outcomes), sum(outcomes)) == pytest.approx(fmean(draws))


def test_pass_at_more_than_there_is_raises() -> None:
    with pytest.raises(ValueError, match="pass@3"):
        pass_at(3, 2, 1)


@pytest.mark.parametrize(
    ("votes", "credit"),
    [
        ([("7", 1.0), ("8", 0.0), (" 7 ", 1.0)], 1.0),
        ([("7", 1.0), ("8", 0.0), ("8", 0.0)], 0.0),
        ([("7", 1.0), ("8", 0.0)], 0.5),
        ([("Cat", 1.0), ("cat", 1.0), ("dog", 0.0)], 1.0),
        ([("", 0.0), ("", 0.0), ("7", 1.0)], 1.0),
        ([("", 0.0)], 0.0),
        ([], 0.0),
    ],
)
def test_majority(votes: list[tuple[str, float]], credit: float) -> None:
    assert majority(votes) == credit


def test_tasks_count_alike_however_many_samples_they_have() -> None:
    rows = [row("a", 1.0, 0), row("a", 0.0, 1), row("b", 1.0, 0), row("b", 1.0, 1), row("b", 1.0, 2), row("c", None)]
    found = figures(rows, k=3)
    assert (found.tasks, found.samples, found.avg) == (2, 5, 0.75)
    assert dict(found.pass_at) == {1: 0.75, 2: 1.0}
    assert found.majority == (0.5 + 1) / 2
    assert [result.solved for result in by_task(rows)] == [1, 3]


def test_partial_credit_is_kept_in_avg_and_is_no_pass() -> None:
    found = figures([row("a", 0.5), row("b", 1.0)])
    assert (found.avg, found.pass_at[1], found.majority) == (0.75, 0.5, None)


def test_pass_at_goes_by_powers_of_two_and_to_the_end() -> None:
    rows = [row("a", float(number == 0), number) for number in range(6)]
    assert list(mean_pass(by_task(rows), 6)) == [1, 2, 4, 6]
    assert mean_pass([], 6) == {}


def test_categories_are_sources_and_tags() -> None:
    rows = [
        row("a", 1.0, source="x", tags=("easy", "choices-seed=3")),
        row("b", 0.0, source="x", tags=("hard",)),
        row("c", 0.0, source="y", tags=("hard", "red"), stop="turn_limit", answer=None, extracted=""),
    ]
    found = summarise(rows, missing=2)
    assert {name: part.avg for name, part in found.sources.items()} == {"x": 0.5, "y": 0.0}
    assert {name: part.tasks for name, part in found.tags.items()} == {"easy": 1, "hard": 2, "red": 1}
    assert found.stops == {"answered": 2, "turn_limit": 1}
    text = summary_text(found)
    assert "| hard" in text
    assert "2 samples failed" in text


def test_a_kind_of_tag_with_more_than_forty_values_is_no_category() -> None:
    rows = [row(f"t{n}", 1.0, tags=(f"room={n % 40}", f"number={n}", f"plain{n}")) for n in range(41)]
    found = [tag.rstrip("0123456789") for tag in summarise(rows).tags]
    assert {kind: found.count(kind) for kind in found} == {"room=": 40, "plain": 41}


@pytest.mark.parametrize(
    ("given", "judgement"),
    [({"by_judge": 0.5}, "right"), ({"by_judge": 0.4}, "wrong"), ({"no_verdict": "refused"}, "invalid"), ({}, "none")],
)
def test_half_of_the_judges_credit_is_right(given: dict[str, Any], judgement: str) -> None:
    assert row("a", 1.0, **given).judgement == judgement


def test_a_summary_of_nothing() -> None:
    found = summarise([])
    assert (found.total.avg, found.total.interval, found.turns) == (None, None, None)
    assert "–" in summary_text(found)


def test_two_runs_are_paired_by_task() -> None:
    left = [row("a", 1.0), row("b", 1.0), row("c", 0.0), row("t10", 1.0), row("t9", 1.0), row("only", 1.0)]
    right = [row("a", 1.0), row("b", 0.0), row("c", 1.0), row("t10", 0.0), row("t9", 0.0), row("none", None)]
    found = compare(left, right)
    assert (len(found.pairs), found.only_left, found.only_right) == (5, 1, 0)
    assert (found.wins, found.losses, found.ties, found.both_right) == (3, 1, 1, 1)
    assert found.difference == pytest.approx(0.4)
    assert (found.p, found.test) == (mcnemar(3, 1), "McNemar's exact test") == (0.625, "McNemar's exact test")
    assert found.interval_by == "Newcombe, paired"
    assert [pair.task for pair in found.differing] == ["b", "t9", "t10", "c"]
    text = comparison_text(found, "A", "B")
    assert "difference +40.0 points" in text
    assert text.index("| t9 ") < text.index("| t10 ")
    mirrored = compare(right, left)
    assert (mirrored.wins, mirrored.difference) == (1, pytest.approx(-0.4))


@pytest.mark.parametrize(("count", "left_out"), [(20, []), (21, [10])])
def test_of_more_than_twenty_tasks_the_first_and_last_ten_are_shown(count: int, left_out: list[int]) -> None:
    rows = [[row(f"t{n}", correct) for n in range(count)] for correct in (1.0, 0.0)]
    text = comparison_text(compare(*rows), "A", "B")
    assert [n for n in range(count) if f"| t{n} " not in text] == left_out
    assert [f"({count} differ; --json lists all)"] * len(left_out) == [
        line for line in text.splitlines() if "--json" in line
    ]


def test_many_single_samples_have_an_exact_p() -> None:
    found = compare([row(f"t{n}", 1.0) for n in range(20)], [row(f"t{n}", 0.0) for n in range(20)])
    assert found.p == 2 / 2**20


def test_means_over_samples_are_compared_by_permutation_and_said_so() -> None:
    left = [row(task, credit, rollout) for task in "abcde" for rollout, credit in enumerate((1.0, 1.0))]
    right = [row(task, credit, rollout) for task in "abcde" for rollout, credit in enumerate((1.0, 0.0))]
    found = compare(left, right)
    # Five differences of one size and sign: 2 of the 32 assignments of signs reach as far.
    assert (found.test, found.p) == ("paired permutation test", 2 / 32)
    # All differences are equal, so the bootstrap would be +50 to +50. Wilson of 5/5 is 0.566 to 1, of 2.5/5 0.170 to
    # 0.830: 0.5 - sqrt(0.434^2 + 0.330^2) = -0.046, 0.5 + sqrt(0 + 0.330^2) = 0.830.
    assert found.interval == pytest.approx((-0.046, 0.830), abs=0.002)
    text = comparison_text(found, "A", "B")
    assert "paired permutation test: p = 0.0625" in text
    assert "McNemar" not in text


def test_partial_credit_is_not_compared_by_a_sign_test() -> None:
    found = compare([row("a", 1.0), row("b", 0.5), row("c", 1.0)], [row("a", 0.0), row("b", 1.0), row("c", 1.0)])
    assert (found.wins, found.losses, found.test) == (1, 1, "paired permutation test")
    # Sums of signs by sizes 1 and 0.5: 1.5, 0.5, -0.5, -1.5; all reach 0.5.
    assert found.p == 1.0
    assert found.interval_by == "bootstrap over tasks"


def test_a_run_that_is_right_everywhere_has_an_interval_with_a_width() -> None:
    found = figures([row(f"t{number}", 1.0) for number in range(12)])
    assert found.interval == pytest.approx((0.757, 1.0), abs=0.001)
    assert found.interval_by == "Wilson"
    text = summary_text(summarise([row(f"t{number}", 1.0) for number in range(12)]))
    assert "75.8–100.0" in text
    assert "95% intervals: Wilson" in text
    against = compare([row(f"t{n}", 1.0) for n in range(12)], [row(f"t{n}", 0.0) for n in range(12)])
    assert against.interval == pytest.approx((0.657, 1.0), abs=0.001)


def test_runs_of_other_tasks_are_refused() -> None:
    with pytest.raises(SettingsError, match="no graded task in common"):
        compare([row("a", 1.0)], [row("b", 1.0)])
    with pytest.raises(SettingsError, match="another question or gold"):
        compare([row("a", 1.0)], [row("a", 1.0, gold="6")])


@given(st.text(max_size=12), st.text(max_size=12))
def test_natural_order_compares_any_texts(left: str, right: str) -> None:
    assert (natural(left) < natural(right)) or (natural(right) <= natural(left))


def test_natural_order_reads_numbers() -> None:
    assert sorted(["t10", "t9", "t1/2", "t1/10", "a"], key=natural) == ["a", "t1/2", "t1/10", "t9", "t10"]


def test_the_cost_of_a_run_says_of_how_many_samples_it_is_known() -> None:
    rows = [
        row("a", 1.0, read_tokens=1000, sampled_tokens=10, dollars=0.25),
        row("b", 1.0, read_tokens=500, sampled_tokens=20, dollars=0.5),
        row("c", 1.0, sampled_tokens=30),
    ]
    found = summarise(rows).spent
    assert (found.read, found.written, found.dollars) == (Known(1500, 2), Known(60, 3), Known(0.75, 2))
    text = summary_text(summarise(rows))
    assert "tokens: 1,500 (known of 2 of 3 samples) read in all turns, 60 written" in text
    assert "cost: $0.7500 (known of 2 of 3 samples)" in text
    assert "cost: $0.7500\n" in summary_text(summarise(rows[:2])) + "\n"
    assert "cost: unknown" in summary_text(summarise(rows[2:]))
    assert "cost" not in summary_text(summarise([row("d", 1.0)]))


def test_a_mean_of_tokens_over_a_part_says_so() -> None:
    text = summary_text(summarise([row("a", 1.0, sampled_tokens=10), row("b", 1.0)]))
    assert "10 tokens written (mean of 1 samples)" in text


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
