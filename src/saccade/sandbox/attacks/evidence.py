"""What the host sees of an attack: malformed results, an event loop held up, processes that work while none should."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from saccade.sandbox.attacks.surroundings import descendants
from saccade.sandbox.limits import Limits
from saccade.sandbox.result import RunResult

_SLACK = 1024
_TICK = 0.01
_WATCHED_SECONDS, _RESTING_SECONDS = 0.5, 0.05
_REST_DEADLINE_SECONDS = 15.0
"""On a machine under load it may take so long until a session has used the little time that it may."""


class Held:
    """Measures for how long at the most an event loop did nothing of what it had to do; to be made in its thread.

    `computed` is the most CPU time (seconds) of its thread between two looks at it, which are 10 ms apart if nothing
    holds the loop: the part of the longest time that is not the doing of other programs on the machine.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._longest = self.computed = 0.0
        self._last, self._last_cpu = time.monotonic(), time.thread_time()
        self._timer = loop.call_later(_TICK, self._tick)

    def _tick(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self._longest = max(self._longest, now - self._last - _TICK)
        self.computed = max(self.computed, cpu - self._last_cpu)
        self._last, self._last_cpu = now, cpu
        self._timer = self._loop.call_later(_TICK, self._tick)

    def stop(self) -> float:
        """The longest time, in seconds."""
        self._timer.cancel()
        self.computed = max(self.computed, time.thread_time() - self._last_cpu)
        return max(self._longest, time.monotonic() - self._last - _TICK)


def busy_seconds() -> float:
    """CPU seconds that all processes below this one use in half a second, once they have had time to come to rest."""
    time.sleep(_WATCHED_SECONDS)
    deadline = time.monotonic() + _REST_DEADLINE_SECONDS
    while True:
        before = {pid: _cpu_seconds(pid) for pid in descendants()}
        time.sleep(_WATCHED_SECONDS)
        used = sum(max(0.0, _cpu_seconds(pid) - earlier) for pid, earlier in before.items())
        if used < _RESTING_SECONDS or time.monotonic() > deadline:
            return used


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def malformed(result: RunResult, limits: Limits) -> list[str]:
    """What in a result breaks its type or the caps: a guest may lie in its own output, but not beyond these."""
    wrong = []
    for name in ("stdout", "stderr", "value", "traceback"):
        text = getattr(result, name)
        if text is not None and (
            not isinstance(text, str) or len(text.encode("utf-8", "replace")) > limits.output_bytes + _SLACK
        ):
            wrong.append(f"{name} is no text within the cap")
        elif text is not None and text.encode("utf-8", "replace") != text.encode("utf-8", "surrogatepass"):
            wrong.append(f"{name} cannot be encoded")
    for path in (*(file.path for file in result.files), *(picture.path or "x" for picture in result.pictures)):
        if path.startswith("/") or ".." in path.split("/") or not path.isprintable():
            wrong.append(f"the path {path!r} came back")
    if not all(note.isprintable() for note in result.notes):
        wrong.append("a note with control characters came back")
    if len(result.pictures) > limits.pictures:
        wrong.append(f"{len(result.pictures)} pictures came back")
    for picture in result.pictures:
        if picture.mode not in ("L", "RGB", "RGBA") or not isinstance(picture.data, bytes):
            wrong.append("a picture of an unknown kind came back")
        elif len(picture.data) != picture.width * picture.height * len(picture.mode):
            wrong.append("a picture whose size lies came back")
        elif picture.width * picture.height > limits.picture_pixels:
            wrong.append("a picture over the cap came back")
    if sum(picture.width * picture.height for picture in result.pictures) > limits.total_pixels:
        wrong.append("pictures over the total cap came back")
    return wrong
