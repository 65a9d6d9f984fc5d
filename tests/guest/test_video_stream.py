"""Numbers and times of frames, worked out by hand: no file is read."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from saccade.guest.video_stream import Index, KeyFrame, Packet, ReopenedFile, counted, numbered
from saccade.guest.video_timeline import Timeline, VideoTooLargeError, mean_rate

STORED = [Packet(0, 0, True, 2), Packet(6, 2, False, 2), Packet(2, 4, False, 2), Packet(8, 6, True, 4)]
"""A frame that is stored before another and shown after it; units of half a second."""


def test_frames_are_numbered_as_they_are_shown() -> None:
    assert numbered(STORED, 0, 0.5, 25.0) == Index(
        numbers={0: 0, 2: 1, 6: 2, 8: 3}, keys=(KeyFrame(0, 0), KeyFrame(3, 6)), starts=(0, 1, 3, 4), seconds=6
    )


def test_what_is_shown_before_the_first_decoded_frame_does_not_count() -> None:
    index = numbered(STORED, 2, 0.5, None)
    assert index is not None
    assert (index.numbers, index.keys, index.starts) == ({2: 0, 6: 1, 8: 2}, (KeyFrame(2, 6),), (0, 2, 3))
    assert [index.key_before(number) for number in range(3)] == [None, None, KeyFrame(2, 6)]


@pytest.mark.parametrize(
    ("packets", "first"),
    [(None, 0), (STORED, None), ([], 0), (STORED, 1), (STORED, 9), ([*STORED, Packet(6, 9, False, 2)], 0)],
    ids=["without times", "nothing decoded", "no packets", "between two", "after all", "doubled"],
)
def test_times_that_number_nothing(packets: list[Packet] | None, first: int | None) -> None:
    assert numbered(packets, first, 0.5, 25.0) is None


@pytest.mark.parametrize(
    ("pts", "duration", "rate", "seconds"),
    [
        ([0, 2, 8], 3, 25.0, 5.5),  # as long as it says itself
        ([0, 2, 8], 0, 25.0, 6.0),  # else as long as the mean one
        ([0], 0, 4.0, 0.25),  # a single one by the rate
        ([0], 0, None, 0.04),
    ],
)
def test_how_long_the_last_frame_is_shown(pts: list[int], duration: int, rate: float | None, seconds: float) -> None:
    index = numbered([Packet(time, time, True, duration) for time in pts], 0, 0.5, rate)
    assert index is not None
    assert index.seconds == seconds


@pytest.mark.parametrize(
    ("times", "rate", "starts", "seconds"),
    [
        ([5.0, 6.0, 9.0], 25.0, (0, 1, 4), 6.0),
        ([5.0, 6.0, 6.0], 2.0, (0, 0.5, 1), 1.5),  # doubled: no use
        ([5.0, None, 7.0], 2.0, (0, 0.5, 1), 1.5),
        ([None, None], None, (0, 0.04), 0.08),
        ([3.0], 5.0, (0,), 0.2),
        ([3.0], None, (0,), 0.04),
    ],
)
def test_frames_that_can_only_be_counted(
    times: list[float | None], rate: float | None, starts: tuple[float, ...], seconds: float
) -> None:
    index = counted(times, rate, len(times))
    assert (index.numbers, index.keys, index.starts, index.seconds) == (None, (), starts, seconds)
    assert index.key_before(0) is None
    with pytest.raises(VideoTooLargeError, match=f"more than {len(times) - 1} frames"):
        counted(times, rate, len(times) - 1)


def test_the_frame_on_the_screen_and_its_end() -> None:
    line = Timeline(4, 3, starts=(0.0, 0.1, 0.3), seconds=0.7, fps=1.0, keys=(0,), container="gif")
    assert [line.at(second) for second in (-1, 0, 0.0999, 0.1 - 1e-7, 0.1, 0.2999, 0.3, 50)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert [line.end(index) for index in range(3)] == [0.1, 0.3, 0.7]


@pytest.mark.parametrize(
    ("declared", "rate"), [(None, 30.0), (30.5, 30.5), (29.5, 29.5), (30.6, 30.0), (29.4, 30.0), (60.0, 30.0)]
)
def test_a_declared_rate_counts_if_it_is_the_counted_one_but_for_rounding(declared: float | None, rate: float) -> None:
    assert mean_rate(60, 2.0, declared) == rate


def test_a_file_is_read_at_any_place(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"0123456789")
    file = ReopenedFile(str(tmp_path / "v"))
    assert (file.bytes, file.readable(), file.seekable(), file.tell()) == (10, True, True, 0)
    assert (file.read(3), file.tell(), file.read(2)) == (b"012", 3, b"34")
    assert (file.seek(2), file.read(1)) == (2, b"2")
    assert (file.seek(-2, io.SEEK_CUR), file.read(1)) == (1, b"1")
    assert (file.seek(-3, io.SEEK_END), file.read(9), file.read(9)) == (7, b"789", b"")
    assert (file.seek(-50), file.read(1)) == (0, b"0")


def test_a_fifo_in_its_place_does_not_hold_anybody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v")
    assert ReopenedFile(str(tmp_path / "v")).bytes == 0
