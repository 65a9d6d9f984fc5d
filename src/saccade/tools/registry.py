"""Find the tools by versioned id, and by the other names under which published models call them.

Installed packages add tools by entry points of the group `saccade.tools`. A tool's class states all else that is known
of it: other names, families of questions, kind of operation. A tool that needs weights or a server is registered like
any other, so that a call of it is reported as unavailable and not as a name made up by the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final

from pydantic import JsonValue

from saccade.core.registry import Registry, all_of, described, did_you_mean, is_subclass
from saccade.core.seam import has_methods
from saccade.errors import SaccadeError, ToolError
from saccade.tools.base import OfferedTool, Tool
from saccade.tools.definition import NamedTool
from saccade.tools.setup import VARIABLE, ToolCallSettings, configured

TOOLS: Final = Registry[type[Tool[Any, Any]]](
    "tools",
    {
        "color_mask@1": "saccade.tools.measure:ColorMask",
        "color_stats@1": "saccade.tools.measure:ColorStats",
        "contours@1": "saccade.tools.measure:Contours",
        "crop@1": "saccade.tools.pictures:Crop",
        "draw@1": "saccade.tools.pictures:Draw",
        "edges@1": "saccade.tools.measure:Edges",
        "hough_circles@1": "saccade.tools.measure:HoughCircles",
        "hough_lines@1": "saccade.tools.measure:HoughLines",
        "match_template@1": "saccade.tools.measure:MatchTemplate",
        "rotate@1": "saccade.tools.pictures:Rotate",
        "select_frames@1": "saccade.tools.pictures:SelectFrames [video]",
        "threshold@1": "saccade.tools.measure:Threshold",
    },
    all_of(is_subclass(Tool, "a subclass of saccade.tools.base.Tool"), has_methods(Tool)),
)

TOOL_ORIGINS: Final = Registry[Callable[[str, ToolCallSettings], Sequence[OfferedTool]]](
    "tool-origins",
    {"mcp@1": "saccade.tools.mcp:mcp_tools"},
    lambda value: "" if callable(value) else f"it is {described(value)}, which cannot be called",
)
"""Where tools of other systems come from: what stands before a colon in `--tools`, as in `mcp:COMMAND` -> a function of
the text behind it and of how calls are run. Other packages add origins by the entry point group `saccade.tool-origins`.
"""

TOOL_LISTS: Final = Registry[Sequence[NamedTool]](
    "tool-lists", {}, lambda value: "" if isinstance(value, Sequence) else "it is no sequence of NamedTool"
)
"""The tools of a paper in its order and by its names, which `saccade tools list` shows first."""


def lacking(name: str) -> str:
    """Return how to get what the registered tool of that name lacks here; empty if it lacks nothing or is unknown."""
    return make_tool(name).needs.remedy if name in TOOLS.names() else ""


@cache
def aliases() -> Mapping[str, str]:
    """Return each other name of a registered tool -> the tool's own name, as the classes state them.

    Imports the tools, which takes about half a second; one that cannot be imported has no other names.
    """
    found: dict[str, str] = {}
    for tool in TOOLS.names():
        kind = _class(tool)
        for alias in kind.aliases if kind else ():
            found.setdefault(alias.name, tool)
    return MappingProxyType(found)


def own_name(name: str) -> str:
    """Return the own name of the registered tool that has `name` as an alias; every other text as it is."""
    return name if TOOLS.has(name) or TOOLS.code(name) is not None else aliases().get(name, name)


def tool_class(name: str) -> type[Tool[Any, Any]] | None:
    """Return the class of a registered tool by any of its names; None if there is none, or it cannot be imported."""
    own = own_name(name)
    return _class(own) if TOOLS.has(own) else None


def _class(registered: str) -> type[Tool[Any, Any]] | None:
    try:
        return TOOLS.load(registered)
    except SaccadeError:
        return None


@dataclass(frozen=True, slots=True)
class ToolSource:
    """How a tool is made, in this process or another."""

    name: str
    """Name, alias, versioned id, or the user's own class."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Arguments of the constructor, such as where weights are."""

    def make(self) -> Tool[Any, Any]:
        """Return a new tool. Raises as `make_tool` does."""
        return make_tool(self.name, self.options)

    def elsewhere(self) -> ToolSource:
        """Return the same where the current folder is another: the file of the user's code by its absolute path."""
        code = TOOLS.code(self.name)
        if code is None or not code.is_file:
            return self
        return ToolSource(f"{code.path}:{code.attribute}", self.options)


def make_tool(name: str, options: Mapping[str, JsonValue] = MappingProxyType({})) -> Tool[Any, Any]:
    """Make the tool of that name, alias or versioned id, or of the user's own class (`file.py:NAME`, `module:NAME`).

    `options` are the arguments of its constructor.

    Raises `RegistryError`: nothing has that name (suggests the nearest), or it is no tool; `ToolError`: the class lacks
    something that a tool declares, or does not take these options.
    """
    return _made(name, TOOLS.load(own_name(name)), options)


def recorded_tool(name: str) -> Tool[Any, Any]:
    """Return the tool that a model or a record named; no code is run for it. Raises as `make_tool`."""
    return _made(name, TOOLS.load_recorded(own_name(name)), {})


def _made(spec: str, kind: type[Tool[Any, Any]], options: Mapping[str, JsonValue]) -> Tool[Any, Any]:
    missing = [name for name in ("name", "description", "arguments", "result") if not hasattr(kind, name)]
    if missing:
        raise ToolError(f"{spec} is a tool without {', '.join(missing)}: give the class these attributes.")
    try:
        return kind(**options)
    except TypeError as error:  # an abstract method, or a constructor that takes other arguments
        given = f"the options {', '.join(options)}" if options else "no arguments"
        raise ToolError(
            f"{spec} cannot be made with {given}: {error}. A tool has a method `run`, and every argument of its "
            "constructor has a default."
        ) from error


# Whether every table of the setup of tools belongs to a tool.
#
# A warning and no error: a tool in a file of the user's own, which is registered nowhere, may read a table too.


_log = logging.getLogger(__name__)


def warn_of_unread_tables() -> None:
    """Log each table that no registered tool reads, once in a process. Raises as `tool_setup`."""
    for name in sorted(configured()):
        if not TOOLS.has(name):
            _warn(name)


@lru_cache(maxsize=64)
def _warn(name: str) -> None:
    known = aliases().get(name)
    hint = f"Its table is [{known}]." if known else did_you_mean(name, TOOLS.names())
    _log.warning("the setup that %s names has a table [%s], but no tool is registered so. %s", VARIABLE, name, hint)
