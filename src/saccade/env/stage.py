"""What an environment keeps from episode to episode: its sandbox, its media store, and an event loop in a thread.

Nothing is started before it is used. Closing ends every process of the sandbox; in a process that was forked from the
one that made the stage it does nothing, since thread and processes are the other's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from saccade.core.sync import CLOSE_SECONDS, LoopThread
from saccade.errors import SandboxClosedError
from saccade.media.store import MediaStore
from saccade.sandbox.base import Sandbox
from saccade.sandbox.limits import Limits
from saccade.sandbox.local import LocalSandbox

T = TypeVar("T")
SandboxSource = Sandbox | Callable[[], Sandbox] | None
StoreSource = MediaStore | str | os.PathLike[str] | None


class EnvResources:
    """Sandbox, store and loop of one environment."""

    def __init__(self, sandbox: SandboxSource, limits: Limits, store: StoreSource) -> None:
        """Takes over a sandbox that is given, calls one that is a function, or makes a local one with `limits`.

        Without a `store` pictures go into a temporary folder, which is deleted by `close`.
        """
        if sandbox is None:
            self.sandbox: Sandbox = LocalSandbox(limits=limits)
        else:
            self.sandbox = sandbox() if callable(sandbox) else sandbox
        self._folder = tempfile.mkdtemp(prefix="saccade-env-") if store is None else None
        self.store = store if isinstance(store, MediaStore) else MediaStore(self._folder or store or "")
        self._loop = LoopThread()
        self._owner = os.getpid()
        self._closed = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and give its result; Ctrl-C undoes it first."""
        return self._loop.wait(work)

    def close(self) -> None:
        """End sandbox and thread, delete a temporary store; idempotent."""
        if self._closed or os.getpid() != self._owner:
            return
        if self._loop.is_current():  # the garbage collector runs wherever it likes, and nobody can wait for himself
            threading.Thread(target=self.close, name="saccade-env-end").start()
            return
        self._closed = True
        try:
            with suppress(SandboxClosedError):
                self._loop.wait(asyncio.wait_for(self.sandbox.close(), CLOSE_SECONDS))
        finally:
            self._loop.stop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
