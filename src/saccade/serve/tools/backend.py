"""What runs the tools of a server: pools of processes here, or deployments of Ray Serve (`ray_serve`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from saccade.serve.tools.media import HeldMedia
from saccade.serve.tools.settings import GroupedTool, ToolServeSettings
from saccade.tools.base import ToolCallInput
from saccade.tools.result import ToolResult
from saccade.tools.served.wire import ServedCall, ServedDefinition, ServedTools
from saccade.tools.workers.pool import PooledTool, WorkerPool


class ToolBackend(Protocol):
    """Runs calls. Everything that a client may send has been checked, and its media are held."""

    offered: ServedTools

    async def call(self, name: str, call: ServedCall, media: HeldMedia) -> ToolResult:
        """The result; LOST if what runs the tool failed. Raises `MediaError` for a medium of the wrong kind."""

    def gauges(self) -> dict[str, dict[str, float]]:
        """Numbers of now and counters: name -> label (a group, or a reason) -> number."""

    async def close(self) -> None:
        """End what runs."""


class PooledBackend:
    """A pool of worker processes for each group, on this machine."""

    def __init__(self, settings: ToolServeSettings) -> None:
        """Starts nothing yet. Raises as `ToolServeSettings.made`."""
        self._pools = {name: WorkerPool(group.workers, group.threads) for name, group in settings.grouped().items()}
        self._tools = settings.made()
        self.offered = offered(self._tools)

    async def call(self, name: str, call: ServedCall, media: HeldMedia) -> ToolResult:
        given = ToolCallInput(call.arguments, media.context(call.media, call.numbering), call.alias)
        tool = self._tools[name]
        return await asyncio.wrap_future(self._pools[tool.group].submit(pooled(tool, call), given))

    def pools(self) -> tuple[WorkerPool, ...]:
        """A pool for each group."""
        return tuple(self._pools.values())

    def gauges(self) -> dict[str, dict[str, float]]:
        pools = self._pools.items()
        batches = {name: pool.counts.batches for name, pool in pools}
        return {
            "queued_calls": {name: pool.queued for name, pool in pools},
            "busy_workers": {name: pool.running for name, pool in pools},
            "worker_restarts_total": {name: sum(pool.counts.restarts.values()) for name, pool in pools},
            "batches_total": {name: sum(counts.values()) for name, counts in batches.items()},
            "batched_calls_total": {name: sum(size * n for size, n in b.items()) for name, b in batches.items()},
        }

    async def close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(pool.close) for pool in self._pools.values()))


def offered(tools: Mapping[str, GroupedTool]) -> ServedTools:
    """What a host is told of the tools."""
    return ServedTools(tools=tuple(ServedDefinition.of(item.tool.definition, item.group) for item in tools.values()))


def pooled(tool: GroupedTool, call: ServedCall) -> PooledTool:
    """A tool as a pool runs it for one call, within the shorter of both time limits."""
    return PooledTool(tool.tool.name, tool.source, min(tool.seconds, call.seconds), tool.tool.batch)
