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
from saccade.tools.registry import tool_class

FAMILIES: Final = (
    "charts",
    "tables, forms and other print",
    "diagrams of geometry",
    "problems of geometry",
    "counting",
    "colours and coloured maps",
    "small or hidden things",
    "lengths, lines and circles",
    "videos",
)
"""Families of questions in the order of their lines; others that a tool names follow by name."""

D = TypeVar("D")


def hint_lines(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """Return a line for each family that a registered tool on offer suits, its tools in the order to try them."""
    classes = [kind for tool in tools if (kind := tool_class(tool.name))]
    suits = {kind.name: dict(kind.suits) for kind in classes}
    further = sorted({family for families in suits.values() for family in families} - set(FAMILIES))
    lines = []
    for family in (*FAMILIES, *further):
        names = sorted((places[family], name) for name, places in suits.items() if family in places)
        if names:
            lines.append(f"- {family}: {', '.join(name for _, name in names)}")
    return tuple(lines)


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
