"""Which typed tools an episode offers: described to the dialect in its own way, and put together to be called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_texts import SYSTEM, TOOL
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec
from saccade.tools.settings import DEFAULT_CALLS, ToolCallSettings

if TYPE_CHECKING:
    from saccade.tools.toolbox import Toolbox


def equipped(
    dialect: Dialect, names: Sequence[str] = (), calls: ToolCallSettings = DEFAULT_CALLS
) -> tuple[Dialect, Toolbox | None]:
    """The dialect that offers the tools of these names, and the toolbox that answers its calls.

    Without names: what the dialect offers by itself (DeepEyes its zoom, `native` its Python alone); a dialect that
    offers nothing by itself (`vista`) gets every tool that lacks nothing here. A dialect that writes code
    alone has no toolbox.

    Raises:
        SettingsError: names are given, and the dialect knows no typed tools, or one needs what is not installed.
        RegistryError: there is no tool of such a name.
    """
    if not dialect.offers_tools:
        return (dialect.with_tools(()) if names else dialect), None
    from saccade.tools.toolbox import Toolbox  # and the tools, which most episodes do without

    if not names and dialect.tools:
        return dialect, Toolbox.of(*(tool.name for tool in dialect.tools), calls=calls)
    if not names and dialect.functions:
        return dialect, None
    if names and TOOL in dialect.prompts.templates:
        prompts = dialect.prompts
        if SYSTEM in prompts.templates and not prompts.has_field(SYSTEM, "tools"):
            raise SettingsError(
                f"tools are named, and the system message of {prompts.source} has no {{tools}} where they could be "
                "listed. Add it, or leave tools out."
            )
    tools = Toolbox.of(*names, calls=calls)
    if names and (missing := tools.missing()):
        listed = "; ".join(f"{name} ({need})" for name, need in missing.items())
        raise SettingsError(f"not available here, so no model could call it: {listed}. Or do not name it.")
    if missing := tools.missing():
        tools = Toolbox.of(*(tool.name for tool in tools.definitions if tool.name not in missing), calls=calls)
    specs = tuple(ToolSpec(tool.name, tool.description, dict(tool.parameters)) for tool in tools.definitions)
    return dialect.with_tools(specs), tools


def missing_words(tools: Toolbox | None) -> str:
    """What a person should know of tools that lack something here, where all others are offered; empty for none."""
    if tools is None:
        return ""  # and no tool is imported, which takes a second
    from saccade.tools.toolbox import Toolbox

    everything = Toolbox.of()
    missing = everything.missing()
    ready = {tool.name for tool in everything.definitions if tool.name not in missing}
    if not missing or {tool.name for tool in tools.definitions} != ready:
        return ""
    return f"Not available here, so not offered: {', '.join(missing)}. `saccade tools list` says why."
