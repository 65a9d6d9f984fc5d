"""The programs run where a model's code runs: the sandbox has the fonts, libraries and frame reader they need."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest
from PIL import Image

from saccade.sandbox.base import Binding, VideoFile
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.worlds.base import Clip, draw_sample, load_world

WORLDS = ("chart-bar", "chart-line", "chart-pie", "chart-scatter", "table-arithmetic", "geometry", "video-events",
          "form-page", "pictograph", "region-map", "solid-scene")  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
async def test_programs_find_the_answer_in_the_sandbox() -> None:
    pytest.importorskip("av")
    async with LocalSandbox() as box:
        for name in WORLDS:
            for index in range(4):
                sample = draw_sample(load_world(name), "test", index)
                bindings, files = _bound(sample.media)
                session = await box.open(bindings, files=files)
                result = await session.run(sample.program)
                await session.close()
                assert result.status == "ok", result
                assert result.stdout.strip().splitlines()[-1] == sample.answer


def _bound(media: Mapping[str, Image.Image | Clip]) -> tuple[dict[str, Binding], dict[str, bytes]]:
    bindings: dict[str, Binding] = {}
    files: dict[str, bytes] = {}
    for name, medium in media.items():
        if isinstance(medium, Clip):
            files[name] = medium.data
            bindings[name] = VideoFile(name)
        else:
            bindings[name] = medium
    return bindings, files
