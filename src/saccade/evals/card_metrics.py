"""The numbers by which benchmarks are known where these are not the mean over their tasks; a card names its own.

`task-mean`, `type-mean`: the mean over the values of a tag of the accuracies of their tasks.
`vsi-mean`: the mean over VSI-Bench's eight types, of which relative direction is the mean of its three levels
(arXiv:2412.14171, and the official evaluation).
`average-and-worst-case`: a group of variants is worth its worst one (DynaMath, arXiv:2411.00836).
`we-math`: over groups of one-step problems and the composite problem made of them (arXiv:2407.01284).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from saccade.errors import SaccadeError
from saccade.evals.metrics import TaskResult, by_task
from saccade.evals.rows import EvalRow
from saccade.tasks.benchmarks.card import Metric
from saccade.tasks.benchmarks.registry import recorded_card

_VSI_DIRECTION = "object_rel_direction"
Numbers = Mapping[str, float]
Tagged = tuple[TaskResult, Mapping[str, str]]
"""A task and its tags by their names."""


def card_numbers(source: str, rows: Sequence[EvalRow]) -> Numbers:
    """The further numbers of a benchmark by their names, from the rows of its tasks; empty for any other source."""
    try:
        metric = recorded_card(source).metric
    except SaccadeError:
        return {}  # a world, or a card that the user has elsewhere
    tags = {row.task: dict(_pairs(row.tags)) for row in rows}
    results = [(result, tags[result.task]) for result in by_task(rows)]
    compute = METRICS.get(metric.id.partition("@")[0])
    return compute(results, metric) if compute is not None and results else {}


def tag_mean(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Mean of the means of each value of the first tag that the card names."""
    (name, *_) = metric.by or ("",)
    groups = _grouped(results, name)
    return {f"mean over {name}": fmean(fmean(averages) for averages in groups.values())} if groups else {}


def vsi_mean(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Mean over the types of VSI-Bench; the levels of relative direction are averaged to one type first."""
    levels: dict[str, list[float]] = defaultdict(list)
    for name, averages in _grouped(results, "type").items():
        levels[_VSI_DIRECTION if name.startswith(_VSI_DIRECTION) else name].append(fmean(averages))
    return {"mean over type": fmean(map(fmean, levels.values()))} if levels else {}


def worst_case(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """Mean over groups of the average of their worst task."""
    groups = _grouped(results, "group")
    return {"worst case": fmean(min(averages) for averages in groups.values())} if groups else {}


def we_math(results: Sequence[Tagged], metric: Metric) -> Numbers:
    """The scores of We-Math: of all composite problems, those mastered and half of those not generalised to.

    Strict: a composite problem that is right counts as mastered only if all its one-step problems are right; loose: if
    one of them is. A task counts as right if more than half of its samples are.
    """
    groups: dict[str, dict[str, bool]] = defaultdict(dict)
    for result, tags in results:
        if "group" in tags and "variant" in tags:
            groups[tags["group"]][tags["variant"]] = result.average > 0.5
    strict = loose = 0.0
    composite = 0
    for variants in groups.values():
        final = [right for variant, right in variants.items() if variant.endswith("multi")]
        steps = [right for variant, right in variants.items() if not variant.endswith("multi")]
        if len(final) != 1 or not steps:
            continue
        composite += 1
        generalises = 0.5 * all(steps)
        strict += float(all(steps)) if final[0] else generalises
        loose += float(any(steps)) if final[0] else generalises
    return {"We-Math strict": strict / composite, "We-Math loose": loose / composite} if composite else {}


METRICS: Mapping[str, Callable[[Sequence[Tagged], Metric], Numbers]] = {
    "task-mean": tag_mean,
    "type-mean": tag_mean,
    "vsi-mean": vsi_mean,
    "average-and-worst-case": worst_case,
    "we-math": we_math,
}
"""Name of a card's metric -> what computes it; `accuracy` is the mean over tasks and needs nothing."""


def _pairs(tags: Iterable[str]) -> Iterable[tuple[str, str]]:
    for tag in tags:
        name, equals, value = tag.partition("=")
        if equals:
            yield name, value


def _grouped(results: Iterable[Tagged], name: str) -> Mapping[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for result, tags in results:
        if name in tags:
            groups[tags[name]].append(result.average)
    return groups
