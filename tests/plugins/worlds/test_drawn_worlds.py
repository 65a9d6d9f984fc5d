"""Charts, tables, diagrams, maps, forms and solids: what their programs read from the pixels is the gold answer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.plugins.worlds import counting, documents, geometry, tables
from saccade.plugins.worlds.charts import bars_lines, pie_scatter
from saccade.plugins.worlds.charts.frame import KINDS as CHART_KINDS
from saccade.plugins.worlds.charts.pie_scatter import ScatterKind
from saccade.plugins.worlds.reading.kit import number, read_text
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds.base import Knobs, World, WorldSample, draw_sample

KINDS = {
    bars_lines.WORLD: CHART_KINDS,
    bars_lines.CHART_LINES_WORLD: CHART_KINDS,
    pie_scatter.WORLD: CHART_KINDS,
    pie_scatter.CHART_SCATTER_WORLD: get_args(ScatterKind),
    tables.WORLD: tables.KINDS,
    geometry.WORLD: geometry.KINDS,
    documents.WORLD: get_args(documents.FormKind),
    counting.PICTOGRAPH_WORLD: get_args(counting.PictographKind),
    documents.REGION_MAP_WORLD: get_args(documents.MapKind),
    counting.SOLID_SCENE_WORLD: get_args(counting.SolidKind),
}
EVERY_KIND = [pytest.param(world, kind, id=f"{world.id}-{kind}") for world, kinds in KINDS.items() for kind in kinds]
each_kind = pytest.mark.parametrize(("world", "kind"), EVERY_KIND)
each_world = pytest.mark.parametrize("world", KINDS, ids=lambda world: world.id)

# World, split and index 0 at default knobs: question, answer and every pixel. A change needs a new version of the id.
GOLDEN = {
    "chart-bar@2/train": "26d5afdd036ba174",
    "chart-bar@2/test": "e308fe12c709322f",
    "chart-line@2/train": "2da7d71524923a49",
    "chart-line@2/test": "0e9db4b1781e55ad",
    "chart-pie@3/train": "621f04852e5843d5",
    "chart-pie@3/test": "54201119434db0e7",
    "chart-scatter@3/train": "07842d12661308a9",
    "chart-scatter@3/test": "7323728ff5fc29c5",
    "geometry@1/train": "00d60cfd73d13f6d",
    "geometry@1/test": "eea025176ce60b94",
    "table-arithmetic@3/train": "fd6fe47afe78cde2",
    "table-arithmetic@3/test": "cdf43cb39d8ccd29",
    "form-page@1/train": "6fcac9cf59ff81e6",
    "form-page@1/test": "41b2cf6898c2558d",
    "pictograph@1/train": "0150c90400f687f4",
    "pictograph@1/test": "922f9acc7ee825cf",
    "region-map@1/train": "1771c638ff078668",
    "region-map@1/test": "3c2a001111eba83d",
    "solid-scene@1/train": "d589a33aaa5031fb",
    "solid-scene@1/test": "03b069f4fdde2bc1",
}


def sample_of(world: World[Knobs], kind: str, index: int) -> WorldSample:
    return draw_sample(world, "test", index, world.knobs.model_validate({"kinds": (kind,)}))


def picture_of(sample: WorldSample) -> Image.Image:
    picture = sample.media["image_0"]
    assert isinstance(picture, Image.Image)
    return picture


def pixels_in(sample: WorldSample, box: EvidenceBox) -> np.ndarray:
    return np.asarray(picture_of(sample).crop(tuple(int(edge) for edge in box.xyxy)))


@each_kind
@pytest.mark.few(8)
def test_programs_find_the_answer(world: World[Knobs], kind: str) -> None:
    for index in range(2):
        sample = sample_of(world, kind, index)
        assert sample.tags[0] == kind
        assert printed_answer(sample) == sample.answer, sample.question


@pytest.mark.slow
@each_kind
def test_programs_find_the_answer_of_many(world: World[Knobs], kind: str) -> None:
    samples = [sample_of(world, kind, index) for index in range(2, 82)]
    assert not [s.question for s in samples if printed_answer(s) != s.answer]


@each_kind
def test_without_the_picture_there_is_no_answer(world: World[Knobs], kind: str) -> None:
    blind = []
    for index in range(3):
        sample = sample_of(world, kind, index)
        try:
            blind.append(printed_answer(sample, image_0=Image.new("RGB", (400, 300), "white")) == sample.answer)
        except Exception:  # whatever the program stumbles over on an empty page
            blind.append(False)
    assert not all(blind)


@each_world
def test_samples_are_well_formed_and_differ(world: World[Knobs]) -> None:
    samples = [draw_sample(world, "train", index) for index in range(40)]
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
    assert len({pixels_digest(sample) for sample in samples}) == 40
    assert len({sample.tags[0] for sample in samples}) >= min(4, len(KINDS[world]))


@each_world
def test_pixels_are_those_of_every_machine(world: World[Knobs]) -> None:
    for split in ("train", "test"):
        key = f"{world.id}/{split}"
        assert pixels_digest(draw_sample(world, split, 0)) == GOLDEN[key], key


@pytest.mark.parametrize(
    "world",
    [bars_lines.WORLD, bars_lines.CHART_LINES_WORLD, pie_scatter.CHART_SCATTER_WORLD],
    ids=lambda world: world.id,
)
def test_evidence_of_charts_is_the_mark(world: World[Knobs]) -> None:
    for index in range(20):
        sample = draw_sample(world, "validation", index)
        for box in sample.evidence:
            pixels = pixels_in(sample, box).reshape(-1, 3)
            colours, counts = np.unique(pixels, axis=0, return_counts=True)
            assert counts.max() > 0.7 * len(pixels)
            colour = colours[counts.argmax()].astype(int)
            assert colour.max() - colour.min() > 70  # a mark, not paper or ink


def test_evidence_of_pies_is_pie_and_legend() -> None:
    for index in range(20):
        sample = draw_sample(pie_scatter.WORLD, "validation", index)
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
        sample = sample_of(tables.WORLD, kind, index)
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
    sample = sample_of(geometry.WORLD, kind, 1)
    grey = np.asarray(picture_of(sample).convert("L"))
    seen = [read_text(grey, tuple(int(edge) for edge in box.xyxy)) for box in sample.evidence]
    assert all(any(sign.isdigit() for sign in text) or "x" in text for text in seen), seen


def test_a_page_without_a_chart_is_no_answer() -> None:
    sample = sample_of(bars_lines.WORLD, "value", 0)
    page = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(page).line((40, 20, 40, 250), fill="black")
    with pytest.raises((ValueError, IndexError, TypeError)):
        printed_answer(sample, image_0=page)


def test_evidence_of_solids_holds_their_colour_to_its_edges() -> None:
    for index in range(10):
        sample = draw_sample(counting.SOLID_SCENE_WORLD, "validation", index)
        for box in sample.evidence:
            hsv = np.asarray(picture_of(sample).crop(tuple(map(int, box.xyxy))).convert("HSV"))
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
