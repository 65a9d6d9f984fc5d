"""Frames by number and by time, from a video made here; skipped where PyAV is not installed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.guest.video_stream import open_frames
from saccade.guest.video_timeline import VideoError
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.select_frames import SelectFrames

av = pytest.importorskip("av", reason="the extra `video` is not installed")
LEVELS = [10 + 20 * number for number in range(10)]  # grey level of each frame
RATE = 5


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> ToolContext:
    path = tmp_path_factory.mktemp("video") / "clip.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=RATE)  # lossless
        stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr0"
        for number, level in enumerate(LEVELS):
            frame = av.VideoFrame.from_image(Image.new("RGB", (64, 48), (level, level, level)))
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return ToolContext({}, {"clip": path})


def levels(result: ToolResult) -> list[Any]:
    assert result.ok, result.problem
    return [picture.image.getpixel((5, 5)) for picture in result.pictures]


def grey(*numbers: int) -> list[tuple[int, int, int]]:
    return [(LEVELS[number],) * 3 for number in numbers]


def test_by_number_in_the_order_asked_for(clip: ToolContext) -> None:
    result = SelectFrames().call({"frames": [7, 0, 7]}, clip)
    assert levels(result) == grey(7, 0, 7)
    assert [picture.name for picture in result.pictures] == ["frame_1", "frame_2", "frame_3"]
    assert result.value == {
        "video": "clip",
        "frames": [{"frame": 7, "second": 1.4}, {"frame": 0, "second": 0.0}, {"frame": 7, "second": 1.4}],
        "size": [64, 48],
    }


def test_a_frame_that_cannot_be_decoded_loses_the_call(clip: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(frames: object, number: int) -> None:
        raise VideoError(f"frame {number} is damaged")

    monkeypatch.setattr(type(open_frames(str(clip.video(None)[1]))), "picture", broken)
    result = SelectFrames().call({"frames": [3]}, clip)
    assert (result.status, result.problem and result.problem.detail.partition(": ")[2]) == (
        Status.LOST,
        "clip.mkv cannot be decoded as a video: frame 3 is damaged. Give another file.",
    )


def test_one_frame_has_a_size_too(clip: ToolContext) -> None:
    result = SelectFrames().call({"frames": [3]}, clip)
    assert levels(result) == grey(3)
    assert result.value is not None
    assert result.value["size"] == [64, 48]


def test_a_time_gives_the_frame_on_the_screen(clip: ToolContext) -> None:
    result = SelectFrames().call({"seconds": [1.99, 0, 0.39, 0.41]}, clip)
    assert levels(result) == grey(9, 0, 1, 2)


def test_beyond_the_end(clip: ToolContext) -> None:
    by_number = SelectFrames().call({"frames": [10]}, clip)
    assert "from 0 to 9" in by_number.text
    by_time = SelectFrames().call({"seconds": [2.5]}, clip)
    assert "ends at 2.000" in by_time.text
    for result in (by_number, by_time):
        assert result.problem is not None
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [1], "seconds": [1]}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": []}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [-1]}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [0] * 17}, ProblemKind.ARGUMENT_FORMAT),
        ({"target_frames": [1]}, ProblemKind.ARGUMENT_NAME),
        ({"frames": [1], "video": "clop"}, ProblemKind.UNKNOWN_IMAGE),
    ],
)
def test_wrong_arguments(clip: ToolContext, arguments: dict[str, Any], kind: ProblemKind) -> None:
    result = SelectFrames().call(arguments, clip)
    assert result.problem is not None
    assert result.problem.kind is kind


def test_a_broken_or_missing_file_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"no video at all" * 50)
    for name in ("noise.mp4", "missing.mp4"):
        result = SelectFrames().call({"frames": [0]}, ToolContext({}, {"v": tmp_path / name}))
        assert result.status is Status.LOST
        assert result.text == ""
        assert result.problem is not None
        assert name in result.problem.detail


def test_without_pyav_it_is_unavailable(monkeypatch: pytest.MonkeyPatch, clip: ToolContext) -> None:
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: None)
    result = SelectFrames().call({"frames": [0]}, clip)
    assert result.status is Status.REFUSED
    assert result.problem is not None
    assert 'pip install "saccade[video]"' in result.problem.detail
