"""The mean over benchmarks: each counts once, by the number under which it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.evals.rows import EvalRow
from saccade.evals.summary import SUMMARY, summarise, write_summary
from saccade.evals.tables import summary_text

from .rows import row


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
