"""Filters by name. Other packages add theirs by an entry point of the group `saccade.filters`."""

from __future__ import annotations

from typing import Final

from saccade.core.registry import Registry, all_of, is_subclass
from saccade.core.seam import has_methods
from saccade.training.sft.curate.stage import FilterSettings

FILTERS: Final = Registry[type[FilterSettings]](
    "filters",
    {
        "score@1": "saccade.training.sft.curate.filters.episodes:MinimumScore",
        "exact-answer@1": "saccade.training.sft.curate.filters.judged:ExactAnswer",
        "tool-turns@1": "saccade.training.sft.curate.filters.episodes:ToolTurns",
        "ended@1": "saccade.training.sft.curate.filters.episodes:Ended",
        "errors@1": "saccade.training.sft.curate.filters.episodes:ErrorTurns",
        "budget@1": "saccade.training.sft.curate.filters.episodes:Budget",
        "well-formed@1": "saccade.training.sft.curate.filters.episodes:WellFormed",
        "pass-rate@1": "saccade.training.sft.curate.filters.episodes:PassRateFilter",
        "strata@1": "saccade.training.sft.curate.filters.mixture:Strata",
        "duplicates@1": "saccade.training.sft.curate.filters.overlap:Duplicates",
        "contamination@1": "saccade.training.sft.curate.filters.overlap:Contamination",
        "cross-check@1": "saccade.training.sft.curate.filters.judged:CrossCheck",
        "question-quality@1": "saccade.training.sft.curate.filters.judged:QuestionQuality",
        "label-check@1": "saccade.training.sft.curate.filters.judged:LabelCheck",
        "outside-knowledge@1": "saccade.training.sft.curate.filters.judged:OutsideKnowledge",
        "leave-out@1": "saccade.training.sft.curate.filters.mixture:LeaveOut",
        "atomic@1": "saccade.training.sft.curate.filters.judged:Atomic",
        "reviewed@1": "saccade.training.sft.curate.filters.mixture:Reviewed",
        "image-informative@1": "saccade.training.sft.curate.filters.judged:ImageInformative",
        "box-label@1": "saccade.training.sft.curate.filters.mixture:BoxLabel",
        "mixture@1": "saccade.training.sft.curate.filters.mixture:Mixture",
        "split@1": "saccade.training.sft.curate.filters.mixture:SplitFilter",
    },
    all_of(
        is_subclass(FilterSettings, "a subclass of saccade.training.sft.curate.stage.FilterSettings"),
        has_methods(FilterSettings),
    ),
)


def load_filter(name: str) -> type[FilterSettings]:
    """Load the filter that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that name (suggests the nearest), or it is no filter.
    """
    return FILTERS.load(name)
