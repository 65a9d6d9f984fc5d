"""The worker process: makes each tool once, keeps it with its weights, and does one job after the other.

It ends when the other side closes the socket, and is killed by the kernel when that process dies, also in the middle of
a call. What a tool prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import resource
import signal
import sys
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any

from saccade.errors import SaccadeError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import Tool, ToolCallInput
from saccade.tools.context import ToolResult
from saccade.tools.registry import ToolSource


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Calls of one tool, to be done together; without any, the tool is loaded."""

    source: ToolSource
    calls: tuple[ToolCallInput, ...]


class WorkerState(StrEnum):
    """How far a worker is."""

    READY = "ready"
    """It has started and waits for jobs."""
    LOADED = "loaded"
    """The tool of the job is there with its weights; the call begins."""


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """The job could not be done, for no fault of the calls."""

    detail: str


WorkerReply = WorkerState | WorkerFault | list[ToolResult]


_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int) -> None:
    """Serve the process `parent` at the other end of the socket `descriptor` until it is closed."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing out gigabytes of weights takes minutes
    logging.getLogger("saccade").addHandler(logging.NullHandler())  # what failed is told, and logged, by the parent
    tools: dict[str, Tool[Any, Any]] = {}
    with Connection(descriptor) as connection:
        _send(connection, WorkerState.READY)
        while True:
            try:
                job = pickle.loads(connection.recv_bytes())
            except EOFError:
                return
            _send(connection, _done(job, tools, connection))


def _done(job: WorkerJob, tools: dict[str, Tool[Any, Any]], connection: Connection) -> WorkerReply:
    key = repr(job.source)
    try:
        tool = tools.get(key) or job.source.make()
        failure = None if key in tools else _load(tool)
        _send(connection, WorkerState.LOADED)
        if not job.calls:
            results = [ToolResult(tool.name, Status.OK) if failure is None else tool.not_loaded(failure)]
        elif failure is None or isinstance(failure, UnavailableError):  # the latter: the call itself says so
            results = tool.call_batch(job.calls)
        else:
            results = [tool.not_loaded(failure)] * len(job.calls)
    except SaccadeError as error:
        return WorkerFault(str(error))
    if failure is None:  # otherwise the next call tries to load it again
        tools[key] = tool
    return results


def _load(tool: Tool[Any, Any]) -> Exception | None:
    try:
        if not tool.needs.missing():
            tool.load()
    except Exception as error:  # of a tool of the user's own, anything
        return error
    return None


def _send(connection: Connection, reply: WorkerReply) -> None:
    connection.send_bytes(pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before that was set
        os._exit(1)
