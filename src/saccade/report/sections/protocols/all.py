"""The panels of all protocols, and the labels by which they let episodes be looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saccade.evals.protocols.errors.records import Errors
from saccade.evals.protocols.faithfulness.records import Faithfulness
from saccade.evals.protocols.findings import Findings
from saccade.report.runs.findings import Own
from saccade.report.sections.protocols.confidence import confidence
from saccade.report.sections.protocols.errors import ERRORS, error_labels, errors
from saccade.report.sections.protocols.faithfulness import TOOL_USE, faithfulness, outcome_of
from saccade.report.sections.protocols.own import own_panels
from saccade.report.sections.protocols.tokens import tokens
from saccade.report.sections.protocols.tool_use import tool_use
from saccade.report.sections.view import Panel, Section

_PANELS: Mapping[str, Callable[[Mapping[str, Any]], Panel | None]] = {
    "faithfulness": faithfulness,
    "tool_use": tool_use,
    "errors": errors,
    "tokens": tokens,
    "confidence": confidence,
}
LABELS = (*TOOL_USE.values(), *ERRORS)
"""Labels in the order in which they are offered first."""
NAMES = tuple(_PANELS)
"""The protocols that a report shows."""


def protocols(found: Mapping[str, Mapping[str, Findings]], own: Mapping[str, Mapping[str, Own]]) -> Section | None:
    """The section of what was found (run -> protocol -> findings); `own` are those of others. None if nothing was."""
    panels = []
    for name, make in _PANELS.items():
        panel = make({run: findings[name] for run, findings in found.items() if name in findings})
        if panel is not None:
            panels.append(panel)
    panels += own_panels(own)
    return Section("protocols", "Looking and reasoning", tuple(panels)) if panels else None


def labels(found: Mapping[str, Findings]) -> Iterator[tuple[str, str]]:
    """The ids of samples, each with a label that a protocol gives it."""
    if isinstance(one := found.get("faithfulness"), Faithfulness):
        yield from outcome_of(one)
    if isinstance(two := found.get("errors"), Errors):
        yield from error_labels(two)
