"""Drawing: pixels where they were asked for, readings of rulers, nothing outside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from saccade.tools.context import ToolContext
from saccade.tools.draw import Draw
from saccade.tools.problem import ProblemKind
from saccade.tools.result import ToolResult

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
    assert plain is not None
    assert labelled is not None
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
    assert result.problem is not None
    assert result.problem.kind is kind
    assert draw().problem is not None


NUMBER = st.floats(-20, 140) | st.floats(allow_nan=False, allow_infinity=False)
POINT = st.tuples(NUMBER, NUMBER).map(list)
SHAPE = st.one_of(
    st.fixed_dictionaries({"kind": st.just("box"), "box": st.tuples(NUMBER, NUMBER, NUMBER, NUMBER).map(list)}),
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


def test_a_ruler_has_a_tick_at_its_start_at_each_step_and_none_beyond() -> None:
    context = ToolContext({"a": Image.new("RGB", (200, 60), "white")})
    ruler = {"kind": "ruler", "start": [10, 20], "end": [35, 20], "tick": 10, "width": 1, "color": [255, 0, 0]}
    result = Draw().call({"shapes": [ruler]}, context)
    assert result.value is not None
    assert result.value["rulers"] == [{"length": 25.0, "angle": 0.0}]
    (picture,) = result.pictures
    marked = [x for x in range(0, 35) if picture.image.getpixel((x, 17)) == (255, 0, 0)]
    assert marked == [10, 20, 30]
    assert picture.image.getpixel((40, 17)) == (255, 255, 255)
    assert picture.image.getpixel((20, 24)) == (255, 0, 0)
    assert picture.image.getpixel((20, 26)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("end", "angle"), [((30, 20), 0), ((10, 0), 90), ((10, 40), -90), ((0, 20), 180), ((20, 10), 45)]
)
def test_angles_of_a_ruler_go_against_the_clock(end: tuple[int, int], angle: float) -> None:
    context = ToolContext({"a": Image.new("RGB", (60, 60))})
    result = Draw().call({"shapes": [{"kind": "ruler", "start": [10, 20], "end": list(end)}]}, context)
    assert result.value is not None
    assert result.value["rulers"][0]["angle"] == angle  # type: ignore[index, call-overload]
