"""What a toolbox offers, wherever the work is done: in this process, in a worker process, or behind a server.

`OfferedTool` is what an episode needs of a tool. `OutsideTool` is one whose work is done elsewhere: its calls are
futures, so any number of them can wait without a thread each.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Future

from saccade.tools.context import ToolContext
from saccade.tools.definition import Alias, Needs, ToolDefinition
from saccade.tools.result import ToolResult


class OfferedTool(ABC):
    """A tool that can be described and called."""

    name: str
    aliases: tuple[Alias, ...] = ()
    needs: Needs = Needs()

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """Name, texts, schemas and needs."""

    @abstractmethod
    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """Call it and wait. Total: every failure is a typed result.

        Args:
            arguments: What the model wrote, as decoded JSON.
            context: The images and videos of the episode.
            alias: The name under which the tool was called, if it was an alias.

        Raises:
            ToolError: the tool has no such alias (a mistake of the caller, not of the model).
        """

    async def call_async(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        """As `call`, without holding up the event loop."""
        return await asyncio.to_thread(self.call, arguments, context, alias=alias)


class OutsideTool(OfferedTool):
    """A tool whose work is done in another process."""

    @abstractmethod
    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        """Begin the call; takes and raises what `call` does. Cancelling the future gives up what has not begun."""

    def call(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        return self.submit(arguments, context, alias=alias).result()

    async def call_async(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> ToolResult:
        return await asyncio.wrap_future(self.submit(arguments, context, alias=alias))


def done(result: ToolResult) -> Future[ToolResult]:
    """A call that is over."""
    future: Future[ToolResult] = Future()
    future.set_result(result)
    return future
