"""What a name of a tool may be, wherever tools are named: in `--tools`, a recipe, or `Toolbox.of`.

    crop, zoom_in, crop@1       registered (here, or by an entry point of the group `saccade.tools`), or an alias
    my_tools.py:Flip            a class in a file or module of one's own
    my_tools.py                 every tool of that file
    http://host:8730#ocr,sam    tools of a server (`saccade tools serve`); without #, all of them
    mcp:COMMAND, mcp:URL        the tools of an MCP server

The last four run code, start a program or open a connection, so a stored record or a client of a server names none.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from saccade.errors import RegistryError
from saccade.record import own_code
from saccade.tools.base import Tool
from saccade.tools.offered import OfferedTool
from saccade.tools.registry import TOOLS, ToolSource
from saccade.tools.settings import ToolCallSettings

_MCP = "mcp:"
_HTTP = ("http://", "https://")


def named_tools(name: str, calls: ToolCallSettings) -> list[OfferedTool]:
    """The tools of a name, ready to be offered.

    Raises:
        RegistryError: there is no tool of such a name.
        ToolError: it cannot be made.
        UnavailableError: a server cannot be reached.
    """
    if name.startswith(_HTTP):
        from saccade.tools.served.tool import served_tools

        return list(served_tools(name, calls))
    if name.startswith(_MCP):
        from saccade.tools.mcp.tool import mcp_tools

        return list(mcp_tools(name.removeprefix(_MCP), calls))
    from saccade.tools.workers.tool import WorkerTool

    if name.endswith(".py"):
        return [WorkerTool(ToolSource(f"{name}:{tool}"), calls) for tool in _of_file(name)]
    return [WorkerTool(ToolSource(name), calls)]


def check_recorded_tools(names: Iterable[str]) -> None:
    """Raises `RegistryError` if a name that a stored record or a client gave is not that of a registered tool."""
    for name in names:
        if name.startswith((*_HTTP, _MCP)) or name.endswith(".py"):
            raise RegistryError(
                f"{name} is a program, a file or a server, and what a stored run or a client names is not run by "
                "itself. Name it in this command."
            )
        TOOLS.check_recorded(name)


def _of_file(path: str) -> list[str]:
    classes = {
        name: value
        for name, value in own_code.defined(path).items()
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
