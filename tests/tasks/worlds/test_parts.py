"""Parts of views: the program shows what is reckoned here, and whatever is small enough is whole in one of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.tasks.worlds.parts import PARTS, View, best_part, holds_middle, parts


@given(st.integers(60, 2000), st.integers(60, 2000), st.data())
def test_what_is_no_larger_than_a_quarter_is_whole_in_a_part(width: int, height: int, data: st.DataObject) -> None:
    view: View = (7, 11, 7 + width, 11 + height)
    w = data.draw(st.integers(1, width // 4 - 2))
    h = data.draw(st.integers(1, height // 4 - 2))
    x, y = data.draw(st.integers(7, 7 + width - w)), data.draw(st.integers(11, 11 + height - h))
    whole = [p for p in parts(view) if p[0] <= x and p[1] <= y and x + w <= p[2] and y + h <= p[3]]
    assert whole
    chosen = best_part(parts(view), (x, y, x + w, y + h))
    assert holds_middle(chosen, (x, y, x + w, y + h))
    assert parts(view).index(chosen) <= parts(view).index(whole[0])


def test_without_a_part_that_holds_it_the_nearest_is_taken() -> None:
    views = parts((0, 0, 100, 100))
    assert not any(holds_middle(view, (-20, -20, 120, 120)) for view in views)
    assert best_part(views, (-20, -20, 120, 120)) == views[4]
    assert best_part(views, (20, 20, 110, 110)) == views[8]


def test_the_program_shows_the_same_parts() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (77, 131, 3), dtype=np.uint8)
    names: dict[str, object] = {}
    exec(PARTS, names)
    shown = list(names["parts"](Image.fromarray(noise)))  # type: ignore[operator]
    assert len(shown) == 9
    for picture, (x0, y0, x1, y1) in zip(shown, parts((0, 0, 131, 77)), strict=True):
        assert (np.asarray(picture) == noise[y0:y1, x0:x1]).all()
