"""Processes of local sandboxes that outlive their sandbox, for tests that are not about its start.

To start them takes a second or two of a processor: an interpreter imports and warms what all sessions share. A sandbox
that is closed with `KeptProcesses` ends its sessions as ever, waits until the zygote has none left, and leaves the
zygote to the next sandbox that asks for the same of it. Nothing of a session is left: each is forked from a process
that never ran code of one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pytest

from saccade.sandbox.cgroup import Cgroups
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.zygote_client import ENVIRONMENT, ZygoteClient

NO_SESSION = 0
"""Sessions are counted from one."""


@dataclass(frozen=True)
class Kept:
    """What a closed sandbox has left."""

    zygote: ZygoteClient
    isolation: Isolation
    cgroups: Cgroups | None
    folder: tempfile.TemporaryDirectory[str]

    def give(self, box: LocalSandbox) -> None:
        """Let `box` go on with it, in the loop that runs."""
        assert self.zygote._control is not None
        self.zygote._on_event, self.zygote._on_lost = box._event, box._all_lost
        asyncio.get_running_loop().add_reader(self.zygote._control.fileno(), self.zygote._readable)
        box._zygote, box._isolation = self.zygote, self.isolation
        box._cgroups, box._folder = self.cgroups, self.folder

    def end(self) -> None:
        """End the processes and remove what they had."""
        asyncio.run(self.zygote.close())
        if self.cgroups is not None:
            self.cgroups.close()
        self.folder.cleanup()


class KeptProcesses:
    """Takes the processes of closed sandboxes in, at most `most` of different settings."""

    def __init__(self, most: int = 3) -> None:
        self._most = most
        self._kept: dict[Hashable, Kept] = {}
        self._lock = threading.Lock()
        self._start, self._stop = LocalSandbox._start, LocalSandbox._stop

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For one test."""
        monkeypatch.setattr(LocalSandbox, "_start", lambda box: self.start(box))
        monkeypatch.setattr(LocalSandbox, "_stop", lambda box: self.stop(box))

    async def start(self, box: LocalSandbox) -> None:
        """In place of `LocalSandbox._start`."""
        with self._lock:
            kept = self._kept.pop(_asked(box), None)
        if kept is None or not _lives(kept.zygote):
            if kept is not None:
                await asyncio.to_thread(kept.end)
            await self._start(box)
        else:
            kept.give(box)

    async def stop(self, box: LocalSandbox) -> None:
        """In place of `LocalSandbox._stop`."""
        kept = await _emptied(box) if box._closed else None
        if kept is None:
            await self._stop(box)
            return
        with self._lock:
            too_many = [self._kept.pop(_asked(box))] if _asked(box) in self._kept else []
            self._kept[_asked(box)] = kept
            if len(self._kept) > self._most:
                too_many.append(self._kept.pop(next(iter(self._kept))))
        for other in too_many:
            await asyncio.to_thread(other.end)

    def end(self) -> None:
        """End all that is kept."""
        for kept in self._kept.values():
            kept.end()
        self._kept.clear()


def _asked(box: LocalSandbox) -> Hashable:
    """What the processes depend on."""
    environment = tuple(os.environ.get(name) for name in ENVIRONMENT)
    return (box.limits.model_dump_json(), box._required, box._python, box._modules, box._without, environment)


def _lives(zygote: ZygoteClient) -> bool:
    return zygote._process is not None and zygote._process.poll() is None


async def _emptied(box: LocalSandbox) -> Kept | None:
    """The processes of a sandbox with every session ended; None if they do not all stand as at the start."""
    zygote, isolation, folder = box._zygote, box._isolation, box._folder
    if zygote is None or not zygote.alive or isolation is None or folder is None:
        return None
    try:
        for link in list(box._links.values()):
            await box.drop(link)
        async with asyncio.timeout(10):
            await zygote.order("close", NO_SESSION)
    except Exception:
        return None
    if zygote._control is None or zygote._waiting or zygote._backlog:
        return None
    loop = asyncio.get_running_loop()
    loop.remove_reader(zygote._control.fileno())
    zygote._on_event, zygote._on_lost, zygote._said_hello = _ignored, _ignored, None
    kept = Kept(zygote, isolation, box._cgroups, folder)
    box._zygote = box._cgroups = box._folder = None
    for session in box._sessions:
        session.mark_closed()
    box._sessions.clear()
    return kept


def _ignored(*_: Any) -> None:
    """Nobody asks for news now."""
