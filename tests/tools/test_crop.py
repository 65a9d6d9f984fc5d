"""Cropping: exact pixels, stated units, boxes of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.crop import MAX_SIDE, Crop, CropArguments

PHOTO = Path(__file__).parents[3] / "shared/data/photos/signicade.JPG"
NUMBER = st.floats(-1e3, 1e3) | st.floats() | st.integers()


def test_pixels_are_exactly_those_of_the_box(context: ToolContext) -> None:
    result = Crop().call({"box": [10, 20, 30, 50]}, context)
    assert result.value == {"image": "scene", "box": [10, 20, 30, 50], "clipped": False, "size": [20, 30]}
    [picture] = result.pictures
    assert picture.image.size == (20, 30)
    assert picture.image.getpixel((0, 0)) == (10, 20, 7)
    assert picture.image.getpixel((19, 29)) == (29, 49, 7)


def test_fractions_round_outwards_and_clip(context: ToolContext) -> None:
    result = Crop().call({"box": [-5, 10.6, 20.2, 1e308]}, context)
    assert result.value is not None
    assert result.value["box"] == [0, 10, 21, 60]
    assert result.value["clipped"] is True
    assert "cut at its edge" in result.text


@pytest.mark.parametrize(
    ("box", "clipped"),
    [
        ([0, 0, "w", "h"], False),
        ([-1, 0, "w", "h"], True),
        ([0, -1, "w", "h"], True),
        ([0, 0, "w+", "h"], True),
        ([0, 0, "w", "h+"], True),
    ],
)
def test_a_box_up_to_the_edge_is_not_cut_and_one_pixel_more_is(
    context: ToolContext, box: list[int | str], clipped: bool
) -> None:
    uncropped = Crop().call({"box": [0, 0, 10_000, 10_000]}, context).value
    assert uncropped is not None
    width, height = uncropped["size"]
    sides = {"w": width, "h": height, "w+": width + 1, "h+": height + 1}
    result = Crop().call({"box": [sides.get(str(side), side) for side in box]}, context)
    assert result.value is not None
    assert (result.value["clipped"], result.value["size"]) == (clipped, [width, height])


def test_units_are_stated_not_guessed(context: ToolContext) -> None:
    box = [0.1, 0.5, 0.3, 1.0]
    normalized = Crop().call({"box": box, "units": "normalized"}, context)
    assert normalized.value is not None
    assert normalized.value["box"] == [10, 30, 30, 60]
    pixels = Crop().call({"box": box}, context)
    assert pixels.problem is not None
    assert pixels.problem.kind is ProblemKind.ARGUMENT_FORMAT
    assert 'units="normalized"' in pixels.text
    beyond = Crop().call({"box": [10, 20, 30, 40], "units": "normalized"}, context)
    assert 'units="pixels"' in beyond.text


def test_scale_enlarges_up_to_a_limit(context: ToolContext) -> None:
    result = Crop().call({"box": [0, 0, 10, 10], "scale": 2.5}, context)
    assert result.pictures[0].image.size == (25, 25)
    wide = ToolContext({"wide": Image.new("RGB", (600, 600))})
    assert f"beyond {MAX_SIDE}" in Crop().call({"box": [0, 0, 500, 500], "scale": 16}, wide).text


def test_a_crop_can_be_cropped(context: ToolContext) -> None:
    first = Crop().call({"box": [10, 10, 50, 50]}, context)
    context = context.extended(first.images())
    second = Crop().call({"box": [10, 10, 20, 20], "image": "crop_1"}, context)
    assert second.pictures[0].name == "crop_2"
    assert second.pictures[0].image.getpixel((0, 0)) == (20, 20, 7)
    by_number = Crop().call({"bbox_2d": [10, 10, 20, 20], "target_image": 2}, context, alias="crop_image")
    assert by_number.pictures[0].image.getpixel((0, 0)) == (20, 20, 7)


@pytest.mark.parametrize(
    "box", [[30, 0, 10, 20], [0, 0, 0, 20], [200, 0, 300, 40], [0, 0, 100, 1], [1, 2, 3], "0,0,1,1"]
)
def test_boxes_that_show_nothing(context: ToolContext, box: object) -> None:
    result = Crop().call({"box": box}, context)
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT
    assert result.pictures == ()


def test_the_published_zoom_refuses_thirty_pixels(context: ToolContext) -> None:
    def zoom(side: int) -> Status:
        call = {"bbox_2d": [0, 0, side, side], "label": "the cup"}
        return Crop().call(call, context, alias="image_zoom_in_tool").status

    assert zoom(30) is Status.ERROR
    assert zoom(31) is Status.OK


@given(
    st.lists(NUMBER, min_size=3, max_size=5), st.sampled_from(["pixels", "normalized"]), st.integers(1, 300), st.data()
)
def test_any_box_gives_a_region_inside_the_image_or_a_problem(
    box: list[float], units: str, width: int, data: st.DataObject
) -> None:
    size = (width, data.draw(st.integers(1, 300)))
    image = Image.new("RGB", size)
    result = Crop().call({"box": box, "units": units}, ToolContext({"a": image}))
    assert result.ok is (result.problem is None)
    if result.value is not None:
        left, top, right, bottom = json.loads(json.dumps(result.value["box"]))
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        assert result.pictures[0].image.size == (right - left, bottom - top)
    else:
        assert result.problem is not None
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


def test_the_schema_tells_a_model_everything() -> None:
    schema = Crop().definition.parameters
    assert schema == CropArguments.model_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["required"] == ["box"]


@pytest.mark.skipif(not PHOTO.exists(), reason="the shared photos are not here")
def test_a_real_photo() -> None:
    context = ToolContext({"photo": lambda: Image.open(PHOTO)})
    size = context.image(None).size
    result = Crop().call({"box": [0.25, 0.25, 0.5, 0.5], "units": "normalized"}, context)
    assert result.ok
    assert abs(result.pictures[0].image.width - size[0] / 4) <= 2
