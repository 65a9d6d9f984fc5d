"""What a model asks for in the numbers it learned is what is cut out, however small the picture is shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.shared_sandbox import LentSandbox

from saccade.dialects.base import load_dialect
from saccade.dialects.boxes import BoxSpace, Seen, in_pixels
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.prepared import prepared
from saccade.episode.regions import StoredPixels, regions
from saccade.episode.settings import EpisodeSettings
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import ImagePart, ToolCall
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory

SIZES = [(1200, 900), (901, 599), (303, 1201), (1500, 200), (190, 170)]
SHOWN = 40_000
"""Pixels shown: all but the last picture are scaled down."""
BLOCKS = 5
"""The red patch lies on a grid of so many cells a side."""


def patch(store: MediaStore, size: tuple[int, int], cell: tuple[int, int]) -> tuple[ImagePart, tuple[int, ...]]:
    """A white picture with one red cell, and the cell's box."""
    width, height = size
    box = tuple(
        round(edge * side / BLOCKS)
        for edge, side in zip((*cell, cell[0] + 1, cell[1] + 1), (*size, *size), strict=True)
    )
    image = Image.new("RGB", (width, height), "white")
    image.paste((255, 0, 0), (box[0], box[1], box[2], box[3]))
    return store.put_image(image), box


def numbers(box: tuple[int, ...], size: tuple[int, int], space: BoxSpace, shown: ImagePart) -> list[int]:
    """The box as a model that sees the shown picture writes it: whole numbers."""
    sides = {
        BoxSpace.FULL: size,
        BoxSpace.SHOWN: (shown.width, shown.height),
        BoxSpace.THOUSAND: (1000, 1000),
    }[space]
    return [round(edge * sides[at % 2] / size[at % 2]) for at, edge in enumerate(box)]


def play(store: MediaStore, part: ImagePart, texts: Any, **given: Any) -> Trajectory:
    """Play what `texts` makes of the shown picture."""
    settings = EpisodeSettings(model="m", media={"shown_pixels": SHOWN}, **given)
    task = Task(id="t", question="Which colour?", media=(NamedMedia(name="photo", part=part),))
    dialect, tools = settings.spoken()
    ready = prepared(task, dialect, settings, store)
    plan = Plan(ready.task, ready.dialect, shown=ready.shown, opened=ready.opening)
    (shown,) = [part for message in plan.opening.messages for part in message.media]
    assert isinstance(shown, ImagePart)
    box: Any = None if dialect.offers_tools else LentSandbox(dialect.sandbox)
    return asyncio.run(run_episode(plan, ScriptedModel(texts(shown)), box, store, tools=tools))


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def redness(store: MediaStore, part: ImagePart) -> float:
    """The share of the picture that is red."""
    image = store.open(part).decode().convert("RGB")
    pixels = image.resize((50, 50), Image.Resampling.BOX).tobytes()
    return sum(pixels[at] > 200 and pixels[at + 1] < 128 for at in range(0, len(pixels), 3)) / 2500


