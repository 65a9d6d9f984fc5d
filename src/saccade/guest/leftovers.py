"""What a cell must not leave behind: threads, processes, timers, signal handlers, trace functions, broken builtins.

A thread or a process does not survive the next fork, so a call that leaves one is refused; the rest is put back.
"""

from __future__ import annotations

import builtins
import faulthandler
import importlib
import operator
import os
import signal
import sys
from _thread import _count as count_threads
from contextlib import suppress
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

GRACE = 0.2
"""Seconds that threads and processes get to end by themselves."""
_STEP = 0.005

_live_builtins = builtins.__dict__
_all, _map, _is = all, map, operator.is_
_timers = tuple(
    getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, name)
)
_signals = tuple(
    int(number) for number in signal.valid_signals() if number not in (signal.SIGKILL, getattr(signal, "SIGSTOP", None))
)
# The functions below `signal`, which do not turn every number into an enum member.
_plain_signal = importlib.import_module("_signal")
_getsignal, _setsignal, _setitimer = _plain_signal.getsignal, _plain_signal.signal, _plain_signal.setitimer
_settrace, _setprofile, _cancel_dump = sys.settrace, sys.setprofile, faulthandler.cancel_dump_traceback_later
_waitid, _waitpid, _getpid = getattr(os, "waitid", None), os.waitpid, os.getpid


class ProcessState:
    """The state of the process around a cell. On leaving the block it is as it was before."""

    def __enter__(self) -> Self:
        self.pid = _getpid()
        self.threads = count_threads()
        self.had_children = _has_children()
        self.builtins = dict(_live_builtins)
        self.handlers = [(number, _getsignal(number)) for number in _signals]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        restore_builtins(self.builtins)
        _settrace(None)
        _setprofile(None)
        _cancel_dump()
        for timer in _timers:
            _setitimer(timer, 0)
        for number, handler in self.handlers:
            if handler is not None and _getsignal(number) is not handler:
                _setsignal(number, handler)

    def left_running(self) -> str | None:
        """What still runs after a moment of grace and what to do about it, or None."""
        threads = _more_threads(self.threads)
        children = not self.had_children and _has_children()
        if not threads and not children:
            return None
        if children:
            _stop_resource_tracker()
        end = monotonic() + GRACE
        while threads or children:
            if monotonic() >= end:
                break
            sleep(_STEP)
            threads = _more_threads(self.threads)
            children = children and _has_children()
        if threads:
            return (
                f"{threads} thread(s) were still running when the code ended. Threads cannot be kept between calls: "
                "join() them (and use `with` for a ThreadPoolExecutor), then the call can be kept."
            )
        if children:
            return (
                "a process that the code had started was still running when the code ended. Processes cannot be kept "
                "between calls: wait() for them (and use `with` for a Pool), then the call can be kept."
            )
        return None


def restore_builtins(saved: dict[str, Any]) -> None:
    """Undo changes to builtins; names that were added stay."""
    # No builtin may be looked up before this is done.
    live = _live_builtins
    if _all(_map(_is, saved.values(), _map(live.get, saved))):
        return
    for name, value in saved.items():
        if live.get(name) is not value:
            live[name] = value


def _more_threads(before: int) -> int:
    return max(0, count_threads() - before)


def _has_children() -> bool:
    """Whether this process has a child that still runs; ended ones are collected."""
    if _waitid is None:
        return False
    try:
        while True:
            ended = _waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return True
            _waitpid(ended.si_pid, os.WNOHANG)
    except OSError:
        return False


def _stop_resource_tracker() -> None:
    """End the helper process of `multiprocessing`, which a program did not start on purpose."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    stop = getattr(getattr(module, "_resource_tracker", None), "_stop", None)
    if stop is not None:
        with suppress(OSError):
            stop()
