"""What the record says in types and numbers, said in words: stop reasons, statuses, times, money, counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from saccade.evals.spent import dollars_text
from saccade.record.status import Status
from saccade.record.stop_facts import STOPS
from saccade.record.trajectory import StopReason

STATUSES: Final = {
    Status.OK: "ok",
    Status.ERROR: "error",
    Status.TIMEOUT: "timed out",
    Status.KILLED: "killed",
    Status.OUT_OF_MEMORY: "out of memory",
    Status.REFUSED: "refused",
    Status.LOST: "lost (an outage)",
}
SOURCES: Final = {
    "figure": "figure",
    "show": "image shown",
    "display": "displayed",
    "value": "last value",
    "file": "file",
    "tool": "tool",
}
NONE: Final = "–"


def stop_words(stop: StopReason | None) -> str:
    """Why an episode ended, as a sentence."""
    return "The episode had not ended when it was recorded." if stop is None else STOPS[stop].words


def duration(seconds: float) -> str:
    """A time with the unit that suits it: `12 ms`, `3.4 s`, `2 min 5 s`."""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def money(dollars: float | None) -> str:
    """A price in dollars, small ones with more digits."""
    if dollars is None:
        return NONE
    return dollars_text(dollars)


def count(number: float | None) -> str:
    """A number with separators, or a dash for one that is not known."""
    return NONE if number is None else f"{int(number):,}"


def some(number: int, one: str, many: str | None = None) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(value: float | None) -> str:
    """A number with the digits that it needs, or a dash for one that is not known."""
    return NONE if value is None else f"{value:g}"


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
