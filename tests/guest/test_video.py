"""Frames by number, whatever the codec and the times; the reader that programs know from decord."""

from __future__ import annotations

import importlib
import io
import os
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.media import clips
from tests.media.clips import clip, number_of

from saccade.guest import video
from saccade.guest.video import DECORDError, VideoReader
from saccade.guest.video_stream import (
    FrameLimits,
    ReopenedFile,
    Timeline,
    VideoError,
    VideoTooLargeError,
    counted,
    mean_rate,
    open_frames,
    read_frames,
)

pytest.importorskip("av", reason="the extra `video` is not installed")

TIMES = (0, 40, 47, 300, 310, 320, 1000, 1001, 1500)
B_FRAMES = {"bf": "2", "g": "12"}
MAKERS: dict[str, tuple[Callable[[], bytes], int]] = {
    "h264": (clips.h264, 60),
    "vp9": (clips.vp9, 40),
    "variable_rate": (lambda: clips.variable_rate(TIMES), len(TIMES)),
    "gif": (clips.gif, 12),
    "webp": (lambda: clips.gif(kind="WEBP"), 12),
    "avi": (lambda: clip("mpeg4", "avi", 30, options=B_FRAMES), 30),
    "raw_h264": (lambda: clip("libx264", "h264", 30, options=B_FRAMES), 30),
    "transport_stream": (lambda: clip("mpeg2video", "mpegts", 30, options=B_FRAMES), 30),
    "one_frame": (lambda: clips.h264(1), 1),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_index_gives_its_frame(name: str) -> None:
    make, count = MAKERS[name]
    frames = read_frames(io.BytesIO(make()))
    everything = list(range(count))
    assert len(frames.timeline.starts) == count
    assert (frames.timeline.width, frames.timeline.height) == (clips.WIDTH, clips.HEIGHT)
    mixed = random.Random(3).sample(everything, count)
    for order in (everything, everything[::-1], mixed):
        assert [number_of(frames.picture(index)) for index in order] == order


def test_times_of_a_variable_rate() -> None:
    timeline = read_frames(io.BytesIO(clips.variable_rate(TIMES))).timeline
    assert timeline.starts == pytest.approx([time / 1000 for time in TIMES])
    assert [timeline.at(second) for second in (0, 0.039, 0.04, 0.299, 1.4, 99)] == [0, 0, 1, 2, 7, 8]
    assert timeline.end(3) == pytest.approx(0.31)
    assert timeline.end(8) == timeline.seconds > 1.5


def test_rate_and_length() -> None:
    timeline = read_frames(io.BytesIO(clips.h264(60))).timeline
    assert (timeline.fps, timeline.seconds, timeline.keys) == (25.0, pytest.approx(2.4), (0, 12, 24, 36, 48))
    rounded = read_frames(io.BytesIO(clip("libx264", "matroska", 31, rate=30))).timeline
    assert rounded.fps == 30.0, "the times of Matroska are rounded to milliseconds, the declared rate is not"


def test_frames_that_cannot_be_decoded_at_the_start_do_not_count() -> None:
    frames = read_frames(io.BytesIO(clips.without_start(clips.h264(60), 5)))
    count = len(frames.timeline.starts)
    numbers = [number_of(frames.picture(index)) for index in range(count)]
    # Frames before the key frame 12 may be repairable, or not; none is counted that is not shown.
    assert numbers[-40:] == list(range(20, 60))
    assert number_of(frames.picture(0)) == numbers[0]
    assert frames.timeline.starts[0] == 0


def test_a_broken_frame_spoils_no_other_group() -> None:
    data = bytearray(clips.h264(60))
    frames = read_frames(io.BytesIO(bytes(data)))
    start = data.index(b"mdat") + 4
    middle = start + (data.index(b"moov") - start) // 2
    data[middle : middle + 60] = bytes(60)
    broken = read_frames(io.BytesIO(bytes(data)))
    assert broken.timeline == frames.timeline
    assert any((broken.picture(index) != frames.picture(index)).any() for index in range(60))
    for index in (*range(12), *range(48, 60), 30):
        shape = broken.picture(index).shape
        assert shape == (clips.HEIGHT, clips.WIDTH, 3)
    assert [number_of(broken.picture(index)) for index in (59, 3, 50)] == [59, 3, 50]


@pytest.mark.parametrize("make", [clips.vp9, lambda: clips.variable_rate(range(0, 2000, 40))])
def test_a_file_that_was_cut_has_the_frames_that_are_left(make: Callable[[], bytes]) -> None:
    data = make()
    frames = read_frames(io.BytesIO(data[: len(data) * 2 // 3]))
    count = len(frames.timeline.starts)
    assert 5 < count < 50
    assert [number_of(frames.picture(index)) for index in range(count - 2)] == list(range(count - 2))
    assert frames.picture(count - 1).shape == (clips.HEIGHT, clips.WIDTH, 3)


def test_rotation_that_the_file_asks_for() -> None:
    upright = read_frames(io.BytesIO(clips.h264(3)))
    turned = read_frames(io.BytesIO(clips.turned(clips.h264(3), clips.CLOCKWISE)))
    assert (turned.timeline.width, turned.timeline.height) == (clips.HEIGHT, clips.WIDTH)
    assert (turned.picture(2) == np.rot90(upright.picture(2), -1)).all()
    assert turned.picture(1, (32, 64)).shape == (64, 32, 3)


@pytest.mark.parametrize("container", ["mp4", "matroska"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        (Fraction(2, 1), (256, 64)),
        (Fraction(1, 2), (128, 128)),
        (Fraction(64, 45), (182, 64)),
        (Fraction(1, 1), (128, 64)),
        (Fraction(0, 1), (128, 64)),
    ],
)
def test_pixels_that_are_not_square_are_displayed_as_players_do(
    shape: Fraction, size: tuple[int, int], container: str
) -> None:
    data = clips.clip("libx264", container, 5, sample_aspect_ratio=shape)
    frames = read_frames(io.BytesIO(data))
    assert (frames.timeline.width, frames.timeline.height) == size
    assert frames.picture(3).shape == (size[1], size[0], 3)
    back = Image.fromarray(frames.picture(3)).resize((clips.WIDTH, clips.HEIGHT), Image.Resampling.BOX)
    assert number_of(back) == 3
    if container == "mp4":
        turned = read_frames(io.BytesIO(clips.turned(data, clips.CLOCKWISE)))
        assert (turned.timeline.height, turned.timeline.width) == size
        assert (turned.picture(3) == np.rot90(frames.picture(3), -1)).all()


def test_pixels_so_long_that_a_frame_is_too_large_are_refused() -> None:
    data = clips.clip("libx264", "matroska", 2, sample_aspect_ratio=Fraction(10, 1))
    with pytest.raises(VideoTooLargeError, match=r"1280x64 pixels .*10 times as wide as high"):
        read_frames(io.BytesIO(data), FrameLimits(pixels=20_000))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"no video at all" * 50, "cannot be read as a video"),
        (b"GIF89a" + bytes(40), "broken"),
        (clips.h264(20)[:200], "cannot be read as a video"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "cannot be read as a video"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "cannot be read as a video"),
    ],
)
def test_what_is_no_video_says_so(data: bytes, why: str) -> None:
    with pytest.raises(VideoError, match=why):
        read_frames(io.BytesIO(data))


def test_a_sound_file_has_no_video_stream() -> None:
    import av

    target = io.BytesIO()
    with av.open(target, "w", format="matroska") as output:
        stream = output.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        output.mux(stream.encode(frame))
    with pytest.raises(VideoError, match="no video stream"):
        read_frames(io.BytesIO(target.getvalue()))


def test_a_larger_frame_of_an_animation_is_refused() -> None:
    data = bytearray(clips.gif(3))
    # The left upper corner, width and height of the second picture (its separator follows a block end).
    at = data.index(b"\x2c", data.index(b"\x21\xf9", data.index(b"\x2c") + 10)) + 5
    data[at : at + 4] = struct.pack("<HH", 200, 300)
    with pytest.raises(VideoTooLargeError, match="x300 pixels is over"):
        read_frames(io.BytesIO(bytes(data)), FrameLimits(pixels=20_000))


def test_whatever_is_broken_is_a_video_error() -> None:
    """Noise in the bytes of small videos gives frames or a `VideoError`, and nothing else."""
    noise = random.Random(7)
    videos = [make() for make, _ in MAKERS.values()]
    failed = 0
    for _ in range(150):
        data = bytearray(noise.choice(videos))
        for _ in range(noise.choice((1, 5, 20))):
            data[noise.randrange(len(data))] = noise.randrange(256)
        try:
            frames = read_frames(io.BytesIO(bytes(data)), FrameLimits(pixels=100_000, frames=100))
            line = frames.timeline
            assert min(line.seconds, line.fps, len(line.starts)) > 0
            assert frames.picture(len(line.starts) - 1).shape == (line.height, line.width, 3)
        except (VideoError, MemoryError):
            failed += 1
    assert 10 < failed < 140


def test_limits_hold_before_pixels_are_decoded() -> None:
    with pytest.raises(VideoTooLargeError, match="16000x16000 pixels is over the limit"):
        read_frames(io.BytesIO(clips.huge()))
    for data in (clips.h264(20), clips.gif(12)):
        with pytest.raises(VideoTooLargeError, match="more than 11 frames"):
            read_frames(io.BytesIO(data), FrameLimits(frames=11))
        with pytest.raises(VideoTooLargeError, match="over the limit of 8000"):
            read_frames(io.BytesIO(data), FrameLimits(pixels=8000))


def test_a_file_is_not_held_open_and_not_mixed_with_another(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    path.write_bytes(clips.h264())
    before = sorted(os.listdir("/proc/self/fd"))
    frames = open_frames(str(path))
    assert number_of(frames.picture(50)) == 50
    assert sorted(os.listdir("/proc/self/fd")) == before
    file = ReopenedFile(str(path))
    path.write_bytes(clips.vp9())
    with pytest.raises(OSError, match="was changed"):
        file.read(10)


@pytest.fixture
def reader(tmp_path: Path) -> VideoReader:
    (tmp_path / "v.mp4").write_bytes(clips.h264(60))
    return VideoReader(str(tmp_path / "v.mp4"), ctx=video.cpu(0), num_threads=1)


def test_indexing(reader: VideoReader) -> None:
    assert (len(reader), reader.shape) == (60, (60, clips.HEIGHT, clips.WIDTH, 3))
    assert number_of(reader[-1]) == number_of(reader[np.int64(59)].asnumpy()) == 59
    assert [number_of(frame) for frame in reader[50:2:-12]] == [50, 38, 26, 14]
    assert number_of(reader[[7, 3]][1]) == 3
    assert reader[5:5].shape == (0, clips.HEIGHT, clips.WIDTH, 3)
    for wrong in (60, -61):
        with pytest.raises(IndexError, match="the video has 60, from 0 to 59"):
            reader[wrong]
    with pytest.raises(TypeError):
        reader["3"]


def test_a_frame_is_an_array(reader: VideoReader) -> None:
    frame = reader[9]
    assert (frame.dtype, frame.shape, type(frame.asnumpy())) == (np.uint8, (clips.HEIGHT, clips.WIDTH, 3), np.ndarray)
    assert (np.asarray(frame) == frame.asnumpy()).all()
    frame[:] = 0
    assert number_of(reader[9]) == 9, "what a program does to a frame stays with that array"
    batch = reader.get_batch([9])
    batch[:] = 0
    assert number_of(reader[9]) == 9


def test_a_batch_comes_in_the_order_asked_for(reader: VideoReader) -> None:
    for indices in ([40, 3, 40, -1], (40, 3, 40, 59), np.array([40, 3, 40, 59])):
        batch = reader.get_batch(indices)
        assert batch.asnumpy().shape == (4, clips.HEIGHT, clips.WIDTH, 3)
        assert [number_of(frame) for frame in batch] == [40, 3, 40, 59]


def test_position(reader: VideoReader) -> None:
    assert [number_of(reader.next()), number_of(reader.next())] == [0, 1]
    reader.seek(30)
    reader.skip_frames(2)
    assert number_of(reader.next()) == 32
    reader.seek_accurate(-1)
    assert number_of(next(reader)) == 59
    with pytest.raises(StopIteration):
        reader.next()
    assert [number_of(frame) for frame in reader] == list(range(60))


def test_times(reader: VideoReader) -> None:
    assert reader.get_avg_fps() == 25.0
    assert reader.get_frame_timestamp(3) == pytest.approx([0.12, 0.16])
    assert reader.get_frame_timestamp([0, -1]) == pytest.approx(np.array([[0, 0.04], [2.36, 2.4]]))
    assert reader.get_frame_timestamp(slice(0, 3)).shape == (3, 2)
    assert reader.get_key_indices() == [0, 12, 24, 36, 48]


def test_size_and_file_objects() -> None:
    small = VideoReader(io.BytesIO(clips.vp9()), width=64, height=32)
    assert small[3].shape == (32, 64, 3)
    assert small[3][4:12, 58:62].mean() > 200, "the last bits of number 3 are set"
    assert VideoReader(io.BytesIO(clips.gif()), width=32)[0].shape == (clips.HEIGHT, 32, 3)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        VideoReader(str(tmp_path / "missing.mp4"))
    (tmp_path / "bad.mp4").write_bytes(b"x" * 1000)
    with pytest.raises(DECORDError, match="cannot be read as a video"):
        VideoReader(tmp_path / "bad.mp4")
    later = VideoReader.later(str(tmp_path / "missing.mp4"))
    assert "missing.mp4" in repr(later)
    with pytest.raises(FileNotFoundError):
        len(later)
    video.install()
    bridge = importlib.import_module("decord.bridge")
    with pytest.raises(ImportError, match="numpy arrays"):
        bridge.set_bridge("torch")
    bridge.set_bridge("native")


"""A frame that is stored before another and shown after it; units of half a second."""


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


def test_a_fifo_in_its_place_does_not_hold_anybody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v")
    assert ReopenedFile(str(tmp_path / "v")).bytes == 0
