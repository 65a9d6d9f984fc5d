"""Tries again what an outage broke: rate limits, server errors, broken connections and answers, time-outs.

Waits grow by a factor of two and are drawn at random from their upper half, so that many clients do not come back
at once; a server's Retry-After is honoured up to `most_seconds_told`. What no retry can cure is raised at once. A
cancelled call is never tried again. Nothing here knows a provider.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from saccade.errors import ModelLostError

T = TypeVar("T")


class OutageError(ModelLostError):
    """One try failed in a way that another may not; `with_retries` turns the last one into `ModelLostError`."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asked to wait, or None."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long; all times in seconds."""

    tries: int = 6
    """Tries in all, the first included; at least 1."""
    first_seconds: float = 1.0
    """Longest wait before the second try."""
    most_seconds: float = 60.0
    """Longest wait that grows by itself."""
    most_seconds_told: float = 300.0
    """Longest wait that a server may ask for; a longer one ends the tries."""

    def wait(self, tried: int, draw: float) -> float:
        """Seconds to wait after `tried` tries (from 1), for a random `draw` in [0, 1)."""
        longest = min(self.most_seconds, self.first_seconds * 2.0 ** min(tried - 1, 60))
        return longest * (0.5 + 0.5 * draw)


DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Clock:
    """How to wait and how to draw; tests put their own in."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random


async def with_retries(
    ask: Callable[[], Awaitable[T]], policy: RetryPolicy = DEFAULT_RETRY, clock: Clock | None = None
) -> T:
    """What `ask` gives, tried again after each `OutageError`.

    Raises:
        ModelLostError: the last try failed too; its message tells how.
    """
    clock = clock or Clock()
    for tried in range(1, policy.tries + 1):
        lost, wait = "", 0.0
        try:
            return await ask()
        except OutageError as outage:
            lost = str(outage)
            wait = policy.wait(tried, clock.draw())
            if outage.retry_after is not None:
                wait = max(wait, outage.retry_after)
        # Raised out here, the error carries no chain to the client's own exception, which may hold a request.
        if tried == policy.tries or wait > policy.most_seconds_told:
            raise ModelLostError(
                f"{lost} Tried {tried} times; gave up. "
                + ("Try again later, or raise the number of tries." if tried == policy.tries else _too_long(wait))
            )
        await clock.sleep(wait)
    raise ValueError(f"{policy.tries} tries are none; allow at least 1")


def _too_long(wait: float) -> str:
    return f"The server asks to wait {wait:.0f} s, longer than the policy allows. Try again then."
