from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.plugins.worlds.experts.scene import LEAST, around, elsewhere, groups, zoom
from saccade.tasks.worlds.rng import Rng

SIZES = st.tuples(st.integers(LEAST, 3000), st.integers(LEAST, 3000))


@given(SIZES, st.data(), st.integers(0, 2**32), st.integers(1, 6))
def test_a_window_holds_its_target_and_stays_inside(
    size: tuple[int, int], data: st.DataObject, seed: int, widen: int
) -> None:
    x0, y0 = data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1))
    box = (x0, y0, data.draw(st.integers(x0 + 1, size[0])), data.draw(st.integers(y0 + 1, size[1])))
    window = around(Rng(seed), box, size, widen=widen)
    assert 0 <= window[0] <= box[0] < box[2] <= window[2] <= size[0]
    assert 0 <= window[1] <= box[1] < box[3] <= window[3] <= size[1]
    assert min(window[2] - window[0], window[3] - window[1]) >= LEAST
    other = elsewhere(Rng(seed), window, size)
    if other is not None:
        apart = other[2] <= window[0] or other[0] >= window[2] or other[3] <= window[1] or other[1] >= window[3]
        assert apart
        assert other[2] <= size[0]
        assert other[3] <= size[1]


def test_boxes_that_lie_together_are_one_window() -> None:
    near, far = (0, 0, 10, 10), (12, 0, 22, 10)
    assert groups([near, far], 1) == [(0, 0, 22, 10)]
    apart = [(0, 0, 10, 10), (900, 900, 910, 910)]
    assert groups(apart, 2) == apart
    assert groups(apart, 1) == []


@pytest.mark.parametrize(("side", "factor"), [(10, 16), (112, 4), (448, 1), (2000, 1)])
def test_small_windows_are_enlarged(side: int, factor: int) -> None:
    assert zoom((0, 0, side, 5), 448) == factor
