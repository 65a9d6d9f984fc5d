"""Which tools suit which questions: knowledge of the choice of tools, said in the prompt (VISTA-Gym's "T&R").

One line for each family of questions, of the tools that are on offer alone. The families are those of the paper's tools
and data; which tools suit them is our wording. The lines are the same for every task, so they give no answer away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_texts import SYSTEM, TOOL
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


def hinted(dialect: Dialect) -> Dialect:
    """Return the dialect with the lines at the end of its system message.

    Raises:
        SettingsError: it lists no tools in its system message, or no registered tool of those says what it suits.
    """
    texts = dialect.prompts.templates
    if not dialect.offers_tools or TOOL not in texts or not texts.get(SYSTEM):
        raise SettingsError(f"dialect {dialect.id} lists no tools in a system message. Leave out tool_hints.")
    lines = hint_lines(dialect.tools)
    if not lines:
        raise SettingsError(f"nothing is known of the tools that {dialect.id} offers. Leave out tool_hints.")
    return dialect.with_text(
        SYSTEM, "\n".join([texts[SYSTEM], "", "Which tools suit which questions, the first ones first:", *lines])
    )