@pytest.mark.few(5, of=lambda params: params["space"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cell", [(2, 3), (0, 0), (4, 4), (4, 0)])
@pytest.mark.parametrize("space", BoxSpace)
def test_the_patch_is_what_is_cut_out(
    tmp_path: Path, size: tuple[int, int], cell: tuple[int, int], space: BoxSpace
) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, size, cell)

    def texts(shown: ImagePart) -> list[str]:
        wanted = numbers(box, size, space, shown)
        return [call("image_zoom_in_tool", bbox_2d=wanted), "<answer>red</answer>"]

    played = play(store, part, texts, dialect="deepeyes", boxes=space.value)
    assert played.answer == "red"
    execution = played.turns[0].execution
    assert execution is not None
    (cut,) = execution.pictures
    assert redness(store, cut.image) > 0.85
    assert cut.image.width == pytest.approx(box[2] - box[0], abs=10)
    assert cut.image.height == pytest.approx(box[3] - box[1], abs=10)
    # The record has the numbers of the model, and tells where it looked in the picture itself.
    assert played.provenance.boxes == space.value
    (region,) = regions(played, StoredPixels(store))
    assert region.box == pytest.approx(box, abs=6)


@pytest.mark.parametrize("space", BoxSpace)
def test_the_whole_picture_is_the_whole_picture(space: BoxSpace) -> None:
    for width, height in SIZES:
        full = ImagePart(sha256="a" * 64, width=width, height=height)
        shown = ImagePart(sha256="b" * 64, width=width // 3, height=height // 3 + 1)
        seen = {"image_0": Seen(full, shown)}
        sides = (1000, 1000) if space is BoxSpace.THOUSAND else (shown.width, shown.height)
        whole = [0, 0, *((width, height) if space is BoxSpace.FULL else sides)]
        mapped = in_pixels(ToolCall(name="crop", arguments={"box": whole}), space, seen)
        assert mapped.arguments == {"box": [0, 0, width, height]}


def test_a_crop_is_counted_in_its_own_pixels(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, (1200, 900), (2, 3))
    assert box == (480, 540, 720, 720)

    def texts(shown: ImagePart) -> list[str]:
        half = [0, shown.height / 2, shown.width, shown.height]
        return [
            call("crop", image="image_0", box=half),
            # image_1 has 1200 x 450 pixels and is shown as it is: the patch lies at 480..720, 90..270 in it
            call("crop", image="image_1", box=[480, 90, 720, 270]),
            "<answer>red</answer>",
        ]

    def thousandths(shown: ImagePart) -> list[str]:
        return [
            call("crop", image="image_0", box=[0, 500, 1000, 1000]),
            call("crop", image=2, box=[400, 200, 600, 600]),
            "<answer>red</answer>",
        ]

    for space, said in (("shown", texts), ("thousand", thousandths)):
        played = play(store, part, said, dialect="vista:tools-only", boxes=space, tools=("crop",))
        cuts = [turn.execution.pictures[0].image for turn in played.turns[:2] if turn.execution]
        assert [(cut.width, cut.height) for cut in cuts] == [(1200, 450), (240, 180)]
        assert redness(store, cuts[1]) == 1
        assert [region.box for region in regions(played, StoredPixels(store))] == [(0, 450, 1200, 900), box]


@pytest.mark.parametrize("size", SIZES)
def test_code_of_thyme_finds_the_picture_as_it_is_shown(tmp_path: Path, size: tuple[int, int]) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, size, (2, 3))

    def texts(shown: ImagePart) -> list[str]:
        wanted = numbers(box, size, BoxSpace.SHOWN, shown)
        code = f"image = Image.open(image_path)\nprint(image.size)\nimage.crop({tuple(wanted)}).save('cut.png')"
        return [f"<think>I look.\n<code>\n```python\n{code}\n```\n</code>", "</think>\n<answer>red</answer>"]

    played = play(store, part, texts, dialect="thyme")
    execution = played.turns[0].execution
    assert execution is not None
    (shown,) = played.prompt[-1].media
    assert execution.stdout == f"{(shown.width, shown.height)}\n"
    assert f"{shown.width}x{shown.height}" in played.prompt[-1].text
    assert redness(store, execution.pictures[0].image) > 0.85
    (region,) = [found for found in regions(played, StoredPixels(store)) if found.said]
    assert region.box == pytest.approx(box, abs=6)


def test_the_prompt_says_what_boxes_count(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    part, _ = patch(store, (2000, 1500), (2, 3))
    own = load_dialect("deepeyes")
    assert own.with_boxes(BoxSpace.SHOWN) == own
    for space, words in (("shown", "as it is shown"), ("thousand", "from 0 to 1000"), ("full", "full-size picture")):
        for dialect in ("deepeyes", "vista", "native"):
            played = play(store, part, lambda _: ["<answer>a</answer>"], dialect=dialect, boxes=space)
            told = "\n".join(message.text for message in played.prompt)
            assert words in told
    for dialect, why in (("pyvision", "fixes what boxes count"), ("thyme", "has code and no typed calls")):
        with pytest.raises(SettingsError, match=why):
            load_dialect(dialect).with_boxes(BoxSpace.THOUSAND)


def test_what_is_no_box_stays_as_it_is() -> None:
    full = ImagePart(sha256="a" * 64, width=200, height=100)
    seen = {"image_0": Seen(full, full.model_copy(update={"width": 100, "height": 50}))}

    def mapped(**arguments: Any) -> Any:
        return in_pixels(ToolCall(name="draw", arguments=arguments), BoxSpace.SHOWN, seen).arguments

    for arguments in (
        {"box": [0.1, 0.2, 0.3, 0.4], "units": "normalized"},
        {"box": "left"},
        {"box": None},
        {"box": [1, 2, 3, "4"], "image": "image_0"},
        {"box": [1, 2, 3, 4], "image": "image_7"},
        {"fill": [1, 2, 3, 4], "scale": 2},
    ):
        assert mapped(**arguments) == arguments
    assert mapped(box=[1, 2, 3.5, 4], image=1) == {"box": [2, 4, 7, 8], "image": 1}
    assert mapped(points=[[1, 2], [3, 4]], labels=[1, 0]) == {"points": [[2, 4], [6, 8]], "labels": [1, 0]}
    shapes = [{"kind": "point", "at": [5, 6], "color": [1, 2, 3]}, {"kind": "box", "box": [1, 1, 2, 2]}]
    assert mapped(shapes=shapes) == {
        "shapes": [{"kind": "point", "at": [10, 12], "color": [1, 2, 3]}, {"kind": "box", "box": [2, 2, 4, 4]}]
    }
