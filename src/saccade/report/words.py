"""Writes types and numbers of the record in words: stop reasons, statuses, times, money, counts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from saccade.evals.rows import dollars_text
from saccade.record.execution import Status
from saccade.record.trajectory import STOPS, StopReason

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
    """Say why an episode ended, as a sentence."""
    return "The episode had not ended when it was recorded." if stop is None else STOPS[stop].words


def duration(seconds: float) -> str:
    """Write a time with the unit that suits it: `12 ms`, `3.4 s`, `2 min 5 s`."""
    if 0 < seconds < 0.0005:
        return "<1 ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def short_model(name: str) -> str:
    """Return the name of a model (`provider:name@address`, a folder) without provider, address and folders."""
    bare = name.partition("@")[0].rstrip("/")
    return (bare.partition(":")[2] or bare).rpartition("/")[2] or name


def money(dollars: float | None) -> str:
    """Write a price in dollars, small ones with more digits."""
    if dollars is None:
        return NONE
    return dollars_text(dollars)


def count(number: float | None) -> str:
    """Write a number with separators, or a dash for one that is not known."""
    return NONE if number is None else f"{int(number):,}"


def some(number: int, one: str, many: str | None = None) -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(value: float | None) -> str:
    """Write a number with the digits that it needs, or a dash for one that is not known."""
    return NONE if value is None else f"{value:g}"


def known_sum(values: Iterable[float | None]) -> float | None:
    """Sum the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# Colours of terminals are dropped; other control characters, and characters that turn the direction of text around or
# have no shape, are written out as `⟨U+202E⟩`. This is about what a reader sees; escaping for HTML is the work of the
# template.

LONGEST: Final = 200_000
"""Characters of one text that a page shows."""

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_JOINERS = "\u200c\u200d"
"""Needed to write some scripts and emoji; they move nothing."""


def readable(text: str) -> str:
    """Drop terminal sequences, write hidden characters out, and a lone carriage return as `␍` and a new line."""
    plain = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "␍\n")
    return "".join(map(_shown, plain)) if _needs_care(plain) else plain


def cut_end(text: str, longest: int = LONGEST) -> str:
    """Return `text`, or its first `longest` characters and a line that says how many are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n… {len(text) - longest:,} more characters are in the record"


def one_line(text: str, longest: int) -> str:
    """Return `text` on one line of at most `longest` characters, an ellipsis at its end if it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _needs_care(text: str) -> bool:
    return not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable())


def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS:
        return character
    # Cc: control. Cf: format, the bidirectional overrides among them. Zl, Zp: line breaks that few expect.
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return f"⟨U+{ord(character):04X}⟩"
    return character
