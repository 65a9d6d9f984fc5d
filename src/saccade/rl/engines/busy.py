"""How long at least one turn was under way at a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class BusyClock:
    """Counts the seconds in which anything was under way; what overlaps counts once."""

    def __init__(self) -> None:
        self._under_way = 0
        self._since = self._spent = 0.0

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return self._spent + (time.perf_counter() - self._since if self._under_way else 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Something is under way."""
        if not self._under_way:
            self._since = time.perf_counter()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._spent += time.perf_counter() - self._since
