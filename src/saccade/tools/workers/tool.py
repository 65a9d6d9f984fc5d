"""A typed tool whose calls are done in a worker process; a wrong call is answered without one."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from saccade.tools.base import Tool, ToolCallInput
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolDefinition
from saccade.tools.offered import OutsideTool, done
from saccade.tools.registry import ToolSource
from saccade.tools.result import ToolResult
from saccade.tools.settings import DEFAULT_CALLS, ToolCallSettings
from saccade.tools.workers.pool import PooledTool
from saccade.tools.workers.shared import shared_pool


class WorkerTool(OutsideTool):
    """Stands for a tool of a `ToolSource`, of which this process has an object without weights."""

    def __init__(self, source: ToolSource, settings: ToolCallSettings = DEFAULT_CALLS) -> None:
        """Starts nothing. Raises `RegistryError` or `ToolError` if the tool cannot be made."""
        self._tool: Tool[Any, Any] = source.make()
        self._settings = settings
        self.name, self.aliases, self.needs = self._tool.name, self._tool.aliases, self._tool.needs
        self._pooled = PooledTool(self.name, source.elsewhere(), settings.seconds, self._tool.batch)

    @property
    def definition(self) -> ToolDefinition:
        return self._tool.definition

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        checked = self._tool.checked(arguments, alias=alias)
        if isinstance(checked, ToolResult):
            return done(checked)
        pool = shared_pool(self._tool.cost, self._settings.workers)
        return pool.submit(self._pooled, ToolCallInput(arguments, context, alias))
