"""The numbers by which benchmarks are known, worked by hand."""

from __future__ import annotations

import pytest

from saccade.evals.agreement import agreement, table
from saccade.evals.card_metrics import Tagged, tag_mean, vsi_mean, we_math, worst_case
from saccade.evals.metrics import TaskResult
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
