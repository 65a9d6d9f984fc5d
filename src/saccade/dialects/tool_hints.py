"""Which tools suit which questions: knowledge of the choice of tools, said in the prompt (VISTA-Gym's "T&R").

One line for each family of questions, of the tools that are on offer alone. The families are those of the paper's tools
and data; which tools suit them is our wording. The lines are the same for every task, so they give no answer away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from saccade.dialects.base import ToolDialect
from saccade.dialects.prompt_texts import SYSTEM, TOOL, Prompted, Prompts
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec

FAMILIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("charts", ("chartocr", "chartmoe", "deplot", "unichart", "chartdet", "opencv", "chartassistant", "chartvlm")),
    ("tables, forms and other print", ("ocr", "crop", "rotate")),
    ("diagrams of geometry", ("image_cdl", "construction_cdl", "diagram_formalizer")),
    ("problems of geometry", ("text_cdl", "goal_cdl", "inter_gps", "gllava", "multimath")),
    ("counting", ("contours", "color_mask", "grounding_dino", "hough_circles")),
    ("colours and coloured maps", ("color_stats", "color_mask")),
    ("small or hidden things", ("crop", "grounding_dino", "sam", "edges", "threshold")),
    ("lengths, lines and circles", ("hough_lines", "hough_circles", "draw")),
    ("videos", ("select_frames",)),
)
"""Family of questions -> tools, the one to try first in front."""

D = TypeVar("D")


def hint_lines(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """A line for each family for which a tool is on offer."""
    offered = {tool.name for tool in tools}
    named = ((family, [name for name in names if name in offered]) for family, names in FAMILIES)
    return tuple(f"- {family}: {', '.join(names)}" for family, names in named if names)


def hinted(dialect: D) -> D:
    """The dialect with the lines at the end of its system message.

    Raises:
        SettingsError: it lists no tools in its system message, or none of those that it lists is known here.
    """
    known: Any = dialect
    offers = isinstance(dialect, ToolDialect) and isinstance(dialect, Prompted)
    if not offers or TOOL not in known.prompts.templates or not known.prompts.templates.get(SYSTEM):
        name = getattr(dialect, "id", dialect)
        raise SettingsError(f"dialect {name} lists no tools in a system message. Leave out tool_hints.")
    lines = hint_lines(known.tools)
    if not lines:
        raise SettingsError(f"nothing is known of the tools that {known.id} offers. Leave out tool_hints.")
    prompts = known.prompts
    text = "\n".join([prompts.templates[SYSTEM], "", "Which tools suit which questions, the first ones first:", *lines])
    made: D = replace(known, prompts=Prompts({**prompts.templates, SYSTEM: text}, prompts.source))
    return made
