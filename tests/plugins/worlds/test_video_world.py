"""Clips: frames that are equal everywhere, encodings that keep their facts, programs that see what happens."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.errors import SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.canvas import overlaps
from saccade.plugins.worlds.reading import video as video_reading
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
from saccade.tasks.worlds.base import Clip, Split, World, WorldSample, draw_sample, load_world, make_task, seed_of
from saccade.tasks.worlds.rng import Rng

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


SMALL_SEARCH: dict[str, Any] = {"megapixels": (0.3, 0.6)}
"""Knobs of visual-search for the quick suite."""


@dataclass(frozen=True)
class Case:
    world: str
    kinds: tuple[str, ...]
    """Values of the knob `kinds`; one empty name for a world without kinds."""
    golden: str
    """Digest of sample 0 of split `test`."""

    def loaded(self) -> World[Any]:
        return load_world(self.world)


CASES = (
    Case("circled-letter@1", ("",), "2678ef6ddc669d91"),
    Case("grid-count@1", ("rows", "columns", "both"), "f5b23adcbc67a083"),
    Case("line-crossings@1", ("",), "43c76c5f2cc18e44"),
    Case("maze@1", ("reach", "length"), "727732940d6687e7"),
    Case("nested-squares@1", ("",), "2a5678df172dce43"),
    Case("path-follow@1", ("",), "b0492bed60e92341"),
    Case("pixel-colour@1", ("same", "value", "lightest", "share", "most"), "7d0a65f31ee6a964"),
    Case("rotated-dark-text@1", ("rotated", "dark", "mirrored"), "a96cfb5496b1d59a"),
    Case("shape-count@1", ("scatter", "overlap"), "df5f3a585476f576"),
    Case("sign-close-up@1", ("letter", "number", "dot"), "64dbc1b3c295ed07"),
    Case("sign-colours@2", ("",), "80b75ac6dffe7049"),
    Case("spot-difference@1", ("count", "where", "colour"), "03741db2de77915e"),
    Case("touching-circles@1", ("contact", "overlap"), "3df878cd8e36ce73"),
    Case("visual-search@1", ("letter", "number", "dot", "side-by-colour", "side-by-letter"), "bcbb48f4ff3ab63f"),
)


CASE_KINDS = [pytest.param(case, kind, id=f"{case.world}-{kind}") for case in CASES for kind in case.kinds]


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.world)


def sample_of(case: Case, kind: str, index: int, split: Split = "test", **turned: Any) -> WorldSample:
    world = case.loaded()
    small = SMALL_SEARCH if case.world == "visual-search@1" else {}
    kinds = {"kinds": (kind,)} if kind else {}
    return draw_sample(world, split, index, world.knobs(**{**small, **kinds, **turned}))


@pytest.mark.parametrize(("case", "kind"), CASE_KINDS)
@pytest.mark.few(1, of=lambda params: params["case"].world)
def test_the_program_finds_the_answer(case: Case, kind: str) -> None:
    for index in range(4):
        sample = sample_of(case, kind, index)
        assert printed_answer(sample) == sample.answer, f"sample {index}: {sample.question}"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "kind"), CASE_KINDS)
def test_the_program_finds_the_answer_in_many_samples(case: Case, kind: str) -> None:
    world = case.loaded()
    knobs = world.knobs(**({"kinds": (kind,)} if kind else {}))
    for index in range(200):
        sample = draw_sample(world, "validation", index, knobs)
        assert printed_answer(sample) == sample.answer, f"sample {index}: {sample.question}"


@each_case
def test_the_pixels_are_the_same_on_every_machine(case: Case) -> None:
    """A change here needs a new version in the world's id (or comes from another version of Pillow)."""
    assert pixels_digest(sample_of(case, "", 0)) == case.golden


@each_case
@pytest.mark.few(5)
def test_no_picture_is_in_two_splits(case: Case) -> None:
    splits: tuple[Split, ...] = ("train", "validation", "test")
    tiny = {"megapixels": (0.05, 0.06)} if case.world == "visual-search@1" else {}
    seen = Counter(pixels_digest(sample_of(case, "", index, split, **tiny)) for split in splits for index in range(12))
    assert set(seen.values()) == {1}


@each_case
def test_samples_make_valid_tasks_with_something_to_see_in_each_box(case: Case, tmp_path: Path) -> None:
    for index in range(4):
        sample = sample_of(case, "", index)
        make_task(case.loaded(), "test", index, MediaStore(tmp_path))
        assert sample.evidence or sample.answer == "0" or sample.tags[-1] == "colours"
        for box in sample.evidence:
            assert len(np.unique(crop(sample, box.image, box.xyxy))) > 1 or sample.tags[0] == "value"


