"""Maps, infographics, forms and solids: what their programs read from the pixels is the gold answer."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from PIL import Image
from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.plugins.worlds import counting, documents
from saccade.record.task import AnswerType
from saccade.tasks.worlds.base import Knobs, World, WorldSample, draw_sample

KINDS = {
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


@each_kind
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
        assert sample.evidence
        assert all(
            0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height for x0, y0, x1, y1 in (b.xyxy for b in sample.evidence)
        )
        assert (sample.answer_type is AnswerType.CHOICE) == bool(sample.choices)
        assert not sample.choices or sample.answer in sample.choices
        assert len(set(sample.choices)) == len(sample.choices)
    assert len({pixels_digest(sample) for sample in samples}) == 40
    assert {sample.tags[0] for sample in samples} == set(KINDS[world])


@each_world
def test_pixels_are_those_of_every_machine(world: World[Knobs]) -> None:
    for split in ("train", "test"):
        key = f"{world.id}/{split}"
        assert pixels_digest(draw_sample(world, split, 0)) == GOLDEN[key], key


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
