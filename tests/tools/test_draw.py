"""Drawing: pixels where they were asked for, readings of rulers, nothing outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.pictures import Draw

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


@pytest.mark.parametrize(
    ("end", "angle"), [((30, 20), 0), ((10, 0), 90), ((10, 40), -90), ((0, 20), 180), ((20, 10), 45)]
)
def test_angles_of_a_ruler_go_against_the_clock(end: tuple[int, int], angle: float) -> None:
    context = ToolContext({"a": Image.new("RGB", (60, 60))})
    result = Draw().call({"shapes": [{"kind": "ruler", "start": [10, 20], "end": list(end)}]}, context)
    assert result.value is not None
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
    assert where is not None
    assert where[0] >= 62
    assert where[3] <= 16
    beside = draw({**plain, "columns": 1, "rows": 2, "numbers": True}).pictures[0].image
    below = ImageChops.difference(beside, draw({**plain, "columns": 1, "rows": 2}).pictures[0].image).getbbox()
    assert below is not None
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
    assert steep.value is not None
    assert steep.value["rulers"] == [{"length": 24.0, "angle": -90.0}]
    backwards = draw({"kind": "ruler", "start": [50, 40], "end": [10, 40]})
    assert backwards.value is not None
    assert backwards.value["rulers"] == [{"length": 40.0, "angle": 180.0}]


def test_a_ruler_has_at_most_a_thousand_ticks() -> None:
    wide = ToolContext({"a": Image.new("RGB", (2100, 12), "white")})
    shape = {"kind": "ruler", "start": [0, 6], "end": [2090, 6], "width": 1, "tick": 2, "color": [0, 0, 0]}
    dark = np.asarray(Draw().call({"shapes": [shape]}, wide).pictures[0].image.convert("L")) == 0
    assert dark[3, 2000]
    assert not dark[3, 2002:2010].any()
