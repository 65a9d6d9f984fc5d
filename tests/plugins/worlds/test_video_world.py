"""Clips: frames that are equal everywhere, encodings that keep their facts, programs that see what happens."""

from __future__ import annotations

import io
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from tests.plugins.worlds.running import printed_answer

from saccade.errors import SettingsError, UnavailableError
from saccade.plugins.worlds import reading as video_reading
from saccade.plugins.worlds.canvas import overlaps
from saccade.plugins.worlds.video import (
    KINDS,
    SIZE,
    THING_COLOURS,
    WORLD,
    VideoCodec,
    VideoKind,
    VideoKnobs,
    VideoScene,
    encode_clip,
    plan,
)
from saccade.tasks.worlds import Clip, Rng, Split, WorldSample, draw_sample, seed_of

# Raw frames, question and answer of index 0. A change needs a new version of the world's id.
GOLDEN = {"train": "1108bf78dbe9a46d", "test": "a92f9ad777521adc"}
each_kind = pytest.mark.parametrize("kind", KINDS)


def planned(split: Split, index: int, knobs: VideoKnobs | None = None) -> tuple[VideoScene, str]:
    """The raw scene of a sample, and question and answer."""
    knobs = knobs or VideoKnobs()
    _, scene, asked = plan(Rng(seed_of(WORLD.id, split, index, knobs)), knobs)
    return scene, f"{asked.question}|{asked.answer}"


def reader_of(sample: WorldSample) -> object:
    pytest.importorskip("av")
    from saccade.guest.video import VideoReader

    clip = sample.media["video_clue_0"]
    assert isinstance(clip, Clip)
    return VideoReader(io.BytesIO(clip.data))


def answer_of(sample: WorldSample) -> str:
    return printed_answer(sample, video_clue_0=reader_of(sample))


@pytest.mark.parametrize("split", ["train", "test"])
def test_frames_are_those_of_every_machine(split: Split) -> None:
    scene, asked = planned(split, 0)
    digest = sha256(asked.encode())
    for pixels in scene.draw():
        digest.update(pixels.tobytes())
    assert digest.hexdigest()[:16] == GOLDEN[split]


@pytest.mark.few(3)
@each_kind
def test_programs_find_the_answer(kind: VideoKind) -> None:
    pytest.importorskip("av")
    for index in range(2):
        sample = draw_sample(WORLD, "test", index, VideoKnobs(most_frames=130, kinds=(kind,)))
        assert sample.tags[0] == kind
        assert answer_of(sample) == sample.answer, sample.question


@pytest.mark.slow
@each_kind
def test_programs_find_the_answer_of_many(kind: VideoKind) -> None:
    samples = [draw_sample(WORLD, "test", index, VideoKnobs(kinds=(kind,))) for index in range(2, 26)]
    wrong = [sample.question for sample in samples if answer_of(sample) != sample.answer]
    assert not wrong


@pytest.mark.parametrize("codec", ["h264", "vp9"])
def test_encoded_clips_keep_their_frames(codec: VideoCodec) -> None:
    pytest.importorskip("av")
    knobs = VideoKnobs(most_frames=120, codecs=(codec,))
    sample = draw_sample(WORLD, "train", 1, knobs)
    scene, _ = planned("train", 1, knobs)
    clip = sample.media["video_clue_0"]
    assert isinstance(clip, Clip)
    assert (clip.width, clip.height, clip.frames, clip.fps) == (*SIZE, scene.frames, scene.fps)
    video: object = reader_of(sample)
    assert len(video) == scene.frames  # type: ignore[arg-type]
    for seen, drawn in zip(video, scene.draw(), strict=True):  # type: ignore[call-overload]
        assert np.abs(np.asarray(seen).astype(int) - drawn).mean() < 4


def test_things_never_touch() -> None:
    for index in range(60):
        scene, _ = planned("train", index)
        assert 60 <= scene.frames <= 900
        for frame in range(0, scene.frames, 7):
            boxes = [thing.box(frame) for thing in scene.things if thing.first <= frame < thing.end]
            assert not any(overlaps(a, b, 4) for i, a in enumerate(boxes) for b in boxes[:i])


def test_things_are_slow_enough_to_follow() -> None:
    for index in range(60):
        scene, _ = planned("train", index)
        for thing in scene.things:
            assert thing.end - thing.first >= scene.fps
            path = [thing.box(frame) for frame in range(thing.first, thing.end, max(1, scene.fps // 4))]
            assert all(max(abs(b[0] - a[0]), abs(b[1] - a[1])) < 25 for a, b in pairwise(path))


def test_colours_are_told_apart() -> None:
    for index in range(40):
        scene, _ = planned("validation", index)
        frame = next(iter(VideoScene(1, scene.fps, scene.background, ()).draw()))
        assert not any(video_reading.blobs_of(frame, colour) for colour in THING_COLOURS)


def test_kinds_and_knobs() -> None:
    kinds = {plan(Rng(seed_of(WORLD.id, "train", index, VideoKnobs())), VideoKnobs())[0] for index in range(60)}
    assert kinds == set(KINDS)
    with pytest.raises(SettingsError, match="no clip"):
        plan(Rng(0), VideoKnobs(least_frames=900, most_frames=899))


def test_no_frames_are_no_clip() -> None:
    pytest.importorskip("av")
    with pytest.raises(ValueError, match="at least one"):
        encode_clip((), 10, "h264")


def test_without_pyav_one_learns_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[video\]"):
        encode_clip((), 10, "h264")
