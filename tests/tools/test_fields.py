"""Boxes and points in an image of 100 by 50 pixels: rounded outwards, clipped, or refused with a reason."""

from __future__ import annotations

import pytest

from saccade.tools.fields import Units, Xyxy, pixel_box, pixel_point, region
from saccade.tools.problem import CallProblem

SIZE = (100, 50)


@pytest.mark.parametrize(
    ("box", "units", "expected"),
    [
        ((1, 2, 3, 4), "pixels", (1, 2, 3, 4)),
        ((1.9, 2.9, 3.1, 4.1), "pixels", (1, 2, 4, 5)),
        ((-9, -9, 1e308, 1e308), "pixels", (0, 0, 100, 50)),
        ((99.5, 49.5, 200, 200), "pixels", (99, 49, 100, 50)),
        ((0, 0, 1, 1), "pixels", (0, 0, 1, 1)),
        ((0, 0, 1, 1), "normalized", (0, 0, 100, 50)),
        ((0.25, 0.5, 0.5, 1), "normalized", (25, 25, 50, 50)),
        ((0.101, 0.1, 0.109, 0.2), "normalized", (10, 5, 11, 10)),
    ],
)
def test_boxes(box: Xyxy, units: Units, expected: tuple[int, int, int, int]) -> None:
    assert pixel_box(box, units, SIZE) == expected
    assert region(box, units, SIZE) == expected
    assert region(None, units, SIZE) == (0, 0, 100, 50)


@pytest.mark.parametrize(
    ("box", "units", "said"),
    [
        ((3, 2, 3, 4), "pixels", r"The box \[3, 2, 3, 4\] is empty"),
        ((1, 4, 3, 4), "pixels", r"The box \[1, 4, 3, 4\] is empty"),
        ((3, 2, 1, 4), "pixels", "is empty"),
        ((100, 2, 120, 4), "pixels", "0 × 2 pixels are inside the image, which is 100 × 50; at least 1 × 1"),
        ((1, -9, 3, 0), "pixels", "2 × 0 pixels are inside"),
        ((0, 0, 1.001, 1), "normalized", r"\[0, 0, 1.001, 1\] is not normalized"),
        ((-0.001, 0, 1, 1), "normalized", "is not normalized"),
    ],
)
def test_boxes_that_are_refused(box: Xyxy, units: Units, said: str) -> None:
    with pytest.raises(CallProblem, match=said):
        pixel_box(box, units, SIZE)


def test_the_smallest_side_and_the_hint_of_fractions() -> None:
    assert pixel_box((0, 0, 4, 4), "pixels", SIZE, 4) == (0, 0, 4, 4)
    for box in ((0, 0, 3, 4), (0, 0, 4, 3)):
        with pytest.raises(CallProblem, match="at least 4 × 4 are needed") as caught:
            pixel_box(box, "pixels", SIZE, 4)
        assert "normalized" not in str(caught.value)
    for box, units, hint in (((0.1, 0, 1, 1), "pixels", True), ((0, 0, 0.01, 0.01), "normalized", False)):
        with pytest.raises(CallProblem) as caught:
            pixel_box(box, units, SIZE, 4)  # type: ignore[arg-type]
        assert ('If these are fractions, say units="normalized".' in str(caught.value)) is hint


def test_points() -> None:
    assert pixel_point((100, 50), "pixels", SIZE) == (100, 50)
    assert pixel_point((0, 0), "pixels", SIZE) == (0, 0)
    assert pixel_point((0.25, 0.5), "normalized", SIZE) == (25, 25)
    for point in ((100.5, 5), (5, 50.5), (-0.5, 5), (5, -0.5)):
        with pytest.raises(CallProblem, match="is outside the image, which is 100 × 50"):
            pixel_point(point, "pixels", SIZE)
