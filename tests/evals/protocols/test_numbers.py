"""Rates, agreement and curves against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evals import rows as eval_rows

from saccade.episode.regions import StoredPixels
from saccade.evals.metrics import majority, majority_by_samples
from saccade.evals.protocols.base import Rates, SampleRow, Studied, StudiedRun
from saccade.evals.protocols.confidence import (
    ConfidenceRow,
    TokenUsageRow,
    agreements,
    calibration_error,
    separation,
    spans,
    token_row,
)
from saccade.evals.protocols.confidence import findings as confidence
from saccade.evals.protocols.confidence import token_findings as tokens
from saccade.evals.protocols.faithfulness import ToolUseOutcome, agreement, outcome
from saccade.evals.summary import summarise
from saccade.media.store import MediaStore
from saccade.record.content import ParseError
from saccade.record.task import Task
from saccade.record.trajectory import TokenCounts, Trajectory, Turn


def row(task: str, rollout: int = 0, correct: float | None = 1.0) -> SampleRow:
    return SampleRow(id=f"{task}#{rollout}", task=task, rollout=rollout, source="s", correct=correct)


def sample(task: str, rollout: int, answer: str, correct: float | None, **changes: Any) -> ConfidenceRow:
    known = {"turns": 1, "calls": 0, "written": None, "turn_limit": None, **changes}
    return ConfidenceRow(**row(task, rollout, correct).model_dump(), answer=answer, **known)


def test_a_rate_counts_what_it_is_about() -> None:
    rates = Rates([row("a"), row("b"), row("c"), row("d")])
    rate = rates.rate([True, False, None, True])
    assert (rate.count, rate.of, rate.value) == (2, 3, 2 / 3)
    assert rates.rate([None] * 4).value is None
    assert rates.mean([None] * 4) is None
    mean = rates.mean([1.0, None, 3.0, None])
    assert (mean.value, mean.samples, mean.low, mean.high) == (2.0, 2, 1.0, 3.0)
    assert Rates([]).rate([]).value is None


def test_samples_of_one_task_are_not_several_tasks() -> None:
    alone = Rates([row("a", number) for number in range(50)])
    several = Rates([row(f"t{number}") for number in range(50)])
    hits = [number % 2 == 0 for number in range(50)]
    # One trial, half right: 0.5 ± z sqrt(0.25 + z²/4) / (1 + z²) = 0.5 ± 0.445.
    assert (alone.rate(hits).low, alone.rate(hits).high) == pytest.approx((0.055, 0.945), abs=0.001)
    spread = several.rate(hits)
    assert spread.low is not None
    assert spread.low < 0.45
    calls = alone.shares([[(1, 2)] * 50])[0]
    assert (calls.count, calls.of) == (50, 100)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([True, False, None])), min_size=1, max_size=12))
def test_a_rate_lies_in_its_interval(samples: list[tuple[int, bool | None]]) -> None:
    rates = Rates([row(f"t{task}", number) for number, (task, _) in enumerate(samples)])
    rate = rates.rate([hit for _, hit in samples])
    if rate.value is None:
        assert rate.low is None
    else:
        assert rate.low is not None
        assert rate.high is not None
        assert 0 <= rate.low <= rate.high <= 1


@pytest.mark.parametrize(
    ("shown", "any_crop", "every_crop"),
    [
        ([True], ToolUseOutcome.FAITHFUL, ToolUseOutcome.FAITHFUL),
        ([True, False], ToolUseOutcome.FAITHFUL, ToolUseOutcome.UNFAITHFUL),
        ([True, None], ToolUseOutcome.FAITHFUL, ToolUseOutcome.UNDECIDED),
        ([False, None], ToolUseOutcome.UNDECIDED, ToolUseOutcome.UNFAITHFUL),
        ([None], ToolUseOutcome.UNDECIDED, ToolUseOutcome.UNDECIDED),
        ([], ToolUseOutcome.UNFAITHFUL, ToolUseOutcome.UNFAITHFUL),
    ],
)
def test_outcomes(shown: list[bool | None], any_crop: ToolUseOutcome, every_crop: ToolUseOutcome) -> None:
    assert outcome(shown, called=True, every=False) is any_crop
    assert outcome(shown, called=True, every=True) is every_crop
    assert outcome([], called=False, every=False) is ToolUseOutcome.NO_TOOL


def test_kappa() -> None:
    # Cohen's measure on the well-known table 20, 5, 10, 15: 0.7 observed, 0.5 by chance.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement([*pairs, (None, True), (False, None)])
    assert found.same.value == 0.7
    assert found.kappa == pytest.approx(0.4)
    assert agreement([(True, True)] * 3).kappa is None
    assert agreement([]).same.value is None
    assert agreement([(True, False), (False, True)]).kappa == -1


def test_agreement_of_samples() -> None:
    rows = [
        *(sample("a", n, "7", 1.0) for n in range(4)),
        *(sample("b", n, answer, float(answer == "7")) for n, answer in enumerate(["7", "8", "8", ""])),
        *(sample("c", n, answer, float(answer == "7")) for n, answer in enumerate(["7", "7", "7", "9"])),
        sample("d", 0, "1", 0.0),
    ]
    tasks = {task.task: task for task in agreements(rows)}
    assert set(tasks) == {"a", "b", "c"}
    (silent,) = agreements([sample("e", n, "", 0.0) for n in range(2)])
    assert (silent.agreement, silent.distinct, silent.answered) == (0.0, 0, 0)
    assert (tasks["b"].agreement, tasks["b"].distinct, tasks["b"].answered, tasks["b"].majority) == (0.5, 2, 3, 0.0)
    assert (tasks["c"].agreement, tasks["c"].majority, tasks["c"].average) == (0.75, 1.0, 0.75)
    found = tuple(spans(tuple(tasks.values())))
    assert [(span.low, span.tasks, span.accuracy.value) for span in found] == [
        (0.4, 1, 0.0),
        (0.6, 1, 1.0),
        (0.8, 1, 1.0),
    ]
    assert calibration_error(found) == pytest.approx((0.5 + 0.25 + 0.0) / 3)
    assert separation(tuple(tasks.values())) == 1.0
    tied = tasks["c"].model_copy(update={"agreement": 0.5})
    assert separation((tied, tasks["b"])) == 0.5
    assert separation((tied, tasks["b"].model_copy(update={"agreement": 0.75}))) == 0.0
    findings = confidence(rows, StudiedRun(run="r"))
    assert (findings.unanimous.count, findings.unanimous.of, findings.unanimous_right.count) == (1, 3, 1)
    assert [point.samples for point in findings.with_samples] == [1]


def test_curves_over_turns_and_budgets() -> None:
    rows = [
        sample("a", 0, "7", 1.0, turns=1, written=10, turn_limit=4),
        sample("b", 0, "7", 1.0, turns=3, written=30, turn_limit=4),
        sample("c", 0, "8", 0.0, turns=3, written=20, turn_limit=8),
        sample("d", 0, "7", 1.0, turns=5, written=None, turn_limit=8),
    ]
    found = confidence(rows, StudiedRun(run="r"))
    exact = [(point.at, point.samples, point.accuracy and point.accuracy.value) for point in found.by_turns.points]
    assert exact == [(1, 1, 1.0), (3, 2, 0.5), (5, 1, 1.0)]
    limits = [(point.at, point.accuracy and point.accuracy.value) for point in found.by_turn_limit.points]
    assert limits == [(4, 1.0), (8, 0.5)]
    turns, _, written = found.within
    assert [point.accuracy and point.accuracy.value for point in turns.points] == [0.25, 0.5, 0.75]
    assert [(point.at, point.samples) for point in written.points] == [(10, 1), (20, 2), (30, 3)]
    assert [point.accuracy and point.accuracy.value for point in written.points] == pytest.approx([1 / 3, 1 / 3, 2 / 3])


def token_rows() -> list[TokenUsageRow]:
    return [
        TokenUsageRow(
            **row(f"t{number}").model_dump(),
            pictures=1,
            visual=visual,
            estimated=True,
            text=None,
            written=5,
            processed=None,
        )
        for number, visual in enumerate([10, 20, 20, 20, 30, None])
    ]


def test_tokens_in_quarters() -> None:
    found = tokens(token_rows(), StudiedRun(run="r"))
    assert [(span.label, span.samples) for span in found.spans] == [("10", 1), ("20", 3), ("30", 1)]
    assert (found.total.visual.value, found.total.visual.samples, found.estimated) == (20, 5, 5)
    assert found.total.text is None
    assert tokens([], StudiedRun(run="r")).total.accuracy is None


def test_quarters_of_many_numbers_are_ranges() -> None:
    [one, *_] = token_rows()
    rows = [one.model_copy(update={"id": f"t{n}", "task": f"t{n}", "visual": n}) for n in (8, 1, 7, 2, 6, 3, 5, 4)]
    found = tokens(rows, StudiedRun(run="r"))
    assert [(span.label, span.samples) for span in found.spans] == [("1-2", 2), ("3-4", 2), ("5-6", 2), ("7-8", 2)]
    assert [span.label for span in tokens(rows[:3], StudiedRun(run="r")).spans] == ["1", "7", "8"]
    lengths = [
        row.model_copy(update={"written": 100 * (row.visual or 0), "correct": float(row.visual == 8)}) for row in rows
    ]
    longer = tokens([*lengths, one.model_copy(update={"id": "x", "written": None})], StudiedRun(run="r")).lengths
    assert [(span.label, span.accuracy and span.accuracy.value) for span in longer] == [
        ("100-200", 0.0), ("300-400", 0.0), ("500-600", 0.0), ("700-800", 0.5)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "visual", "text", "written", "processed"),
    [
        ([(100, 30, 20)], 30, 90, 20, 100),  # read and written, less what was visual
        ([(50, None, 5), (100, 30, None)], 30, 70, None, 150),
        ([(30, 30, 7)], 30, 7, 7, 30),
        ([(29, 30, 7)], 30, None, 7, 29),  # no backend can mean that
        ([(None, 30, 7)], 30, None, 7, None),
        ([], 0, None, None, None),
    ],
)
def test_tokens_of_a_sample(
    counts: list[tuple[int | None, int | None, int | None]],
    visual: int,
    text: int | None,
    written: int | None,
    processed: int | None,
    tmp_path: Path,
) -> None:
    turns = tuple(
        Turn(text="", action=ParseError(reason="?"), tokens=TokenCounts(context=read, context_visual=seen, sampled=new))
        for read, seen, new in counts
    )
    one = Trajectory(id="t#0", task=Task(id="t", question="?"), turns=turns)
    found = token_row(Studied(one, StoredPixels(MediaStore(tmp_path))))
    assert (found.visual, found.estimated) == (visual, not counts)
    assert (found.text, found.written, found.processed) == (text, written, processed)


def test_no_sample_with_a_verdict_is_no_curve() -> None:
    for rows in ([], [sample("a", 0, "7", None)]):
        assert confidence(rows, StudiedRun(run="r")).with_samples == ()


def test_pass_and_majority_of_fewer_samples_are_means_over_all_choices() -> None:
    rows = [
        *(sample("a", n, said, float(said == "7")) for n, said in enumerate(("8", "8", "7"))),
        *(sample("b", n, "7", 1.0) for n in range(2)),
    ]
    points = confidence(rows, StudiedRun(run="r")).with_samples
    assert [point.samples for point in points] == [1, 2]
    assert [point.any_right for point in points] == pytest.approx([(1 / 3 + 1) / 2, (2 / 3 + 1) / 2])
    assert [point.majority for point in points] == pytest.approx([(1 / 3 + 1) / 2, (1 / 3 + 1) / 2])


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "A ", "b", "c", ""]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=7
    )
)
def test_majority_of_fewer_samples_is_the_mean_over_all_subsets(votes: list[tuple[str, float]]) -> None:
    found = majority_by_samples(votes)
    wanted = [fmean(map(majority, combinations(votes, count))) for count in range(1, len(votes) + 1)]
    assert found == pytest.approx(wanted)
    assert found[-1] == pytest.approx(majority(votes))


def test_one_sample_has_no_majority_but_itself() -> None:
    rows = [sample(f"t{n}", place, said, float(said == "7")) for n in range(5) for place, said in enumerate("7879")]
    first = confidence(rows, StudiedRun(run="r")).with_samples[0]
    assert first.any_right == first.majority == pytest.approx(0.5)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("credits", [(0.0, 1.0), (0.0, 0.25, 1.0), (1.0,)])
def test_one_number_has_one_interval_wherever_it_stands(k: int, credits: tuple[float, ...]) -> None:
    rows = [
        sample(f"t{task}", n, "7", credits[(3 * task + n) % len(credits)], turns=1, written=task)
        for task in range(20)
        for n in range(k)
    ]
    made = [eval_rows.row(one.task, one.correct, one.rollout) for one in rows]
    summary = summarise(made, k=k).total
    curves = confidence(rows, StudiedRun(run="r"))
    [whole] = curves.by_turns.points
    within = curves.within[2].points[-1]
    for accuracy in (whole.accuracy, within.accuracy, Rates(rows).credits([[one.correct for one in rows]])[0]):
        assert (accuracy.value, (accuracy.low, accuracy.high)) == (summary.avg, summary.interval)


@pytest.mark.parametrize(
    ("written", "budgets"),
    [
        (range(20, 0, -1), list(range(1, 21))),
        (range(1, 22), [2, 4, 6, 8, 10, 12, 14, 16, 18, 21]),  # at even shares of the samples
        ([1] * 30 + list(range(2, 22)), [1, 6, 11, 16, 21]),
    ],
)
def test_budgets_of_many_numbers(written: Sequence[int], budgets: list[int]) -> None:
    rows = [sample(f"t{n}", 0, "7", float(n % 2), written=count) for n, count in enumerate(written)]
    *_, curve = confidence(rows, StudiedRun(run="r")).within
    assert [point.at for point in curve.points] == budgets
    assert [point.samples for point in curve.points] == [sum(count <= most for count in written) for most in budgets]
