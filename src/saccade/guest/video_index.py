"""Numbers for the frames of a stream, from the times in its packets: frame 0 is the first one shown.

Right for B-frames (which are stored in another order than shown), for variable frame rates, and where the header says
no count. What cannot be decoded at the beginning, because the stream was cut there, does not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .video_timeline import VideoTooLargeError

_UNSAID_SECONDS = 0.04
"""How long a single frame is shown when nothing says it."""


class Packet(NamedTuple):
    """What the index needs of a packet; times in units of the stream."""

    pts: int
    """When its frame is shown."""
    time: int
    """When it is decoded: what containers seek by."""
    key: bool
    duration: int


class KeyFrame(NamedTuple):
    """A frame that is decoded without others."""

    number: int
    time: int


@dataclass(frozen=True, slots=True)
class Index:
    """The frames of a stream."""

    numbers: dict[int, int] | None
    """Time of presentation -> number of the frame; None if frames can only be counted."""
    keys: tuple[KeyFrame, ...]
    """In order; empty if frames can only be counted."""
    starts: tuple[float, ...]
    seconds: float

    def key_before(self, index: int) -> KeyFrame | None:
        """The last key frame that is shown at or before frame `index`.

        Frames that are stored after a key frame and shown before it need an earlier one, and get it.
        """
        place = bisect_right(self.keys, index, key=lambda key: key.number)
        return self.keys[place - 1] if place else None


def numbered(packets: Sequence[Packet] | None, first: int | None, unit: float, rate: float | None) -> Index | None:
    """The index by times; None if times are missing, doubled, or not those of the frames.

    `first` is the time of the first frame that can be decoded, `unit` the seconds of a unit of time, `rate` the frames
    per second that the header declares.
    """
    if packets is None or first is None:
        return None
    shown = sorted(packet for packet in packets if packet.pts >= first)
    numbers = {packet.pts: number for number, packet in enumerate(shown)}
    if not shown or shown[0].pts != first or len(numbers) < len(shown):
        return None
    starts = tuple((packet.pts - first) * unit for packet in shown)
    return Index(
        numbers=numbers,
        keys=tuple(KeyFrame(number, packet.time) for number, packet in enumerate(shown) if packet.key),
        starts=starts,
        seconds=starts[-1] + (shown[-1].duration * unit or _step(starts, rate)),
    )


def counted(times: Iterable[float | None], rate: float | None, most: int) -> Index:
    """The index of frames that can only be counted; where their `times` are no use, they are `rate` a second."""
    given: list[float | None] = []
    for time in times:
        if len(given) == most:
            raise VideoTooLargeError(f"the video has more than {most} frames")
        given.append(time)
    known = [time for time in given if time is not None]
    if len(known) == len(given) and all(a < b for a, b in pairwise(known)):
        starts = tuple(time - known[0] for time in known)
    else:
        starts = tuple(number / rate if rate else number * _UNSAID_SECONDS for number in range(len(given)))
    return Index(numbers=None, keys=(), starts=starts, seconds=starts[-1] + _step(starts, rate))


def _step(starts: Sequence[float], rate: float | None) -> float:
    """How long the last frame is shown: as long as the mean one."""
    if len(starts) > 1 and starts[-1] > 0:
        return starts[-1] / (len(starts) - 1)
    return 1 / rate if rate else _UNSAID_SECONDS
