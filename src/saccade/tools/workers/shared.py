"""The pools of this process: one for each class of cost, so that a crop does not wait behind a detector.

They outlive the event loops and toolboxes that use them, so weights are loaded once. A process that was forked has
pools of its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Final

from saccade.tools.definition import Cost
from saccade.tools.workers.pool import WorkerPool

MOST_WORKERS: Final = 8
"""Of a pool whose number of workers is not set."""

_pools: dict[tuple[int, Cost, int], WorkerPool] = {}
_lock = threading.Lock()


def shared_pool(cost: Cost, workers: int) -> WorkerPool:
    """The pool of this process for tools of that cost, with so many workers (0: as `ToolCallSettings` says)."""
    cores = os.cpu_count() or 1
    count = 1 if cost is Cost.HEAVY else workers or min(cores, MOST_WORKERS)
    key = (os.getpid(), cost, count)
    with _lock:
        if key not in _pools:
            _pools[key] = WorkerPool(count, threads=max(1, cores // count))
            atexit.register(_pools[key].close)
        return _pools[key]


def close_shared_pools() -> None:
    """End every worker process of this process; the next call starts them anew."""
    with _lock:
        own = [key for key in _pools if key[0] == os.getpid()]
        pools = [_pools.pop(key) for key in own]
    for pool in pools:
        atexit.unregister(pool.close)
        pool.close()
