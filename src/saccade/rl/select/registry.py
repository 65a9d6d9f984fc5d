"""The selections by name. Other packages add theirs by an entry point of the group `saccade.selections`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, SerializeAsAny

from saccade.record.registry import Registry, is_subclass
from saccade.rl.rules import named
from saccade.rl.select.selection import SelectionRule

_HERE = "saccade.rl.select"

SELECTIONS: Final = Registry[type[SelectionRule]](
    "selections",
    {
        "none@1": f"{_HERE}.plain:KeepAll",
        "pass-rate@1": f"{_HERE}.plain:PassRateBand",
        "oversample-filter-rank@1": f"{_HERE}.oversample:OversampleFilterRank",
        "oversample-filter-rank-repo@1": f"{_HERE}.oversample:RepoRank",
        "dynamic-sampling@1": f"{_HERE}.plain:DynamicSampling",
    },
    is_subclass(SelectionRule, f"a subclass of {_HERE}.selection.SelectionRule"),
)

NamedSelection = Annotated[SerializeAsAny[SelectionRule], BeforeValidator(named(SELECTIONS, "none"))]
"""What a recipe holds: a table that names a rule."""
