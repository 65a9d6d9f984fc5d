"""A tool that a server runs: a tool like any other to whoever calls it."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Final

from saccade.core.sync import in_background
from saccade.errors import ToolError
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolDefinition
from saccade.tools.offered import OutsideTool
from saccade.tools.result import ToolResult
from saccade.tools.served.client import ToolServer
from saccade.tools.settings import ToolCallSettings

TOKEN_VARIABLE: Final = "SACCADE_TOOLS_TOKEN"
"""Environment variable with the token of servers of tools."""


class ServedTool(OutsideTool):
    """One tool of a server."""

    def __init__(self, server: ToolServer, definition: ToolDefinition) -> None:
        self._server, self._definition = server, definition
        self.name, self.aliases = definition.name, definition.aliases

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        if alias is not None and alias != self.name and alias not in {item.name for item in self.aliases}:
            raise ToolError(f"{self.name} has no alias {alias!r}; look names up in a Toolbox before the call")
        return in_background(self._server.call(self.name, arguments, context, alias))


def served_tools(address: str, settings: ToolCallSettings) -> list[ServedTool]:
    """The tools of the server at `http://host:port`, or of `http://host:port#name,name` those that are named.

    The token is in the environment, in `SACCADE_TOOLS_TOKEN`.

    Raises:
        UnavailableError: the server cannot be reached, or wants another token.
        ToolError: it has no tool of such a name.
    """
    url, _, wanted = address.partition("#")
    server = ToolServer(url, os.environ.get(TOKEN_VARIABLE), settings)
    offered = {item.name: item for item in server.tools().tools}
    names = [name.strip() for name in wanted.split(",")] if wanted else list(offered)
    if unknown := [name for name in names if name not in offered]:
        raise ToolError(f"{url} has no tool {', '.join(unknown)}. It has: {', '.join(offered)}.")
    return [ServedTool(server, offered[name].definition()) for name in names]
