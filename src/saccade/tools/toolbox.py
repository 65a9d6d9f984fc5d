"""The tools that one episode offers: find the one that a model names, and call it.

Total for whatever a model writes: an unknown name is a result with a suggestion. Tools are made when the toolbox is,
their models and engines when first called. Tools that are named run in worker processes with a time limit
(`saccade.tools.workers`); a tool that is given as an object of `Tool` runs in this process, without one.
"""

from __future__ import annotations

from collections.abc import Iterable

from saccade.errors import ToolError
from saccade.record.status import Status
from saccade.record.suggest import did_you_mean
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolDefinition
from saccade.tools.named import named_tools
from saccade.tools.offered import OfferedTool
from saccade.tools.problem import Problem, ProblemKind
from saccade.tools.registry import TOOLS, lacking, own_name
from saccade.tools.result import ToolResult, failed
from saccade.tools.settings import DEFAULT_CALLS, ToolCallSettings
from saccade.tools.setup_check import warn_of_unread_tables


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
        """The tools of these names, as `saccade.tools.named` reads them; all that are registered for none.

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
        """What is offered, for prompts and for function-calling APIs."""
        return tuple(tool.definition for tool in self._tools.values())

    def missing(self) -> dict[str, str]:
        """The tools that lack something here -> how to get it."""
        return {name: tool.needs.remedy for name, tool in self._tools.items() if tool.needs.missing()}

    def resolve(self, name: str) -> str | None:
        """The own name of the tool that `name` means, None if none does."""
        return self._names.get(name)

    def call(self, name: str, arguments: object, context: ToolContext) -> ToolResult:
        """What the tool's `call` gives; for a name that is not offered, a result that says so."""
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
        hint = did_you_mean(name[:200], self._names) or f"Known: {', '.join(self._tools)}."
        problem = Problem(ProblemKind.SCHEMA, f"There is no tool named {shown!r}. {hint}")
        return failed(name, Status.ERROR, problem)
