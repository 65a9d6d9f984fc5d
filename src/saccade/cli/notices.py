"""What layers below say while they work (retries and waits, judges without a verdict) as lines on standard error.

They say it as warnings of the loggers below `saccade`. Many workers meet the same outage at once: of a burst, the first
lines are printed, and the others are counted, never dropped silently.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from saccade.cli.plain import visible

MOST, SECONDS = 6, 10.0
"""So many lines are printed in so many seconds."""


class Notices(logging.Handler):
    """Prints warnings to whatever standard error is at that time, so that a bar on the terminal makes room."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._printed: deque[float] = deque(maxlen=MOST)
        self._unsaid = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Print it, or count it."""
        now = self._now()
        if len(self._printed) == MOST and now - self._printed[0] < SECONDS:
            self._unsaid += 1
            return
        self._say_unsaid()
        self._printed.append(now)
        print(visible(record.getMessage()), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Say how many were not printed."""
        self._say_unsaid()
        super().close()

    def _say_unsaid(self) -> None:
        if self._unsaid:
            print(f"({self._unsaid} more such lines were left out)", file=sys.stderr, flush=True)
            self._unsaid = 0


@contextmanager
def notices() -> Iterator[None]:
    """Print them while a command runs."""
    logger, handler = logging.getLogger("saccade"), Notices()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
