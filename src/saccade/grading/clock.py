"""Times of day: `2:10 P.M.`, `2:10pm`, `14:10`, `2 o'clock`, `noon`.

A time without "a.m." or "p.m." is that of a clock's face up to 12:59, and of the day from 13:00 on; it is not the same
as one that says which half of the day it means, unless that follows from its hour.
"""

from __future__ import annotations

import re
from typing import Final

from saccade.grading.clean import folded

_TIME = re.compile(
    r"(?:at\s)?(?:(?P<hour>[01]?[0-9]|2[0-4])(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?)?)"
    r"\s?(?P<half>[ap]\.?\s?m\.?|o'?\s?clock|h|hours|in\sthe\s(?:morning|afternoon|evening))?\.?"
)
_NAMED: Final = {
    "noon": (12, 0, 0, "p"),
    "midnight": (0, 0, 0, "a"),
    "12 noon": (12, 0, 0, "p"),
    "12 midnight": (0, 0, 0, "a"),
}

Time = tuple[int, int, int, str]
"""Hour, minute, second; `a`, `p` or, where that is not said, nothing."""


def same_time(prediction: str, gold: str) -> bool:
    """Whether both texts are the same time of day."""
    time = time_of(prediction)
    return time is not None and time == time_of(gold)


def time_of(text: str) -> Time | None:
    """The time that `text` is; None if it is none, or a bare number."""
    plain = folded(text).strip(" .,*\"'$")
    if plain in _NAMED:
        return _NAMED[plain]
    match = _TIME.fullmatch(plain)
    if match is None or (match["minute"] is None and match["half"] in (None, "h", "hours")):
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"] or 0), int(match["second"] or 0)
    half = (match["half"] or "").replace("in the ", "")
    half = {"a": "a", "p": "p", "m": "a", "e": "p"}.get(half[:1], "") if half != "afternoon" else "p"
    if half:
        return (hour % 12 + (12 if half == "p" else 0), minute, second, half) if 1 <= hour <= 12 else None
    if hour > 12 or match["hour"] in ("0", "00"):
        return (hour % 24, minute, second, "p" if hour % 24 >= 12 else "a")
    return (hour, minute, second, "")
