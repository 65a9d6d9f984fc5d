"""The programs on generated worlds of the same families, which were drawn without them in mind."""

from __future__ import annotations

import pytest
from PIL import Image
from tests.plugins.worlds.solvers.running import plain, printed

from saccade.tasks.worlds.base import WorldSample, draw_sample, load_world

WORLDS = ("nested-squares", "grid-count", "line-crossings", "shape-count", "touching-circles")


def _picture(sample: WorldSample) -> Image.Image:
    picture = sample.media["image_0"]
    assert isinstance(picture, Image.Image)
    return picture


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.few(5)
def test_world(name: str, index: int) -> None:
    sample = draw_sample(load_world(name), "validation", index)
    assert plain(printed(sample.question, _picture(sample))) == plain(sample.answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_more_of_a_world(name: str) -> None:
    world = load_world(name)
    samples = [draw_sample(world, "validation", index) for index in range(40)]
    right = [plain(printed(one.question, _picture(one))) == plain(one.answer) for one in samples]
    assert sum(right) >= 0.95 * len(right)
