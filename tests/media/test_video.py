"""What a video is, sampling, and videos in the store."""

from __future__ import annotations

import builtins
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.media import clips
from tests.media.clips import clip, number_of

from saccade.errors import DecodeError, MediaError, TooLargeError, UnavailableError
from saccade.media.modes import PixelBudget
from saccade.media.store import MediaStore
from saccade.media.video import (
    AtIndices,
    AtRate,
    Choice,
    Uniform,
    VideoFacts,
    VideoLimits,
    _mime_type,
    probe,
    sample_frames,
)
from saccade.record.codec import dumps, loads

pytest.importorskip("av", reason="the extra `video` is not installed")

SIZE = (clips.WIDTH, clips.HEIGHT)


@pytest.mark.parametrize(
    ("make", "frames", "fps", "mime"),
    [
        (clips.h264, 60, 25.0, "video/mp4"),
        (clips.vp9, 40, 25.0, "video/webm"),
        (lambda: clip("libx264", "matroska", 30, rate=30), 30, 30.0, "video/x-matroska"),
        (lambda: clip("mpeg4", "mov", 20, rate=10), 20, 10.0, "video/quicktime"),
        (lambda: clip("mpeg4", "avi", 20, rate=10), 20, 10.0, "video/x-msvideo"),
        (clips.gif, 12, 12.5, "image/gif"),
        (lambda: clips.gif(kind="WEBP"), 12, 12.5, "image/webp"),
    ],
    ids=["mp4", "webm", "mkv", "mov", "avi", "gif", "webp"],
)
def test_probe(make: Callable[[], bytes], frames: int, fps: float, mime: str, tmp_path: Path) -> None:
    data = make()
    facts = probe(data)
    assert facts == VideoFacts(*SIZE, frames, fps, pytest.approx(frames / fps, rel=0.02), mime)
    (tmp_path / "v").write_bytes(data)
    assert probe(tmp_path / "v") == probe(str(tmp_path / "v")) == facts


def test_probe_counts_what_the_header_does_not_say_and_turns() -> None:
    assert probe(clip("libx264", "h264", 30, options={"bf": "2"})).frames == 30
    varying = probe(clips.variable_rate([0, 100, 150, 1000]))
    assert (varying.frames, varying.fps) == (4, pytest.approx(4 / varying.seconds))
    turned = probe(clips.turned(clips.h264(), clips.CLOCKWISE))
    assert (turned.width, turned.height) == SIZE[::-1]


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (Uniform(1), [29]),
        (Uniform(2), [0, 59]),
        (Uniform(5), [0, 15, 30, 44, 59]),
        (Uniform(60), list(range(60))),
        (Uniform(1000), list(range(60))),
        (AtRate(1), [0, 25, 50]),
        (AtRate(2, most=3), [0, 30, 59]),
        (AtRate(2, most=5), [0, 12, 25, 37, 50]),  # just as many as the rate gives
        (AtRate(100), list(range(60))),
        (AtIndices((59, 0, 2, 2)), [59, 0, 2, 2]),
    ],
)
def test_sampling_states_the_indices(choice: Choice, wanted: list[int]) -> None:
    sampled = sample_frames(clips.h264(), choice)
    assert [frame.index for frame in sampled] == wanted == [number_of(frame.image) for frame in sampled]
    assert [frame.second for frame in sampled] == pytest.approx([index / 25 for index in wanted])
    assert {(frame.image.mode, frame.image.size) for frame in sampled} == {("RGB", SIZE)}


def test_sampling_a_variable_rate_goes_by_time() -> None:
    times = [0, 40, 47, 300, 310, 320, 1000, 1001, 1500]
    sampled = sample_frames(clips.variable_rate(times), AtRate(2))
    assert [(frame.index, number_of(frame.image)) for frame in sampled] == [(0, 0), (5, 5), (6, 6), (8, 8)]


def test_sampled_pictures_are_separate_and_fit_the_budget() -> None:
    one, two = sample_frames(clips.h264(), AtIndices((25, 25)))
    one.image.paste((0, 0, 0), (0, 0, *SIZE))
    assert number_of(two.image) == 25
    budget = PixelBudget(factor=28, min_pixels=28 * 28, max_pixels=56 * 56)
    assert {frame.image.size for frame in sample_frames(clips.vp9(), Uniform(3), budget=budget)} == {(56, 28)}


@pytest.mark.parametrize("data", [b"", b"no video" * 99, clips.h264()[:900], b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_broken_files(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="Get it again"):
        probe(data)
    (tmp_path / "bad.mp4").write_bytes(data)
    with pytest.raises(DecodeError, match=r"bad\.mp4"):
        probe(tmp_path / "bad.mp4")


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "missing.mp4", tmp_path, tmp_path / "fifo"):
        with pytest.raises(MediaError):
            probe(path)


def test_without_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "av":
            raise ImportError("No module named 'av'")
        return real(name, *args, **kwargs)

    video, animation = clips.h264(), clips.gif()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnavailableError, match=r"pip install 'saccade-vlm\[video\]'"):
        probe(video)
    assert probe(animation).frames == 12


