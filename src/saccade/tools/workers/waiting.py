"""Calls of tools that wait for a server: side by side in this process, without a thread or a process for each."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import Any

from saccade.core.sync import in_background
from saccade.record.execution import Status
from saccade.tools.base import ToolCallInput, WaitingTool
from saccade.tools.context import Problem, ProblemKind, ToolResult, failed


class WaitingRoom:
    """At most `most` calls at once; further ones wait their turn. Any thread may submit."""

    def __init__(self, most: int) -> None:
        self.queued = 0
        """Calls that wait their turn."""
        self.running = 0
        """Calls that wait for a server."""
        self._free = asyncio.Semaphore(most)

    def submit(self, tool: WaitingTool[Any, Any], seconds: float, call: ToolCallInput) -> Future[ToolResult]:
        """Have a call done within `seconds` of its turn; cancelling the future ends it.

        A server that does not answer in time is an outage (`LOST`): nothing that the model wrote made it slow.
        """
        return in_background(self._done(tool, seconds, call))

    async def _done(self, tool: WaitingTool[Any, Any], seconds: float, call: ToolCallInput) -> ToolResult:
        self.queued += 1
        try:
            await self._free.acquire()
        finally:
            self.queued -= 1
        self.running += 1
        try:
            result = await asyncio.wait_for(tool.call_waiting(call), seconds)
        except TimeoutError:
            detail = f"{tool.name}: its server did not answer within {seconds:g} s, the time of a call"
            result = failed(tool.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))
        finally:
            self.running -= 1
            self._free.release()
        return result


_rooms: dict[tuple[int, int], WaitingRoom] = {}
_lock = threading.Lock()


def shared_room(most: int) -> WaitingRoom:
    """Return the room of this process with so many places; a fork has its own."""
    with _lock:
        return _rooms.setdefault((os.getpid(), most), WaitingRoom(most))
