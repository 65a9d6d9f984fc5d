"""What a new leaf does while nobody waits, so that the next call finds its memory copied."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sized
from typing import Any

from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.gate import Gate
from saccade.sandbox.leaf import Leaf

REHEARSE_SECONDS = {False: 0.002, True: 0.02}
"""How long after a fork nothing must happen before a rehearsal without or with a figure. A call that comes
in during one has to wait for its end, and drawing takes longer than a short cell."""
REST_SECONDS = {False: 0.05, True: 0.5}
"""How long a rehearsal may take."""
REHEARSING_SESSIONS = 64
"""With more sessions than this memory counts for more: a rehearsal copies pages, and one with a figure many."""


class Rehearsal:
    """The next call will probably do what the last one has done."""

    def __init__(self, gate: Gate, links: Sized) -> None:
        self._gate = gate
        self._links = links
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
            few = len(self._links) <= REHEARSING_SESSIONS
            if few and self._gate.idle and idle(leaf):
                with contextlib.suppress(GuestFaultError):
                    leaf.wake()
                    tell({"op": "rehearse", "figure": figure, "error": self.error})
                loop.call_later(REST_SECONDS[figure], end)

        loop.call_later(REHEARSE_SECONDS[figure], begin)
