"""The numbers by which benchmarks are known, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evals.rows import row

from saccade.evals.intervals import agreement, table
from saccade.evals.metrics import Tagged, TaskResult, tag_mean, vsi_mean, we_math, worst_case
from saccade.evals.rows import EvalRow
from saccade.evals.summary import SUMMARY, summarise, summary_text, write_summary
from saccade.tasks.benchmarks.card import Metric

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
