"""Tries again what an outage broke: rate limits, server errors, broken connections and answers, time-outs.

    policy = RetryPolicy(tries=3, seconds=60, total_seconds=300)

Models, sandbox servers, tool servers and engines all use it. Waits grow by a factor of two and are drawn at random from
their upper half, so that many clients do not come back at once; a server's Retry-After is honoured up to
`max_retry_after`. What no retry can cure is raised at once. A cancelled call is never tried again.

Every wait is a warning of the logger `saccade.core.retry` when it begins, with its reason: progress displays listen
there, and Python prints it to standard error where no handler is set.

The loop is our own: with `tenacity`, when to stop, how long to wait, what to log and the limit on all tries, which
cancels the last one, would remain functions of ours; `stamina` takes no clock.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from saccade.core.settings import Settings
from saccade.errors import ModelLostError, SaccadeError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class OutageError(SaccadeError):
    """One try failed in a way that another may not; `with_retries` raises the last one as a lost request."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds that the server asked to wait, or None."""


class RetryPolicy(Settings):
    """How often and how long one request is tried: the settings `retry.*` and `tool_calls.retry.*`."""

    tries: PositiveInt = 6
    """Tries in all, the first included."""
    seconds: PositiveFloat = 120.0
    """For one try, the whole answer included."""
    total_seconds: NonNegativeFloat = 600.0
    """For all tries and the waits between them; 0: no limit."""
    first_seconds: NonNegativeFloat = 1.0
    """Longest wait before the second try."""
    most_seconds: NonNegativeFloat = 60.0
    """Longest wait that grows by itself."""
    max_retry_after: NonNegativeFloat = 300.0
    """Longest wait that a server may ask for; a longer one ends the tries."""

    def wait(self, tried: int, draw: float) -> float:
        """Return seconds to wait after `tried` tries (from 1), for a random `draw` in [0, 1)."""
        longest = min(self.most_seconds, self.first_seconds * 2.0 ** min(tried - 1, 60))
        return longest * (0.5 + 0.5 * draw)


RETRY_SETTINGS = tuple(f"retry.{name}" for name in RetryPolicy.model_fields)
"""Their names; they decide nothing that a run holds, so a run may be continued with others."""
DEFAULT_RETRY = RetryPolicy()
ENGINE_RETRY = RetryPolicy(seconds=600.0, total_seconds=1200.0)
"""For a server that samples the rollouts of a step all at once."""
SANDBOX_RETRY = RetryPolicy(tries=5, total_seconds=0.0, first_seconds=0.1, most_seconds=5.0)
"""For a sandbox server; each of its requests has a time limit of its own."""
TOOL_RETRY = RetryPolicy(tries=24, seconds=600.0, total_seconds=1200.0, first_seconds=0.1, most_seconds=10.0)
"""For a tool server: about two minutes where it fails at once."""
INTERACTIVE_RETRY = RetryPolicy(total_seconds=300.0)
"""For a person who waits in front of the screen."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How to wait, how to draw, and seconds since any moment; tests put their own in."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    now: Callable[[], float] = time.monotonic


async def with_retries(
    ask: Callable[[], Awaitable[T]],
    policy: RetryPolicy = DEFAULT_RETRY,
    clock: Clock | None = None,
    *,
    lost: Callable[[str], Exception] = ModelLostError,
    level: int = logging.WARNING,
) -> T:
    """Return the result of `ask`, called again after each `OutageError`.

    Args:
        ask: one try.
        policy: how often and how long.
        clock: how to wait between tries.
        lost: makes the error that is raised when the last try failed too, or the time is up; it is given the reason.
        level: of the log messages about waits.
    """
    clock = clock or Clock()
    end = clock.now() + (policy.total_seconds or float("inf"))
    problem = "There is no answer yet."
    for tried in range(1, policy.tries + 1):
        wait = float("inf")
        try:
            async with asyncio.timeout(min(end - clock.now(), _AGE)) as bound:
                answer = await ask()
            if tried > 1:
                _log.info("Answered by try %d.", tried)
            return answer
        except OutageError as outage:
            problem = str(outage)
            wait = max(policy.wait(tried, clock.draw()), outage.retry_after or 0.0)
        except TimeoutError:
            if not bound.expired():
                raise
        # Raised out here, the error carries no chain to the client's own exception, which may hold a request.
        advice = _give_up(policy, tried, wait, end - clock.now())
        if advice:
            _log.info("%s Tried %s; gave up.", problem, _times(tried))
            raise lost(f"{problem} Tried {_times(tried)}; gave up. {advice}")
        _log.log(level, "%s Trying again in %s s (%d of %d).", problem, _rounded(wait), tried + 1, policy.tries)
        await clock.sleep(wait)
    raise AssertionError("a policy has at least one try")


_AGE = 1e9
"""Seconds; asyncio takes no infinite delay."""


def _give_up(policy: RetryPolicy, tried: int, wait: float, left: float) -> str:
    """Say what to do if there is no further try; empty if there is one."""
    if wait == float("inf"):
        return _time_up(policy)
    if tried == policy.tries:
        return "Try again later, or raise retry.tries."
    if wait > policy.max_retry_after:
        return (
            f"The server asks to wait {wait:.0f} s, longer than the policy allows. Try again then, or raise "
            "retry.max_retry_after."
        )
    return _time_up(policy) if wait >= left else ""


def _time_up(policy: RetryPolicy) -> str:
    return f"The {policy.total_seconds:g} s of a request are over. Try again later, or raise retry.total_seconds."


def _times(tried: int) -> str:
    return f"{tried} time" + ("" if tried == 1 else "s")


def _rounded(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 2 else f"{seconds:.0f}"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return seconds that the server asks to wait; None if it does not say so in a way that can be read."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
