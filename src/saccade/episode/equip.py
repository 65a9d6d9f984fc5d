"""Which typed tools an episode offers, told to the dialect in its own way."""

from __future__ import annotations

from saccade.dialects.base import Dialect, ToolDialect
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec
from saccade.tools.toolbox import Toolbox


def equip(dialect: Dialect, tools: Toolbox) -> Dialect:
    """`dialect`, offering the tools of `tools` and no others.

    Raises:
        SettingsError: the dialect knows no typed tools.
    """
    if not isinstance(dialect, ToolDialect):
        raise SettingsError(
            f"dialect {dialect.id} offers no typed tools: its models write code. Use vista, deepeyes or native."
        )
    specs = tuple(ToolSpec(tool.name, tool.description, dict(tool.parameters)) for tool in tools.definitions)
    return dialect.with_tools(specs)
