"""One event loop in a daemon thread for tools that are reached over a connection: HTTP and MCP.

Connections belong to the loop that opened them, and outlive the loops of episodes; so they have one of their own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_lock = threading.Lock()


def in_background(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run `work` on the loop of this process; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if os.getpid() not in _loops:  # after a fork the thread is the parent's
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="saccade-tools-loop", daemon=True).start()
            _loops[os.getpid()] = loop
        return _loops[os.getpid()]
