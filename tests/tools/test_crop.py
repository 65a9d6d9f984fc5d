"""Cropping: exact pixels, stated units, boxes of every kind."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from saccade.guest.video_stream import VideoError, open_frames
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.pictures import MAX_SIDE, Crop, CropArguments, Draw, Rotate, SelectFrames

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
    width, height = uncropped["size"]
    sides = {"w": width, "h": height, "w+": width + 1, "h+": height + 1}
    result = Crop().call({"box": [sides.get(str(side), side) for side in box]}, context)
    assert (result.value["clipped"], result.value["size"]) == (clipped, [width, height])


def test_units_are_stated_not_guessed(context: ToolContext) -> None:
    box = [0.1, 0.5, 0.3, 1.0]
    normalized = Crop().call({"box": box, "units": "normalized"}, context)
    assert normalized.value["box"] == [10, 30, 30, 60]
    pixels = Crop().call({"box": box}, context)
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
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


def test_the_schema_tells_a_model_everything() -> None:
    schema = Crop().definition.parameters
    assert schema == CropArguments.model_json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["required"] == ["box"]


def test_quarter_turns_lose_no_pixel(context: ToolContext, picture: Image.Image) -> None:
    result = Rotate().call({"angle": 90}, context)
    assert result.value == {"image": "scene", "angle": 90.0, "size": [60, 100]}
    assert result.pictures[0].image.tobytes() == picture.transpose(Image.Transpose.ROTATE_90).tobytes()
    clockwise = Rotate().call({"angle": 90, "direction": "clockwise"}, context)
    assert clockwise.pictures[0].image.tobytes() == picture.transpose(Image.Transpose.ROTATE_270).tobytes()


def test_without_expand_the_size_stays_and_corners_are_filled(context: ToolContext) -> None:
    result = Rotate().call({"angle": 45, "expand": False, "fill": [1, 2, 3]}, context)
    assert result.pictures[0].image.size == (100, 60)
    assert result.pictures[0].image.getpixel((0, 0)) == (1, 2, 3)
    assert Rotate().call({"angle": 45}, context).pictures[0].image.width > 100


def test_the_published_tool_keeps_the_canvas(context: ToolContext) -> None:
    assert Rotate().call({"angle": 90}, context, alias="image_rotate_tool").pictures[0].image.size == (100, 60)


@pytest.mark.parametrize("angle", [361, -1e9, "90", None, float("inf")])
def test_wrong_angles(context: ToolContext, angle: object) -> None:
    result = Rotate().call({"angle": angle}, context)
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


LEVELS = [10 + 20 * number for number in range(10)]  # grey level of each frame


RATE = 5


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> ToolContext:
    av = pytest.importorskip("av", reason="the extra `video` is not installed")
    path = tmp_path_factory.mktemp("video") / "clip.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=RATE)  # lossless
        stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr0"
        for number, level in enumerate(LEVELS):
            frame = av.VideoFrame.from_image(Image.new("RGB", (64, 48), (level, level, level)))
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return ToolContext({}, {"clip": path})


def levels(result: ToolResult) -> list[Any]:
    assert result.ok, result.problem
    return [picture.image.getpixel((5, 5)) for picture in result.pictures]


def grey(*numbers: int) -> list[tuple[int, int, int]]:
    return [(LEVELS[number],) * 3 for number in numbers]


def test_by_number_in_the_order_asked_for(clip: ToolContext) -> None:
    result = SelectFrames().call({"frames": [7, 0, 7]}, clip)
    assert levels(result) == grey(7, 0, 7)
    assert [picture.name for picture in result.pictures] == ["frame_1", "frame_2", "frame_3"]
    assert result.value == {
        "video": "clip",
        "frames": [{"frame": 7, "second": 1.4}, {"frame": 0, "second": 0.0}, {"frame": 7, "second": 1.4}],
        "size": [64, 48],
    }


def test_a_frame_that_cannot_be_decoded_loses_the_call(clip: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(frames: object, number: int) -> None:
        raise VideoError(f"frame {number} is damaged")

    monkeypatch.setattr(type(open_frames(str(clip.video(None)[1]))), "picture", broken)
    result = SelectFrames().call({"frames": [3]}, clip)
    assert (result.status, result.problem and result.problem.detail.partition(": ")[2]) == (
        Status.LOST,
        "clip.mkv cannot be decoded as a video: frame 3 is damaged. Give another file.",
    )


def test_one_frame_has_a_size_too(clip: ToolContext) -> None:
    result = SelectFrames().call({"frames": [3]}, clip)
    assert levels(result) == grey(3)
    assert result.value["size"] == [64, 48]


def test_a_time_gives_the_frame_on_the_screen(clip: ToolContext) -> None:
    result = SelectFrames().call({"seconds": [1.99, 0, 0.39, 0.41]}, clip)
    assert levels(result) == grey(9, 0, 1, 2)


def test_beyond_the_end(clip: ToolContext) -> None:
    by_number = SelectFrames().call({"frames": [10]}, clip)
    assert "from 0 to 9" in by_number.text
    by_time = SelectFrames().call({"seconds": [2.5]}, clip)
    assert "ends at 2.000" in by_time.text
    for result in (by_number, by_time):
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [1], "seconds": [1]}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": []}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [-1]}, ProblemKind.ARGUMENT_FORMAT),
        ({"frames": [0] * 17}, ProblemKind.ARGUMENT_FORMAT),
        ({"target_frames": [1]}, ProblemKind.ARGUMENT_NAME),
        ({"frames": [1], "video": "clop"}, ProblemKind.UNKNOWN_IMAGE),
    ],
)
def test_wrong_arguments(clip: ToolContext, arguments: dict[str, Any], kind: ProblemKind) -> None:
    result = SelectFrames().call(arguments, clip)
    assert result.problem.kind is kind


def test_a_broken_or_missing_file_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"no video at all" * 50)
    for name in ("noise.mp4", "missing.mp4"):
        result = SelectFrames().call({"frames": [0]}, ToolContext({}, {"v": tmp_path / name}))
        assert result.status is Status.LOST
        assert result.text == ""
        assert name in result.problem.detail


def test_without_pyav_it_is_unavailable(monkeypatch: pytest.MonkeyPatch, clip: ToolContext) -> None:
    monkeypatch.setattr("saccade.tools.definition.find_spec", lambda name: None)
    result = SelectFrames().call({"frames": [0]}, clip)
    assert result.status is Status.REFUSED
    assert "pip install 'saccade-vlm[video]'" in result.problem.detail


WHITE = Image.new("RGB", (120, 80), "white")
CONTEXT = ToolContext({"a": WHITE})


def draw(*shapes: dict[str, Any], **more: Any) -> ToolResult:
    return Draw().call({"shapes": list(shapes), **more}, CONTEXT)


def ink(result: ToolResult) -> tuple[int, int, int, int] | None:
    """Smallest box around all that was drawn."""
    assert result.ok, result.text
    return ImageChops.difference(result.pictures[0].image, WHITE).getbbox()


def test_a_box_covers_exactly_its_pixels() -> None:
    result = draw({"kind": "box", "box": [10, 20, 50, 60], "width": 2, "color": [0, 0, 255]})
    assert ink(result) == (10, 20, 50, 60)
    assert result.pictures[0].image.getpixel((10, 20)) == (0, 0, 255)
    assert result.pictures[0].image.getpixel((30, 40)) == (255, 255, 255)
    normalized = draw({"kind": "box", "box": [0.5, 0.5, 1, 1]}, units="normalized")
    assert ink(normalized) == (60, 40, 120, 80)


def test_the_original_stays_as_it_was() -> None:
    before = WHITE.tobytes()
    draw({"kind": "grid"})
    assert WHITE.tobytes() == before


def test_a_ruler_reads_length_and_angle() -> None:
    result = draw({"kind": "ruler", "start": [10, 70], "end": [40, 30]}, image="a")
    assert result.value == {"image": "a", "shapes": 1, "rulers": [{"length": 50.0, "angle": 53.13}]}
    assert ink(result) is not None


def test_points_lines_labels_and_grid_leave_ink() -> None:
    assert ink(draw({"kind": "point", "at": [60, 40], "width": 5})) == (55, 35, 66, 46)
    assert ink(draw({"kind": "line", "start": [10, 10], "end": [100, 10], "width": 1})) == (10, 10, 101, 11)
    plain = ink(draw({"kind": "point", "at": [60, 40], "width": 1}))
    labelled = ink(draw({"kind": "point", "at": [60, 40], "width": 1, "label": "A"}))
    assert labelled[2] > plain[2]
    bare = draw({"kind": "grid", "columns": 2, "rows": 1, "numbers": False, "width": 1})
    assert ink(bare) == (60, 0, 61, 80)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ({"kind": "point", "at": [121, 0]}, ProblemKind.ARGUMENT_FORMAT),
        ({"kind": "line", "start": [0, 0], "end": [1e308, 0]}, ProblemKind.ARGUMENT_FORMAT),
        ({"kind": "ruler", "start": [5, 5], "end": [5, 5]}, ProblemKind.ARGUMENT_FORMAT),
        ({"kind": "circle", "at": [5, 5]}, ProblemKind.ARGUMENT_FORMAT),
        ({"kind": "point"}, ProblemKind.SCHEMA),
        ({"kind": "point", "at": [5, 5], "colour": [1, 2, 3]}, ProblemKind.ARGUMENT_NAME),
        ({"kind": "point", "at": [5, 5], "color": [1, 2, 256]}, ProblemKind.ARGUMENT_FORMAT),
    ],
)
def test_wrong_shapes(shape: dict[str, Any], kind: ProblemKind) -> None:
    result = draw(shape)
    assert result.problem.kind is kind
    assert draw().problem is not None


CORNER = st.floats(-20, 140) | st.floats(allow_nan=False, allow_infinity=False)
POINT = st.tuples(CORNER, CORNER).map(list)
SHAPE = st.one_of(
    st.fixed_dictionaries({"kind": st.just("box"), "box": st.tuples(CORNER, CORNER, CORNER, CORNER).map(list)}),
    st.fixed_dictionaries({"kind": st.just("point"), "at": POINT, "label": st.text(max_size=20)}),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["line", "ruler"]), "start": POINT, "end": POINT, "width": st.integers(1, 50)}
    ),
    st.fixed_dictionaries({"kind": st.just("grid"), "columns": st.integers(1, 50), "label": st.text(max_size=20)}),
)


@given(st.lists(SHAPE, min_size=1, max_size=3))
def test_no_shape_makes_it_fail(shapes: list[dict[str, Any]]) -> None:
    result = draw(*shapes)
    if result.problem is not None:
        assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT, result.problem
    else:
        assert result.pictures[0].image.size == WHITE.size


@pytest.mark.parametrize(
    ("end", "angle"), [((30, 20), 0), ((10, 0), 90), ((10, 40), -90), ((0, 20), 180), ((20, 10), 45)]
)
def test_angles_of_a_ruler_go_against_the_clock(end: tuple[int, int], angle: float) -> None:
    context = ToolContext({"a": Image.new("RGB", (60, 60))})
    result = Draw().call({"shapes": [{"kind": "ruler", "start": [10, 20], "end": list(end)}]}, context)
    assert result.value["rulers"][0]["angle"] == angle  # type: ignore[index, call-overload]


def where(result: ToolResult, lacks: int = 1) -> set[tuple[int, int]]:
    """The pixels that a channel left: red ones lack 1 and 2, blue ones 0 and 1. The edges of letters are pale."""
    pixels = np.asarray(result.pictures[0].image)
    return {(int(x), int(y)) for y, x in np.argwhere(pixels[..., lacks] < 255)}


@pytest.mark.parametrize("place", [(0, 0), (119, 0), (0, 79), (119, 79), (60, 40)])
def test_a_label_stays_whole_wherever_its_shape_is(place: tuple[int, int]) -> None:
    """As many pixels of ink as in the middle, but for those that the dot hides."""

    def written(at: tuple[int, int]) -> set[tuple[int, int]]:
        dot = {"kind": "point", "at": list(at), "width": 1}
        blue = draw({**dot, "label": "MMM", "color": [0, 0, 255]}, {**dot, "color": [255, 0, 0]})
        return where(blue, lacks=0)

    middle, here = written((30, 30)), written(place)
    shift = (min(x for x, _ in here) - min(x for x, _ in middle), min(y for _, y in here) - min(y for _, y in middle))
    moved = {(x + shift[0], y + shift[1]) for x, y in middle}
    assert here <= moved
    assert len(moved - here) <= 9
    if place == (60, 40):
        assert shift == (30, 10)


def columns_and_rows(result: ToolResult) -> tuple[list[int], list[int]]:
    """Columns and rows that are inked from edge to edge."""
    assert result.ok, result.text
    drawn = np.asarray(ImageChops.difference(result.pictures[0].image, WHITE)).any(axis=2)
    return np.flatnonzero(drawn.all(axis=0)).tolist(), np.flatnonzero(drawn.all(axis=1)).tolist()


def test_a_grid_cuts_the_image_into_equal_cells() -> None:
    plain = {"kind": "grid", "numbers": False, "width": 1}
    assert columns_and_rows(draw({**plain, "columns": 4, "rows": 2})) == ([30, 60, 90], [40])
    assert columns_and_rows(draw({**plain, "columns": 1, "rows": 3})) == ([], [27, 53])
    assert ink(draw({**plain, "columns": 1, "rows": 1})) is None
    assert columns_and_rows(draw(plain)) == ([*range(12, 120, 12)], [*range(8, 80, 8)])
    bare = draw({**plain, "columns": 2, "rows": 1}).pictures[0].image
    numbered = draw({**plain, "columns": 2, "rows": 1, "numbers": True}).pictures[0].image
    where = ImageChops.difference(bare, numbered).getbbox()
    assert where[0] >= 62
    assert where[3] <= 16
    beside = draw({**plain, "columns": 1, "rows": 2, "numbers": True}).pictures[0].image
    below = ImageChops.difference(beside, draw({**plain, "columns": 1, "rows": 2}).pictures[0].image).getbbox()
    assert below[1] >= 42
    assert below[2] <= 16


def test_a_ruler_has_ticks_across_it() -> None:
    drawn = draw({"kind": "ruler", "start": [10, 40], "end": [50, 40], "width": 1, "color": [0, 0, 0]})
    dark = np.asarray(drawn.pictures[0].image.convert("L")) == 0
    assert [x for x in range(55) if dark[36:45, x].all()] == [10, 20, 30, 40, 50]
    assert not dark[35, :55].any()
    assert dark[40, 10:51].all()
    steep = draw({"kind": "ruler", "start": [60, 10], "end": [60, 34], "width": 2, "tick": 12, "color": [0, 0, 0]})
    dark = np.asarray(steep.pictures[0].image.convert("L")) == 0
    assert [y for y in range(5, 33) if dark[y, 55:66].all()] == [10, 22]
    assert not dark[5:30, 54].any()
    assert steep.value["rulers"] == [{"length": 24.0, "angle": -90.0}]
    backwards = draw({"kind": "ruler", "start": [50, 40], "end": [10, 40]})
    assert backwards.value["rulers"] == [{"length": 40.0, "angle": 180.0}]


def test_a_ruler_has_at_most_a_thousand_ticks() -> None:
    wide = ToolContext({"a": Image.new("RGB", (2100, 12), "white")})
    shape = {"kind": "ruler", "start": [0, 6], "end": [2090, 6], "width": 1, "tick": 2, "color": [0, 0, 0]}
    dark = np.asarray(Draw().call({"shapes": [shape]}, wide).pictures[0].image.convert("L")) == 0
    assert dark[3, 2000]
    assert not dark[3, 2002:2010].any()
