"""The worlds of still pictures that ask for seeing alone: programs, evidence, knobs and exact pixels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.media.store import MediaStore
from saccade.tasks.worlds.base import Clip, Split, World, WorldSample, draw_sample, load_world, make_task

SMALL: dict[str, Any] = {"megapixels": (0.3, 0.6)}
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
KINDS = [pytest.param(case, kind, id=f"{case.world}-{kind}") for case in CASES for kind in case.kinds]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.world)


def sample_of(case: Case, kind: str, index: int, split: Split = "test", **turned: Any) -> WorldSample:
    world = case.loaded()
    small = SMALL if case.world == "visual-search@1" else {}
    kinds = {"kinds": (kind,)} if kind else {}
    return draw_sample(world, split, index, world.knobs(**{**small, **kinds, **turned}))


@pytest.mark.parametrize(("case", "kind"), KINDS)
@pytest.mark.few(1, of=lambda params: params["case"].world)
def test_the_program_finds_the_answer(case: Case, kind: str) -> None:
    for index in range(4):
        sample = sample_of(case, kind, index)
        assert printed_answer(sample) == sample.answer, f"sample {index}: {sample.question}"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "kind"), KINDS)
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


@pytest.mark.parametrize(("case", "kind"), KINDS)
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
