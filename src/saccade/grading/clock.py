"""Times of day: `2:10 P.M.`, `2.10pm`, `14:10`, `2 o'clock`, `noon`, `half past two`, `quarter to three`.

A time without "a.m." or "p.m." is that of a clock's face up to 12:59, and of the day from 13:00 on; it is not the same
as one that says which half of the day it means, unless that follows from its hour.
"""

from __future__ import annotations

import re
from typing import Final

from saccade.grading.clean import folded
from saccade.grading.number_words import with_digits

_TIME = re.compile(
    r"(?:at\s)?(?:(?P<hour>[01]?[0-9]|2[0-4])(?::(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9]))?)?)"
    r"\s?(?P<half>[ap]\.?\s?m\.?|o'?\s?clock|h|hours|in\sthe\s(?:morning|afternoon|evening))?\.?"
)
_DOTTED = re.compile(r"(?<![0-9.])([0-9]{1,2})\.([0-5][0-9])(?=\s?[ap]\.?\s?m\b)")
_NAMED: Final = {
    "noon": (12, 0, 0, "p"),
    "midnight": (0, 0, 0, "a"),
    "12 noon": (12, 0, 0, "p"),
    "12 midnight": (0, 0, 0, "a"),
}

_MINUTES: Final = {"half": 30, "quarter": 15, "a quarter": 15}
_SPOKEN = re.compile(
    r"(?:at\s)?(?P<minutes>half|(?:a\s)?quarter|(?P<number>[1-5]?[0-9])(?:\sminutes?)?)\s(?P<side>past|after|to|before)\s(?P<rest>.+)"
)

Time = tuple[int, int, int, str]
"""Hour, minute, second; `a`, `p` or, where that is not said, nothing."""


def same_time(prediction: str, gold: str) -> bool:
    """Whether both texts are the same time of day."""
    time = time_of(prediction)
    return time is not None and time == time_of(gold)


def time_of(text: str) -> Time | None:
    """The time that `text` is; None if it is none, or a bare number."""
    plain = folded(text).strip(" .,*\"'$")
    plain = re.sub(r"\bone\b", "1", with_digits(plain))
    if plain in _NAMED:
        return _NAMED[plain]
    spoken = _SPOKEN.fullmatch(plain)
    if spoken is not None:
        return _moved(spoken)
    plain = _DOTTED.sub(r"\1:\2", plain)
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


def _moved(spoken: re.Match[str]) -> Time | None:
    """The time so many minutes before or after a whole hour."""
    rest = spoken["rest"]
    hour = time_of(rest if not rest.isdigit() else f"{rest} o'clock")
    minutes = int(spoken["number"]) if spoken["number"] else _MINUTES[spoken["minutes"]]
    if hour is None or hour[1:3] != (0, 0) or (spoken["minutes"] == "half" and spoken["side"] in ("to", "before")):
        return None
    if spoken["side"] in ("past", "after"):
        return (hour[0], minutes, 0, hour[3])
    at = 60 * hour[0] - minutes
    if not hour[3]:
        return ((at // 60 - 1) % 12 + 1, at % 60, 0, "")
    at %= 24 * 60
    return (at // 60, at % 60, 0, "p" if at >= 12 * 60 else "a")
