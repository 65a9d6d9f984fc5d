from __future__ import annotations

import pytest

from saccade.record.content import Box, area, iou, overlap


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((10, 20, 30, 60), (20, 30, 40, 70), 3 / 13),  # 10x30 of 800 + 800 - 300
        ((5, 7, 9, 10), (5, 7, 9, 10), 1.0),
        ((0, 0, 10, 10), (2, 3, 7, 5), 0.1),  # one inside the other: 5x2 of 100
        ((0, 0, 10, 10), (10, 0, 20, 10), 0.0),  # they touch
        ((0, 0, 10, 10), (0, 10, 10, 20), 0.0),
        ((0, 0, 4, 4), (6, 0, 8, 4), 0.0),  # side by side, at the same height
        ((0, 0, 4, 4), (6, 6, 8, 8), 0.0),  # apart both ways: no overlap of two negative sides
    ],
)
def test_intersection_over_union_by_hand(one: Box, other: Box, expected: float) -> None:
    assert iou(one, other) == pytest.approx(expected)
    assert iou(other, one) == pytest.approx(expected)


def test_empty_and_reversed_boxes_share_nothing() -> None:
    assert iou((0, 0, 2, 2), (1, 1, 3, 3)) == pytest.approx(1 / 7)
    assert iou((0, 0, 2, 2), (0, 0, 2, 2)) == 1
    assert iou((0, 0, 0, 0), (0, 0, 0, 0)) == 0
    assert iou((2, 2, 0, 0), (0, 0, 2, 2)) == 0


def test_boxes_that_differ_in_every_side_by_hand() -> None:
    one, other = (0.0, 10.0, 20.0, 30.0), (5.0, 0.0, 40.0, 25.0)
    # Both hold x from 5 to 20 and y from 10 to 25.
    assert (area(one), area(other), overlap(one, other)) == (400.0, 875.0, 225.0)
    assert iou(one, other) == iou(other, one) == 225 / 1050
    assert (area((5, 5, 5, 9)), area((9, 5, 5, 9)), overlap(one, (20.0, 10.0, 30.0, 30.0))) == (0.0, 0.0, 0.0)
