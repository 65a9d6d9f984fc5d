"""Charts: axes that hold their values, marks where they belong, texts that stay texts."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.report.plots import (
    CURVES_WIDTH,
    HEIGHT,
    Axes,
    Dot,
    Figure,
    Series,
    StackedBar,
    bars,
    curves,
    dots,
    scale,
    shares,
    short,
    smoothed,
    stacks,
    tight,
)

HOSTILE = "</svg><script>alert(1)</script>&\u202e"
AXES = Axes("step", "right", percent=True)
numbers = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-9)


def elements(figure: Figure | None, tag: str) -> list[ElementTree.Element]:
    assert figure is not None
    root = ElementTree.fromstring(str(figure.svg))
    assert (root[0].tag, root[1].tag) == ("title", "desc")
    return list(root.iter(tag))


@given(st.lists(numbers, min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values(values: list[float], zero: bool) -> None:
    axis = scale(values, (10.0, 200.0), zero=zero)
    assert 2 <= len(axis.ticks) <= 9
    for value in [*values, *([0.0] if zero else [])]:
        assert 10 <= axis(value) <= 200
    across = tight(values, (10.0, 200.0))
    assert all(10 <= across(value) <= 200 for value in values)
    assert all(across.low <= tick <= across.high for tick in across.ticks)


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.0, 0.1, "0"),
        (0.30000000000000004, 0.1, "0.3"),
        (0.25, 0.05, "0.25"),
        (0.75, 0.25, "0.75"),
        (7.5, 2.5, "7.5"),
        (1200, 200, "1,200"),
        (35000, 5000, "35k"),
        (1.25e6, 0, "1.25M"),
        (-0.5, 0.5, "−0.5"),
        (1e-5, 2e-6, "1e−05"),
        (0.123456, 0, "0.123"),
    ],
)
def test_numbers_are_short(value: float, step: float, text: str) -> None:
    assert short(value, step) == text


def test_curves_stand_where_their_values_are_and_skip_what_is_no_number() -> None:
    points = ((1.0, 0.0), (2.0, math.nan), (3.0, 1.0), (4.0, math.inf))
    figure = curves("Accuracy", "right by step", [Series("a", points, 0, marks=True)], AXES)
    marks = [(float(mark.get("cx", "")), float(mark.get("cy", ""))) for mark in elements(figure, "circle")]
    (left, low), (right, high) = marks
    assert 0 < left < right < CURVES_WIDTH
    assert 0 < high < low < HEIGHT
    assert [mark[0].text for mark in elements(figure, "circle")] == ["a: 0% at 1", "a: 100% at 3"]
    assert curves("nothing", "", [Series("a", ((1.0, math.nan),), 0)], AXES) is None


def test_many_points_are_also_drawn_smoothed() -> None:
    points = tuple((float(step), float(step % 2)) for step in range(200))
    figure = curves("Noise", "", [Series("a", points, 0), Series("b", points[:10], 1)], AXES)
    assert [path.get("class") for path in elements(figure, "path")] == ["raw", "curve", "curve"]
    middle = [value for _, value in smoothed(points)][10:-10]
    assert max(middle) - min(middle) < 0.15
    assert figure is not None
    assert [(key.name, key.colour) for key in figure.legend] == [("a", "hue1"), ("b", "hue3")]


def test_columns_add_up_and_many_steps_share_one() -> None:
    parts = {"decoding": [(step, 3.0) for step in range(1000)], "update": [(step, 1.0) for step in range(1000)]}
    figure = stacks("Time", "", {**parts, "never": [(1.0, 0.0)]}, ("step", "seconds"))
    columns = elements(figure, "rect")
    assert len(columns) == 2 * 100
    heights = [float(column.get("height", "")) for column in columns]
    assert heights[::2] == pytest.approx([3 * value for value in heights[1::2]], abs=0.5)
    assert figure is not None
    assert [key.name for key in figure.legend] == ["decoding", "update"]
    assert stacks("Time", "", {"never": [(1.0, 0.0)]}, ("step", "seconds")) is None


def test_shares_are_parts_of_the_whole() -> None:
    figure = shares(
        "Outcomes", "", [StackedBar("run", {"right": 3, "wrong": 1})], {"right": "a", "wrong": "b", "lost": "c"}
    )
    widths = [float(part.get("width", "")) for part in elements(figure, "rect")]
    assert widths[0] + 1 == pytest.approx(3 * (widths[1] + 1), abs=0.5)
    assert [key.name for key in figure.legend] == ["right", "wrong"] if figure else False


def test_texts_of_strangers_stay_texts() -> None:
    series = [Series(HOSTILE, ((1.0, 1.0),), 0, marks=True), Series("b", ((1.0, 1.0),), 1)]
    made = [
        curves(HOSTILE, HOSTILE, series, AXES),
        stacks(HOSTILE, HOSTILE, {HOSTILE: [(1.0, 1.0)]}, ("step", "seconds")),
        bars(HOSTILE, HOSTILE, {HOSTILE: {HOSTILE: 0.5}}, "share", True),
        shares(HOSTILE, HOSTILE, [StackedBar(HOSTILE, {HOSTILE: 1})], {HOSTILE: "tone-right"}),
        dots(HOSTILE, HOSTILE, [Dot(HOSTILE, 0.5, why=HOSTILE)], "right"),
    ]
    for figure in made:
        assert figure is not None
        assert not elements(figure, "script")
        assert "\u202e" not in figure.svg
        assert not re.search(r"\sstyle=", str(figure.svg)), "the page's policy forbids styles of elements"


def test_kinds_that_are_numbers_stand_in_their_order() -> None:
    runs = {"a": {"1": 0.5, "2": 1.0, "10+": 1.0}, "b": {"0": 0.25}}
    figure = bars("Calls", "Says.", runs, "right", True)
    assert figure is not None
    assert re.findall(r'class="name"[^>]*>([^<]+)<', str(figure.svg)) == ["0", "1", "2", "10+"]
    words = bars("Calls", "Says.", {"a": {"2": 0.5, "crop": 1.0, "1": 1.0}}, "right", True)
    assert words is not None
    assert re.findall(r'class="name"[^>]*>([^<]+)<', str(words.svg)) == ["2", "crop", "1"]