@pytest.mark.parametrize(("case", "kind"), CASE_KINDS)
@pytest.mark.few(1, of=lambda params: params["case"].world)
def test_answers_cannot_be_guessed(case: Case, kind: str) -> None:
    tiny = {"megapixels": (0.05, 0.06)} if case.world == "visual-search@1" else {}
    answers = Counter(sample_of(case, kind, index, "train", **tiny).answer for index in range(20))
    assert answers.most_common(1)[0][1] <= 15


def crop(sample: WorldSample, name: str, box: tuple[float, ...]) -> np.ndarray[Any, Any]:
    medium = sample.media[name]
    assert not isinstance(medium, Clip)
    x0, y0, x1, y1 = (int(value) for value in box)
    return np.asarray(medium.crop((x0, y0, x1, y1)).convert("RGB")).reshape(-1, 3)


@pytest.mark.parametrize("kind", ["letter", "number", "dot", "side-by-colour", "side-by-letter"])
@pytest.mark.few(1)
def test_visual_search_is_answered_by_its_evidence_alone(kind: str) -> None:
    case = CASES[-1]
    for index in range(8):
        sample = sample_of(case, kind, index)
        picture = sample.media["image_0"]
        assert isinstance(picture, Image.Image)
        rest = Image.new("RGB", picture.size, (110, 110, 110))
        for box in sample.evidence:
            x0, y0, x1, y1 = (int(value) for value in box.xyxy)
            rest.paste(picture.crop((x0, y0, x1, y1)), (x0, y0))
        assert printed_answer(sample, image_0=rest) == sample.answer


@pytest.mark.slow
def test_a_shrunk_picture_does_not_show_the_detail() -> None:
    """Even a perfect matcher of glyphs fails in the picture shrunk to 0.1 megapixels, and not in the whole one."""
    world = CASES[-1].loaded()
    found = Counter[str]()
    for index in range(6):
        sample = draw_sample(world, "test", index, world.knobs(kinds=("letter",), megapixels=(3.0, 3.0)))
        picture = sample.media["image_0"]
        assert isinstance(picture, Image.Image)
        scale = (100_000 / (picture.width * picture.height)) ** 0.5
        small = picture.resize((int(picture.width * scale), int(picture.height * scale)), Image.Resampling.BICUBIC)
        found["whole"] += printed_answer(sample) == sample.answer
        try:
            found["shrunk"] += printed_answer(sample, image_0=small.resize(picture.size)) == sample.answer
        except IndexError:  # not even the sign is found
            continue
    assert found["whole"] == 6
    assert found["shrunk"] <= 4


def number(sample: WorldSample) -> int:
    return int(sample.answer)


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("world", "turned", "holds"),
    [
        ("nested-squares@1", {"fewest": 7, "most": 7}, lambda s: number(s) == 7),
        ("grid-count@1", {"kinds": ("rows",), "fewest": 14, "most": 16}, lambda s: 14 <= number(s) <= 16),
        ("grid-count@1", {"words": 100}, lambda s: s.tags[1] == "words"),
        ("shape-count@1", {"kinds": ("overlap",), "fewest": 12, "most": 12}, lambda s: number(s) > 8),
        ("line-crossings@1", {"fewest_segments": 1, "most_segments": 1}, lambda s: number(s) <= 1),
        ("touching-circles@1", {"gap_percent": 100, "least_gap": 20}, lambda s: s.difficulty < 0.85),
        ("maze@1", {"fewest": 20, "most": 20, "pixels": 14}, lambda s: s.media["image_0"].width > 280),
        ("path-follow@1", {"lines": 8, "stages": 5}, lambda s: len(s.choices) == 8),
        ("rotated-dark-text@1", {"smallest": 100, "largest": 100}, lambda s: s.media["image_0"].width > 300),
        ("spot-difference@1", {"kinds": ("count",), "most": 1}, lambda s: number(s) == 1),
        ("pixel-colour@1", {"kinds": ("share",), "cells": 50}, lambda s: s.media["image_0"].width >= 500),
        ("circled-letter@1", {"smallest": 120, "largest": 120}, lambda s: s.media["image_0"].height > 480),
        (
            "visual-search@1",
            {"megapixels": (0.2, 0.2), "conjunction": 100, "kinds": ("dot",)},
            lambda s: " sign" in s.question,
        ),
    ],
)
def test_knobs_turn_the_difficulty_and_programs_keep_up(world: str, turned: dict[str, Any], holds: Any) -> None:
    loaded = load_world(world)
    for index in range(3):
        sample = draw_sample(loaded, "test", index, loaded.knobs(**turned))
        assert holds(sample)
        assert printed_answer(sample) == sample.answer
