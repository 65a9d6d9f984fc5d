"""Filters by name. Other packages add theirs by an entry point of the group `saccade.filters`."""

from __future__ import annotations

from typing import Final

from saccade.record.registry import Registry, is_subclass
from saccade.sft.curate.stage import FilterSettings

_HERE = "saccade.sft.curate.filters"

FILTERS: Final = Registry[type[FilterSettings]](
    "filters",
    {
        "score@1": f"{_HERE}.score:MinimumScore",
        "exact-answer@1": f"{_HERE}.exact_answer:ExactAnswer",
        "tool-turns@1": f"{_HERE}.tool_turns:ToolTurns",
        "ended@1": f"{_HERE}.ended:Ended",
        "errors@1": f"{_HERE}.errors:ErrorTurns",
        "budget@1": f"{_HERE}.budget:Budget",
        "well-formed@1": f"{_HERE}.well_formed:WellFormed",
        "pass-rate@1": f"{_HERE}.pass_rate:PassRateFilter",
        "strata@1": f"{_HERE}.strata:Strata",
        "duplicates@1": f"{_HERE}.duplicates:Duplicates",
        "contamination@1": f"{_HERE}.contamination:Contamination",
        "cross-check@1": f"{_HERE}.cross_check:CrossCheck",
        "question-quality@1": f"{_HERE}.question_quality:QuestionQuality",
        "label-check@1": f"{_HERE}.label_check:LabelCheck",
        "outside-knowledge@1": f"{_HERE}.outside_knowledge:OutsideKnowledge",
        "leave-out@1": f"{_HERE}.leave_out:LeaveOut",
        "atomic@1": f"{_HERE}.atomic:Atomic",
        "reviewed@1": f"{_HERE}.reviewed:Reviewed",
        "image-informative@1": f"{_HERE}.image_informative:ImageInformative",
        "box-label@1": f"{_HERE}.box_label:BoxLabel",
        "mixture@1": f"{_HERE}.mixture:Mixture",
        "split@1": f"{_HERE}.split:SplitFilter",
    },
    is_subclass(FilterSettings, "a subclass of saccade.sft.curate.stage.FilterSettings"),
)


def load_filter(name: str) -> type[FilterSettings]:
    """Load the filter that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or it is no filter.
    """
    return FILTERS.load(name)