def test_the_store_keeps_videos(tmp_path: Path) -> None:
    store = MediaStore(tmp_path / "media")
    data = clips.h264()
    (tmp_path / "v.mp4").write_bytes(data)
    part = store.put_video(data)
    assert part == store.put_video(tmp_path / "v.mp4") == store.put_video(str(tmp_path / "v.mp4"))
    assert (part.sha256, part.frames, part.mime) == (hashlib.sha256(data).hexdigest(), 60, "video/mp4")
    assert store.get_bytes(part.sha256) == data
    assert part in store
    assert number_of(sample_frames(store.path(part.sha256), AtIndices((5,)))[0].image) == 5
    assert loads(dumps(part), type(part)) == part


def test_a_transparent_animation_is_shown_on_white() -> None:
    import io

    from PIL import Image

    target = io.BytesIO()
    frames = [Image.new("RGBA", (8, 8), (255, 0, 0, alpha)) for alpha in (0, 255)]
    frames[0].save(target, "WEBP", save_all=True, append_images=frames[1:], duration=100, lossless=True)
    colours = [np.asarray(frame.image)[0, 0].tolist() for frame in sample_frames(target.getvalue(), Uniform(2))]
    assert colours == [[255, 255, 255], [255, 0, 0]]


def test_limits_hold_what_they_say_and_no_more() -> None:
    video = clips.h264()
    pixels = SIZE[0] * SIZE[1]
    exact = VideoLimits(data_bytes=len(video), pixels=pixels, frames=60, seconds=2.4, sampled_pixels=pixels)
    assert probe(video, limits=exact).frames == 60
    assert len(sample_frames(video, Uniform(1), limits=exact)) == 1
    for field, less, why in (
        ("data_bytes", len(video) - 1, rf"has {len(video):,} bytes, over the limit of {len(video) - 1:,}\."),
        ("pixels", pixels - 1, f"over the limit of {pixels - 1}"),
        ("frames", 59, "more than 59 frames"),
        ("seconds", 2.39, "is 2 s long, over the limit of 2 s"),
    ):
        with pytest.raises(TooLargeError, match=why):
            probe(video, limits=replace(exact, **{field: less}))
    with pytest.raises(TooLargeError, match="Ask for fewer frames"):
        sample_frames(video, Uniform(2), limits=exact)
    with pytest.raises(TooLargeError, match="16000x16000"):
        probe(clips.huge())


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (Uniform(0), "cannot sample 0 frames: ask for one at least"),
        (AtRate(0), "cannot sample 0 frames per second: give a rate up to 1000"),
        (AtRate(1000.5), r"cannot sample 1000\.5 frames per second"),
    ],
)
def test_what_is_said_of_a_choice_that_cannot_be_met(choice: Choice, why: str) -> None:
    with pytest.raises(MediaError, match=why):
        sample_frames(clips.h264(), choice)


def test_no_memory_for_a_frame_is_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise MemoryError("64 GB")

    monkeypatch.setattr("saccade.guest.video_stream.read_frames", full)
    (tmp_path / "v.mp4").write_bytes(clips.h264())
    with pytest.raises(TooLargeError, match=r"v\.mp4 needs more memory than there is for it: 64 GB\. Scale it down\.$"):
        probe(tmp_path / "v.mp4")


@pytest.mark.parametrize(
    ("container", "beginning", "mime"),
    [
        ("mov,mp4", b"\0\0\0\x20ftypisom", "video/mp4"),
        ("mov,mp4", b"\0\0\0\x20ftypqt  ", "video/quicktime"),
        ("mov,mp4", b"\0\0\0\x20ftyp3gp5", "video/3gpp"),
        ("mov,mp4", b"\0\0\0\x20moov", "video/quicktime"),
        ("matroska,webm", b"\x1aE\xdf\xa3 \x42\x82\x84webm", "video/webm"),
        ("matroska,webm", b"\x1aE\xdf\xa3 \x42\x82\x88matroska", "video/x-matroska"),
        ("mpegts", b"", "video/mp2t"),
        ("new-kind,other", b"", "video/x-newkind"),
    ],
)
def test_types_of_containers(container: str, beginning: bytes, mime: str) -> None:
    assert _mime_type(container, beginning) == mime


@pytest.mark.parametrize(("end", "mime"), [(4096, "video/webm"), (4097, "video/x-matroska")])
def test_the_kind_of_matroska_stands_in_the_first_4096_bytes(end: int, mime: str) -> None:
    data = clips.vp9()
    assert data[4] == 0x80 | 31, "the header has its size in one byte"
    header, rest = data[5:36], data[36:]
    fill = end - (data.index(b"\x42\x82\x84webm") + 7) - len(b"\xec\x00\x00") - 7
    void = b"\xec" + (0x4000 | fill).to_bytes(2, "big") + bytes(fill)  # an element that means nothing
    longer = data[:4] + b"\x01" + (len(void) + len(header)).to_bytes(7, "big") + void + header + rest
    assert longer.index(b"webm") + 4 == end
    assert probe(longer).mime == mime
