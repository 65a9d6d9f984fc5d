"""Filters by name. Other packages add theirs by an entry point of the group `saccade.filters`."""

from __future__ import annotations

from typing import Final

from saccade.record.registry import Registry, is_subclass
from saccade.sft.curate.stage import FilterSettings


FILTERS: Final = Registry[type[FilterSettings]](
    "filters",
    {
        "score@1": "saccade.sft.curate.filters.score:MinimumScore",
        "exact-answer@1": "saccade.sft.curate.filters.exact_answer:ExactAnswer",
        "tool-turns@1": "saccade.sft.curate.filters.tool_turns:ToolTurns",
        "ended@1": "saccade.sft.curate.filters.ended:Ended",
        "errors@1": "saccade.sft.curate.filters.errors:ErrorTurns",
        "budget@1": "saccade.sft.curate.filters.budget:Budget",
        "well-formed@1": "saccade.sft.curate.filters.well_formed:WellFormed",
        "pass-rate@1": "saccade.sft.curate.filters.pass_rate:PassRateFilter",
        "strata@1": "saccade.sft.curate.filters.strata:Strata",
        "duplicates@1": "saccade.sft.curate.filters.duplicates:Duplicates",
        "contamination@1": "saccade.sft.curate.filters.contamination:Contamination",
        "cross-check@1": "saccade.sft.curate.filters.cross_check:CrossCheck",
        "question-quality@1": "saccade.sft.curate.filters.question_quality:QuestionQuality",
        "label-check@1": "saccade.sft.curate.filters.label_check:LabelCheck",
        "outside-knowledge@1": "saccade.sft.curate.filters.outside_knowledge:OutsideKnowledge",
        "leave-out@1": "saccade.sft.curate.filters.leave_out:LeaveOut",
        "atomic@1": "saccade.sft.curate.filters.atomic:Atomic",
        "reviewed@1": "saccade.sft.curate.filters.reviewed:Reviewed",
        "image-informative@1": "saccade.sft.curate.filters.image_informative:ImageInformative",
        "box-label@1": "saccade.sft.curate.filters.box_label:BoxLabel",
        "mixture@1": "saccade.sft.curate.filters.mixture:Mixture",
        "split@1": "saccade.sft.curate.filters.split:SplitFilter",
    },
    is_subclass(FilterSettings, "a subclass of saccade.sft.curate.stage.FilterSettings"),
)


def load_filter(name: str) -> type[FilterSettings]:
    """Load the filter that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or it is no filter.
    """
    return FILTERS.load(name)
