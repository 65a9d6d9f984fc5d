"""What a new leaf does while nobody waits, so that the next call finds its memory copied."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from saccade.sandbox import house as times
from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.house import House
from saccade.sandbox.leaf import Leaf


class Rehearsal:
    """The next call will probably do what the last one has done."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.figure: bool | None = None
        """Whether the last kept call has drawn a figure; None before the first call, when nothing is rehearsed."""
        self.error = False
        """Whether the last call has raised an exception."""

    def arrange(
        self,
        leaf: Leaf,
        tell: Callable[[Mapping[str, Any]], None],
        idle: Callable[[Leaf], bool],
    ) -> None:
        """Soon let `leaf` rehearse, by `tell`, if it is still `idle` then and the machine has nothing better to do."""
        if self.figure is None:
            return
        figure, loop = self.figure, asyncio.get_running_loop()

        def end() -> None:
            if idle(leaf):
                leaf.rest()

        def begin() -> None:
            few = len(self._house.links) <= times.REHEARSING_SESSIONS
            if few and self._house.gate.idle and idle(leaf):
                with contextlib.suppress(GuestFaultError):
                    leaf.wake()
                    tell({"op": "rehearse", "figure": figure, "error": self.error})
                loop.call_later(times.REST_SECONDS[figure], end)

        loop.call_later(times.REHEARSE_SECONDS[figure], begin)
