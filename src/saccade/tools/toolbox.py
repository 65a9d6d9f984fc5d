"""The tools that one episode offers: find the one that a model names, and call it.

Total for whatever a model writes: an unknown name is a result with a suggestion. Tools are made when the toolbox is,
their models and engines when first called. Tools that are named run in worker processes with a time limit
(`saccade.tools.workers`); a tool that is given as an object of `Tool` runs in this process, without one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from saccade.core import registry
from saccade.core.registry import did_you_mean
from saccade.errors import RegistryError, ToolError
from saccade.record.execution import Status
from saccade.tools.base import OfferedTool, Tool
from saccade.tools.context import Problem, ProblemKind, ToolContext, ToolResult, failed
from saccade.tools.definition import ToolDefinition
from saccade.tools.registry import TOOL_ORIGINS, TOOLS, ToolSource, lacking, own_name, warn_of_unread_tables
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

# What a name of a tool may be, wherever tools are named: in `--tools`, a recipe, or `Toolbox.of`.
#
#     crop, zoom_in, crop@1       registered (here, or by an entry point of the group `saccade.tools`), or an alias
#     my_tools.py:Flip            a class in a file or module of the user's own
#     my_tools.py                 every tool of that file
#     http://host:8730#ocr,sam    tools of a server (`saccade tools serve`); without #, all of them
#     mcp:COMMAND, mcp:URL        the tools of an MCP server
#     verl-tool:URL#zoom_in       calls that a server of verl-tool takes; further origins by `saccade.tool-origins`
#
# The last five run code, start a program or open a connection, so a stored record or a client of a server names none.


_HTTP = ("http://", "https://")


def named_tools(name: str, calls: ToolCallSettings) -> list[OfferedTool]:
    """Return the tools of a name, ready to be offered.

    Raises:
        RegistryError: there is no tool of such a name.
        ToolError: it cannot be made.
        UnavailableError: a server cannot be reached.
    """
    if name.startswith(_HTTP):
        from saccade.tools.served import served_tools

        return list(served_tools(name, calls))
    origin, _, rest = name.partition(":")
    if TOOL_ORIGINS.has(origin):
        return list(TOOL_ORIGINS.load(origin)(rest, calls))
    from saccade.tools.workers.pool import WorkerTool

    if name.endswith(".py"):
        return [WorkerTool(ToolSource(f"{name}:{tool}"), calls) for tool in _of_file(name)]
    return [WorkerTool(ToolSource(name), calls)]


def check_recorded_tools(names: Iterable[str]) -> None:
    """Raises `RegistryError` if a name that a stored record or a client gave is not that of a registered tool."""
    for name in names:
        if name.startswith(_HTTP) or TOOL_ORIGINS.has(name.partition(":")[0]) or name.endswith(".py"):
            raise RegistryError(
                f"{name} is a program, a file or a server, and what a stored run or a client names is not run by "
                "itself. Name it in this command."
            )
        TOOLS.check_recorded(name)


def _of_file(path: str) -> list[str]:
    classes = {
        name: value
        for name, value in registry.defined(path).items()
        if inspect.isclass(value) and issubclass(value, Tool) and value is not Tool
    }
    tools = [name for name, value in classes.items() if not inspect.isabstract(value)]
    if not tools:
        for name, value in classes.items():
            if not value.__module__.startswith("saccade."):
                lacking = ", ".join(sorted(value.__abstractmethods__))
                raise RegistryError(f"{path} has no tool that is whole: {name} lacks {lacking}. Write it.")
        raise RegistryError(f"{path} has no tool: a subclass of saccade.tools.base.Tool. docs/tools.md shows one.")
    return tools


class Toolbox:
    """A fixed set of tools, by their own names and their aliases."""

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._tools: dict[str, OfferedTool] = {}
        for tool in tools:
            if self._tools.setdefault(tool.name, tool) is not tool:
                raise ToolError(f"two tools are called {tool.name}: offer one of the two")
        self._names = {name: name for name in self._tools}
        for tool in self._tools.values():
            for alias in tool.aliases:
                if self._names.setdefault(alias.name, tool.name) != tool.name:
                    raise ToolError(
                        f"{alias.name!r} names both {self._names[alias.name]} and {tool.name}: offer one of the two"
                    )

    @classmethod
    def of(cls, *names: str, calls: ToolCallSettings = DEFAULT_CALLS) -> Toolbox:
        """Return the tools of these names, as `saccade.tools.toolbox` reads them; all that are registered for none.

        Raises:
            RegistryError: a name is unknown; suggests the nearest.
            ToolError: two tools have one name, or one cannot be made.
            UnavailableError: a server of tools cannot be reached.
            SettingsError: the setup of tools cannot be read.
        """
        warn_of_unread_tables()
        wanted = names or TOOLS.names()
        return cls(tool for name in wanted for tool in named_tools(name, calls))

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Tools on offer, for prompts and for function-calling APIs."""
        return tuple(tool.definition for tool in self._tools.values())

    def missing(self) -> dict[str, str]:
        """Return the tools that lack something here -> how to get it."""
        return {name: tool.needs.remedy for name, tool in self._tools.items() if tool.needs.missing()}

    def resolve(self, name: str) -> str | None:
        """Return the own name of the tool that `name` means, None if none does."""
        return self._names.get(name)

    def call(self, name: str, arguments: object, context: ToolContext) -> ToolResult:
        """Return the result of the tool's `call`; for a name that is not offered, a result that says so."""
        own = self.resolve(name)
        return self._unknown(name) if own is None else self._tools[own].call(arguments, context, alias=name)

    async def call_async(self, name: str, arguments: object, context: ToolContext) -> ToolResult:
        """As `call`, without holding up the event loop; when it is cancelled, nobody waits for the tool."""
        own = self.resolve(name)
        return self._unknown(name) if own is None else await self._tools[own].call_async(arguments, context, alias=name)

    def _unknown(self, name: str) -> ToolResult:
        known = own_name(name)
        if remedy := lacking(known):
            message = f"{known} is not available here. Use one of: {', '.join(self._tools)}."
            return failed(known, Status.REFUSED, Problem(ProblemKind.UNAVAILABLE, message, f"To have it: {remedy}."))
        shown = name[:60].encode("utf-8", "replace").decode()
        hint = did_you_mean(name[:200], self._names) or (
            f"Known: {', '.join(self._tools)}." if self._tools else "None is offered here."
        )
        problem = Problem(ProblemKind.SCHEMA, f"There is no tool named {shown!r}. {hint}")
        return failed(name, Status.ERROR, problem)
