"""What stop strings mean, in one place for all backends: text ends with the stop string that is complete first.

Among stop strings that are complete at the same character the longest counts; the text is the same. A stop string that
was only begun when the tokens ran out is no stop. A server that swallows the stop string and names it gets it put back.
Some swallow it and name nothing; then it can only be inferred, and only for closing tags (see `unclosed`): text in
which the model itself ended with an open tag looks just like text that was stopped there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from saccade.errors import SettingsError
from saccade.record.turn import FinishReason

_CLOSING_TAG = re.compile(r"</([A-Za-z][\w.-]*)>")


def check_stops(stops: Iterable[str]) -> tuple[str, ...]:
    """`stops` without repetitions, in their order.

    Raises:
        SettingsError: one of them is empty.
    """
    unique = tuple(dict.fromkeys(stops))
    if "" in unique:
        raise SettingsError("a stop string is empty, and every text would end at once; leave it out")
    return unique


def first_stop(text: str, stops: Iterable[str], start: int = 0) -> tuple[int, str] | None:
    """Where `text` ends (characters, end of the stop string) and at which of `stops`; None if none is complete.

    Args:
        text: what was written.
        stops: the stop strings, none empty.
        start: no stop string that begins before this character is looked for.
    """
    ends = [(at + len(stop), stop) for stop in stops if (at := text.find(stop, start)) >= 0]
    return min(ends, key=lambda hit: (hit[0], -len(hit[1])), default=None)


class StopWatch:
    """Finds the end of a text that comes in pieces; says the same as `first_stop` on the whole text."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = check_stops(stops)
        self._reach = max(map(len, self._stops), default=0)
        self._text = ""
        self.stopped: str | None = None
        """The stop string that ended the text."""

    @property
    def text(self) -> str:
        """All that was accepted."""
        return self._text

    def feed(self, piece: str) -> str:
        """The part of `piece` that belongs to the text; empty once the text has ended."""
        if self.stopped is not None:
            return ""
        before = len(self._text)
        text = self._text + piece
        hit = first_stop(text, self._stops, max(0, before - self._reach + 1))
        if hit is not None:
            end, self.stopped = hit
            text = text[:end]
        self._text = text
        return text[before:]


def unclosed(text: str, stops: Iterable[str]) -> str | None:
    """The one of `stops` that closes the tag opened last and still open in `text`; None if there is none."""
    open_tags: dict[str, int] = {}
    for stop in stops:
        tag = _CLOSING_TAG.fullmatch(stop)
        if tag is None:
            continue
        opened = [match.start() for match in re.finditer(rf"<{re.escape(tag[1])}(\s[^<>]*)?>", text)]
        if len(opened) > text.count(stop):
            open_tags[stop] = opened[-1]
    return max(open_tags, key=open_tags.__getitem__, default=None)


def can_be_inferred(stops: Iterable[str]) -> bool:
    """Whether each of `stops` is a closing tag, so that `unclosed` can tell which one a server swallowed."""
    return all(_CLOSING_TAG.fullmatch(stop) for stop in stops)


def apply_stops(
    text: str, stops: Iterable[str], finish: FinishReason, *, swallowed: str | None = None
) -> tuple[str, FinishReason]:
    """The text and the reason of its end as every backend gives them.

    Args:
        text: what the server sent, with or without the stop string, or beyond it.
        stops: the stop strings, none empty.
        finish: what the server gave as the reason.
        swallowed: the stop string that ended the text, as the server named it or as it was inferred; None if unknown.
    """
    stops = check_stops(stops)
    hit = first_stop(text, stops)
    if hit is None and swallowed in stops and finish in (FinishReason.STOP, FinishReason.STOP_STRING):
        text += swallowed or ""
        hit = first_stop(text, stops)
    if hit is not None:
        return text[: hit[0]], FinishReason.STOP_STRING
    return text, FinishReason.STOP if finish is FinishReason.STOP_STRING else finish
