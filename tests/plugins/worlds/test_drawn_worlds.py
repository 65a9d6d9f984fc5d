"""Worlds of still pictures: what their programs find in the pixels is the gold answer, on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.media.store import MediaStore
from saccade.plugins.worlds import counting, documents, geometry, tables
from saccade.plugins.worlds.charts.frame import KINDS as CHART_KINDS
from saccade.plugins.worlds.charts.pie_scatter import ScatterKind
from saccade.plugins.worlds.reading import number, read_text
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Split, WorldSample, draw_sample, load_world, make_task

READ: dict[str, tuple[str, ...]] = {
    "chart-bar@2": CHART_KINDS,
    "chart-line@2": CHART_KINDS,
    "chart-pie@3": CHART_KINDS,
    "chart-scatter@3": get_args(ScatterKind),
    "table-arithmetic@3": tables.KINDS,
    "geometry@1": geometry.KINDS,
    "form-page@1": get_args(documents.FormKind),
    "pictograph@1": get_args(counting.PictographKind),
    "region-map@1": get_args(documents.MapKind),
    "solid-scene@1": get_args(counting.SolidKind),
}
"""Worlds whose programs read the page, and the values of their knob `kinds`."""
SEEN: dict[str, tuple[str, ...]] = {
    "circled-letter@1": ("",),
    "grid-count@1": ("rows", "columns", "both"),
    "line-crossings@1": ("",),
    "maze@1": ("reach", "length"),
    "nested-squares@1": ("",),
    "path-follow@1": ("",),
    "pixel-colour@1": ("same", "value", "lightest", "share", "most"),
    "rotated-dark-text@1": ("rotated", "dark", "mirrored"),
    "shape-count@1": ("scatter", "overlap"),
    "sign-close-up@1": ("letter", "number", "dot"),
    "sign-colours@2": ("",),
    "spot-difference@1": ("count", "where", "colour"),
    "touching-circles@1": ("contact", "overlap"),
    "visual-search@1": ("letter", "number", "dot", "side-by-colour", "side-by-letter"),
}
"""Worlds of perception; one empty name for a world without kinds."""


def kinds_of(worlds: dict[str, tuple[str, ...]]) -> Any:
    cases = [pytest.param(world, kind, id=f"{world}-{kind}") for world, kinds in worlds.items() for kind in kinds]
    return pytest.mark.parametrize(("world", "kind"), cases)


one_of_each = pytest.mark.few(1, of=lambda params: params["world"])
each_read, each_seen = pytest.mark.parametrize("world", READ), pytest.mark.parametrize("world", SEEN)

# World, split and index 0 at default knobs: question, answer and every pixel. A change needs a new version of the id.
GOLDEN = {
    "chart-bar@2/train": "26d5afdd036ba174",
    "chart-bar@2/test": "e308fe12c709322f",
    "chart-line@2/test": "0e9db4b1781e55ad",
    "chart-pie@3/test": "54201119434db0e7",
    "chart-scatter@3/test": "7323728ff5fc29c5",
    "geometry@1/test": "eea025176ce60b94",
    "table-arithmetic@3/test": "cdf43cb39d8ccd29",
    "form-page@1/test": "41b2cf6898c2558d",
    "pictograph@1/test": "922f9acc7ee825cf",
    "region-map@1/test": "3c2a001111eba83d",
    "solid-scene@1/test": "03b069f4fdde2bc1",
    "circled-letter@1/test": "2678ef6ddc669d91",
    "grid-count@1/test": "f5b23adcbc67a083",
    "line-crossings@1/test": "43c76c5f2cc18e44",
    "maze@1/test": "727732940d6687e7",
    "nested-squares@1/test": "2a5678df172dce43",
    "path-follow@1/test": "b0492bed60e92341",
    "pixel-colour@1/test": "7d0a65f31ee6a964",
    "rotated-dark-text@1/test": "a96cfb5496b1d59a",
    "shape-count@1/test": "df5f3a585476f576",
    "sign-close-up@1/test": "64dbc1b3c295ed07",
    "sign-colours@2/test": "80b75ac6dffe7049",
    "spot-difference@1/test": "03741db2de77915e",
    "touching-circles@1/test": "3df878cd8e36ce73",
    "visual-search@1/test": "bcbb48f4ff3ab63f",
}
SMALL = {"megapixels": (0.3, 0.6)}
SMALLEST = {"megapixels": (0.05, 0.06)}
"""Knobs of visual-search for the quick suite."""


def sample_of(
    world: str, kind: str, index: int, split: Split = "test", search: dict[str, Any] = SMALL, **turned: Any
) -> WorldSample:
    loaded = load_world(world)
    kinds = {"kinds": (kind,)} if kind else {}
    size = search if world == "visual-search@1" else {}
    return draw_sample(loaded, split, index, loaded.knobs.model_validate({**size, **kinds, **turned}))


def picture_of(sample: WorldSample, name: str = "image_0") -> Image.Image:
    picture = sample.media[name]
    assert isinstance(picture, Image.Image)
    return picture


def pixels_in(sample: WorldSample, box: EvidenceBox) -> np.ndarray:
    return np.asarray(picture_of(sample, box.image).convert("RGB").crop(tuple(int(edge) for edge in box.xyxy)))


@kinds_of({**READ, **SEEN})
@one_of_each
def test_programs_find_the_answer(world: str, kind: str) -> None:
    for index in range(2):
        sample = sample_of(world, kind, index)
        assert sample.tags[0] == kind or world in SEEN
        assert printed_answer(sample) == sample.answer, f"sample {index}: {sample.question}"


@pytest.mark.slow
@kinds_of({**READ, **SEEN})
def test_programs_find_the_answer_of_many(world: str, kind: str) -> None:
    # A picture to search has two to four million pixels, the others a quarter of one.
    many = 40 if world == "visual-search@1" else 80 if world in READ else 200
    samples = (sample_of(world, kind, index, "validation", {}) for index in range(many))
    assert not [sample.question for sample in samples if printed_answer(sample) != sample.answer]


@kinds_of(READ)
@one_of_each
def test_without_the_picture_there_is_no_answer(world: str, kind: str) -> None:
    def guessed(index: int) -> bool:
        sample = sample_of(world, kind, index)
        try:
            return printed_answer(sample, image_0=Image.new("RGB", (400, 300), "white")) == sample.answer
        except Exception:  # whatever the program stumbles over on an empty page
            return False

    assert not all(guessed(index) for index in range(3))


@pytest.mark.few(4)
@each_read
def test_samples_are_well_formed_and_differ(world: str) -> None:
    samples = [sample_of(world, "", index, "train") for index in range(24)]
    for sample in samples:
        width, height = picture_of(sample).size
        assert 100 < width < 1400
        assert 100 < height < 1000
        assert sample.evidence
        assert all(
            0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height for x0, y0, x1, y1 in (b.xyxy for b in sample.evidence)
        )
        assert (sample.answer_type is AnswerType.CHOICE) == bool(sample.choices)
        assert not sample.choices or sample.answer in sample.choices
        assert len(set(sample.choices)) == len(sample.choices)
    assert len({pixels_digest(sample) for sample in samples}) == len(samples)
    assert len({sample.tags[0] for sample in samples}) >= min(4, len(READ[world]))


@pytest.mark.parametrize("key", GOLDEN)
def test_pixels_are_those_of_every_machine(key: str) -> None:
    world, split = key.split("/")
    assert pixels_digest(sample_of(world, "", 0, split)) == GOLDEN[key]  # type: ignore[arg-type]


@pytest.mark.parametrize("world", ["chart-bar@2", "chart-line@2", "chart-scatter@3"])
def test_evidence_of_charts_is_the_mark(world: str) -> None:
    for index in range(20):
        sample = sample_of(world, "", index, "validation")
        for box in sample.evidence:
            pixels = pixels_in(sample, box).reshape(-1, 3)
            colours, counts = np.unique(pixels, axis=0, return_counts=True)
            assert counts.max() > 0.7 * len(pixels)
            colour = colours[counts.argmax()].astype(int)
            assert colour.max() - colour.min() > 70  # a mark, not paper or ink


def test_evidence_of_pies_is_pie_and_legend() -> None:
    for index in range(20):
        sample = sample_of("chart-pie@3", "", index, "validation")
        assert sample.evidence[0].label == "pie"
        for box in sample.evidence[1:]:
            entry = pixels_in(sample, box)
            colour = entry[len(entry) // 2, 6]
            pie = pixels_in(sample, sample.evidence[0])
            # The least share is 3 of 100; a ring keeps at least two thirds of the disc's area.
            assert np.all(pie == colour, axis=2).sum() > 0.015 * pie.shape[0] * pie.shape[1]


FORMULAS: dict[str, Callable[[list[float]], float]] = {
    "total": sum,
    "difference": lambda seen: seen[0] - seen[1],
    "rate": lambda seen: seen[1] - seen[0],
    "mean": lambda seen: sum(seen) / len(seen),
    "range": lambda seen: max(seen) - min(seen),
    "median": lambda seen: sorted(seen)[len(seen) // 2],
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_evidence_of_tables_holds_the_numbers(kind: str) -> None:
    for index in range(3):
        sample = sample_of("table-arithmetic@3", kind, index)
        grey = np.asarray(picture_of(sample).convert("L"))
        boxes = [tuple(int(edge) for edge in box.xyxy) for box in sample.evidence]
        seen = [number(read_text(grey, (x0 + 4, y0 + 3, x1 - 3, y1 - 2))) for x0, y0, x1, y1 in boxes]
        assert FORMULAS[kind](seen) == float(sample.answer)


def test_a_share_with_a_small_denominator_has_wrong_choices() -> None:
    choices = draw_sample(tables.WORLD, "train", 948).choices
    assert len(set(choices)) == 4
    assert all(0 < Fraction(choice) <= 1 for choice in choices)


@pytest.mark.slow
def test_any_index_gives_a_table() -> None:
    for index in range(3000):
        draw_sample(tables.WORLD, "validation", index)


@pytest.mark.parametrize("kind", [kind for kind in geometry.KINDS if kind != "grid-area"])
def test_evidence_of_diagrams_is_their_labels(kind: str) -> None:
    sample = sample_of("geometry@1", kind, 1)
    grey = np.asarray(picture_of(sample).convert("L"))
    seen = [read_text(grey, tuple(int(edge) for edge in box.xyxy)) for box in sample.evidence]
    assert all(any(sign.isdigit() for sign in text) or "x" in text for text in seen), seen


def test_a_page_without_a_chart_is_no_answer() -> None:
    sample = sample_of("chart-bar@2", "value", 0)
    page = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(page).line((40, 20, 40, 250), fill="black")
    with pytest.raises((ValueError, IndexError, TypeError)):
        printed_answer(sample, image_0=page)


def test_evidence_of_solids_holds_their_colour_to_its_edges() -> None:
    for index in range(10):
        sample = draw_sample(counting.SOLID_SCENE_WORLD, "validation", index)
        for box in sample.evidence:
            hsv = np.asarray(
                picture_of(sample, box.image).convert("RGB").crop(tuple(map(int, box.xyxy))).convert("HSV")
            )
            strong = hsv[..., 1] > 80
            assert strong.mean() > 0.6
            assert all(edge.any() for edge in (strong[0], strong[-1], strong[:, 0], strong[:, -1]))


def test_no_two_rows_of_a_pictograph_are_equal() -> None:
    for index in range(30):
        sample = draw_sample(
            counting.PICTOGRAPH_WORLD, "train", index, counting.PictographKnobs(icons=3, kinds=("most",))
        )
        widths = [box.xyxy[2] for box in sample.evidence]
        assert len(set(widths)) == len(widths)
        assert printed_answer(sample) == sample.answer


@each_seen
@pytest.mark.few(5)
def test_no_picture_is_in_two_splits(world: str) -> None:
    splits: tuple[Split, ...] = ("train", "validation", "test")
    seen = Counter(
        pixels_digest(sample_of(world, "", index, split, SMALLEST)) for split in splits for index in range(12)
    )
    assert set(seen.values()) == {1}


@pytest.mark.few(5)
@each_seen
def test_samples_make_valid_tasks_with_something_to_see_in_each_box(world: str, tmp_path: Path) -> None:
    for index in range(4):
        sample = sample_of(world, "", index)
        make_task(load_world(world), "test", index, MediaStore(tmp_path))
        assert sample.evidence or sample.answer == "0" or sample.tags[-1] == "colours"
        for box in sample.evidence:
            assert len(np.unique(pixels_in(sample, box))) > 1 or sample.tags[0] == "value"


@kinds_of(SEEN)
@pytest.mark.few(5)
def test_answers_cannot_be_guessed(world: str, kind: str) -> None:
    answers = Counter(sample_of(world, kind, index, "train", SMALLEST).answer for index in range(20))
    assert answers.most_common(1)[0][1] <= 15


@pytest.mark.parametrize("kind", SEEN["visual-search@1"])
@pytest.mark.few(1)
def test_visual_search_is_answered_by_its_evidence_alone(kind: str) -> None:
    for index in range(8):
        sample = sample_of("visual-search@1", kind, index)
        picture = picture_of(sample)
        rest = Image.new("RGB", picture.size, (110, 110, 110))
        for box in sample.evidence:
            x0, y0, x1, y1 = (int(value) for value in box.xyxy)
            rest.paste(picture.crop((x0, y0, x1, y1)), (x0, y0))
        assert printed_answer(sample, image_0=rest) == sample.answer


@pytest.mark.slow
def test_a_shrunk_picture_does_not_show_the_detail() -> None:
    """Even a perfect matcher of glyphs fails in the picture shrunk to 0.1 megapixels, and not in the whole one."""
    found = Counter[str]()
    for index in range(6):
        sample = sample_of("visual-search@1", "letter", index, megapixels=(3.0, 3.0))
        picture = picture_of(sample)
        scale = (100_000 / (picture.width * picture.height)) ** 0.5
        small = picture.resize((int(picture.width * scale), int(picture.height * scale)), Image.Resampling.BICUBIC)
        found["whole"] += printed_answer(sample) == sample.answer
        try:
            found["shrunk"] += printed_answer(sample, image_0=small.resize(picture.size)) == sample.answer
        except IndexError:  # not even the sign is found
            continue
    assert found["whole"] == 6
    assert found["shrunk"] <= 4


def count(sample: WorldSample) -> int:
    return int(sample.answer)


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("world", "turned", "holds"),
    [
        ("nested-squares@1", {"fewest": 7, "most": 7}, lambda s: count(s) == 7),
        ("grid-count@1", {"kinds": ("rows",), "fewest": 14, "most": 16}, lambda s: 14 <= count(s) <= 16),
        ("grid-count@1", {"words": 100}, lambda s: s.tags[1] == "words"),
        ("shape-count@1", {"kinds": ("overlap",), "fewest": 12, "most": 12}, lambda s: count(s) > 8),
        ("line-crossings@1", {"fewest_segments": 1, "most_segments": 1}, lambda s: count(s) <= 1),
        ("touching-circles@1", {"gap_percent": 100, "least_gap": 20}, lambda s: s.difficulty < 0.85),
        ("maze@1", {"fewest": 20, "most": 20, "pixels": 14}, lambda s: s.media["image_0"].width > 280),
        ("path-follow@1", {"lines": 8, "stages": 5}, lambda s: len(s.choices) == 8),
        ("rotated-dark-text@1", {"smallest": 100, "largest": 100}, lambda s: s.media["image_0"].width > 300),
        ("spot-difference@1", {"kinds": ("count",), "most": 1}, lambda s: count(s) == 1),
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
    for index in range(3):
        sample = sample_of(world, "", index, search={}, **turned)
        assert holds(sample)
        assert printed_answer(sample) == sample.answer
