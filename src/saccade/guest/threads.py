"""End the threads that a call has left waiting for work, and name those that still work.

A session is forked between calls, and a fork has only the thread that made it. Pools of the standard library start
their threads again when they are next used; of any others a note tells. A thread that works cannot be kept.
"""

from __future__ import annotations

import ctypes
import queue
import sys
import threading
from _thread import _count, get_ident
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic, sleep
from types import CodeType, FrameType
from typing import Any

count_threads = _count
"""How many threads Python has started that have not ended."""
_STEP = 0.005
_AGAIN = "Threads do not live from call to call"
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_WAIT = threading.Condition.wait.__code__
_POOL_LOOPS = frozenset({"worker", "_handle_tasks", "_handle_results", "_handle_workers"})


def settle(before: int, seconds: float, is_cell: Callable[[str], bool]) -> tuple[str | None, str | None]:
    """Wait until no thread beyond the first `before` works, and end those that wait; a note, and why it cannot stay."""
    end = monotonic() + seconds
    while count_threads() > before:
        busy = {ident: frame for ident, frame in _others().items() if not _waits(frame)}
        if not busy and not any(pool._cache for pool in _pools()):
            break
        if monotonic() >= end:
            return None, _still(busy or _others(), "still worked", is_cell)
        del busy  # the frames of ended threads would keep what they hold
        sleep(_STEP)
    _end_pools()
    return _end_waiting(before, monotonic() + seconds + 1, is_cell)


def _end_waiting(before: int, end: float, is_cell: Callable[[str], bool]) -> tuple[str | None, str | None]:
    told: dict[int, str] = {}
    while count_threads() > before:
        for ident, frame in _others().items():
            waiter = frame.f_locals.get("waiter") if frame.f_code is _WAIT else None
            if waiter is not None and _raise_in(ctypes.c_ulong(ident), ctypes.py_object(SystemExit)):
                told.setdefault(ident, _name(ident, frame, is_cell))
                with suppress(RuntimeError):  # it was woken meanwhile
                    waiter.release()
        if monotonic() >= end:
            return None, _still(_others(), "could not be ended", is_cell)
        sleep(_STEP)
    if not told:
        return None, None
    names = _listed(told.values())
    return f"Threads that waited when the code ended were ended: {names}. {_AGAIN}: start them in each call.", None


def _still(frames: dict[int, FrameType], what: str, is_cell: Callable[[str], bool]) -> str:
    names = _listed(_name(ident, frame, is_cell) for ident, frame in frames.items())
    return (
        f"Threads {what} when the code ended: {names}. {_AGAIN}: join() them (and use `with` for a "
        "ThreadPoolExecutor), then the call can be kept."
    )


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:5]) + (f" and {len(known) - 5} more" if len(known) > 5 else "")


def _others() -> dict[int, FrameType]:
    return {ident: frame for ident, frame in sys._current_frames().items() if ident != get_ident()}


def _stack(frame: FrameType | None) -> Iterable[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name(ident: int, frame: FrameType, is_cell: Callable[[str], bool]) -> str:
    """Return the thread's own name, and where in a cell it is."""
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    own = (one for one in _stack(frame) if is_cell(one.f_code.co_filename))
    place = next((f", at line {one.f_lineno} of {one.f_code.co_filename}" for one in own), "")
    kind = f" ({type(thread).__name__})" if isinstance(thread, threading.Timer) else ""
    return f"{str(thread.name)[:80] if thread is not None else ident}{kind}{place}"


def _waits(frame: FrameType) -> bool:
    """Return whether a thread whose innermost frame this is waits to be woken by another one."""
    code = frame.f_code
    if code is _WAIT:
        waiter = frame.f_locals.get("waiter")
        return waiter is not None and bool(waiter.locked())
    if _of_module(code, "threading"):
        return code.co_name in ("_wait_for_tstate_lock", "join")  # of a thread that waits, or works itself
    if _of_module(code, "concurrent.futures.thread"):
        return code.co_name == "_worker"
    if _of_module(code, "multiprocessing.pool"):
        return code.co_name in _POOL_LOOPS
    return any(
        one.f_code.co_name == "_handle_workers" and _of_module(one.f_code, "multiprocessing.pool")
        for one in _stack(frame)
    )


def _of_module(code: CodeType, name: str) -> bool:
    return name in sys.modules and code.co_filename == getattr(sys.modules[name], "__file__", None)


def _pools() -> list[Any]:
    """Return every `ThreadPool` that has not ended."""
    kind = getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", None)
    if kind is None:
        return []
    ends = getattr(sys.modules.get("multiprocessing.util"), "_finalizer_registry", {})
    owners = [end._weakref() for end in list(ends.values()) if getattr(end, "_weakref", None) is not None]
    return [owner for owner in owners if isinstance(owner, kind)]


def _end_pools() -> None:
    """End the threads of pools of the standard library; the pools can be used again."""
    for pool in _pools():
        state = pool._state
        pool.terminate()
        pool.join()
        pool._state, pool._change_notifier, pool._saccade_ended = state, queue.SimpleQueue(), True
    module = sys.modules.get("concurrent.futures.thread")
    # The first argument of a worker is a weak reference to its executor.
    arguments = [getattr(thread, "_args", ()) for thread in list(getattr(module, "_threads_queues", ()))]
    executors = {id(owner): owner for owner in (args[0]() for args in arguments if args) if owner is not None}
    closed = [owner._shutdown for owner in executors.values()]
    for owner in executors.values():
        owner.shutdown(wait=True)
    for owner, was_closed in zip(executors.values(), closed, strict=True):
        owner._shutdown, owner._work_queue = was_closed, queue.SimpleQueue()
        owner._threads.clear()
        owner._idle_semaphore = threading.Semaphore(0)
