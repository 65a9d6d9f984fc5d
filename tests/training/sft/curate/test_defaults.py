"""What a filter does where a recipe names nothing else, and where a setting ends."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from saccade.core.settings import Settings
from saccade.training.sft.curate.filters.episodes import Budget, MinimumScore, PassRateFilter, ToolTurns
from saccade.training.sft.curate.filters.mixture import BoxLabel, Mixture, SplitFilter, Strata
from saccade.training.sft.curate.filters.overlap import Contamination, Duplicates
from saccade.training.sft.curate.report import FilterReport

RATES = {"right_from": 1.0, "at_least": 8}
NEAR = {"bits": 10, "color": 8.0}


def numbers(kind: type[Settings]) -> dict[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in kind.model_fields.items()}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (BoxLabel, {"iou": 0.5, "attempts": 2, "concurrent": 8, "max_tokens": 2048}),
        (Budget, {"characters_per_token": 3.5}),
        (Contamination, NEAR),
        (Duplicates, NEAR | {"keep": 1}),
        (Mixture, {"seed": 0}),
        (PassRateFilter, RATES | {"lowest": 0.0, "highest": 0.9}),
        (MinimumScore, {"at_least": 1.0}),
        (SplitFilter, {"shares": {"train": 0.9, "validation": 0.1}, "seed": 0}),
        (Strata, RATES | {"easy_from": 0.75, "hard_below": 0.25}),
        (ToolTurns, {"at_least": 2}),
    ],
)
def test_defaults(kind: type[Settings], expected: dict[str, Any]) -> None:
    assert {name: numbers(kind)[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("kind", "given", "name", "last", "first_wrong"),
    [
        (BoxLabel, {"judge": "m"}, "iou", 1, 1.1),
        (BoxLabel, {"judge": "m"}, "iou", 0.01, 0),
        (Duplicates, {}, "bits", 0, -1),
        (Duplicates, {}, "bits", 255, 256),
        (Contamination, {"sets": [{"name": "a", "file": "b"}]}, "bits", 0, -1),
    ],
)
def test_where_a_setting_ends(
    kind: type[Settings], given: dict[str, Any], name: str, last: object, first_wrong: object
) -> None:
    assert getattr(kind.model_validate({**given, name: last}), name) == last
    with pytest.raises(ValidationError, match=name):
        kind.model_validate({**given, name: first_wrong})


def test_held_out_sets_are_named() -> None:
    with pytest.raises(ValidationError, match="sets"):
        Contamination.model_validate({"sets": []})


def test_a_report_of_before_branches_is_read() -> None:
    counts = {"seen": 2, "kept": 1, "dropped": 1, "undecided": 0}
    stored = FilterReport.model_validate({"label": "l", "filter": "f@1", **counts, "reasons": (), "categories": ()})
    assert stored.beside == 0
