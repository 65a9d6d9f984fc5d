"""Parts of views: the program shows what is reckoned here, and whatever is small enough is whole in one of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from saccade.plugins.worlds.canvas import GRIDS, SEARCH, ViewBox, holds_middle, parts


@given(st.integers(90, 2000), st.integers(90, 2000), st.data())
def test_what_is_no_larger_than_three_twentieths_is_whole_in_a_part(
    width: int, height: int, data: st.DataObject
) -> None:
    view: ViewBox = (7, 11, 7 + width, 11 + height)
    n = data.draw(st.sampled_from(GRIDS))
    w = data.draw(st.integers(1, 3 * width // 20 - 3))
    h = data.draw(st.integers(1, 3 * height // 20 - 3))
    x, y = data.draw(st.integers(7, 7 + width - w)), data.draw(st.integers(11, 11 + height - h))
    holding = [p for p in parts(view, n) if p[0] <= x and p[1] <= y and x + w <= p[2] and y + h <= p[3]]
    assert holding
    assert all(holds_middle(part, (x, y, x + w, y + h)) for part in holding)


@pytest.mark.parametrize("n", GRIDS)
def test_the_program_shows_the_same_parts(n: int) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (77, 131, 3), dtype=np.uint8)
    names: dict[str, object] = {}
    exec(SEARCH, names)
    shown = list(names["parts"](Image.fromarray(noise), n))  # type: ignore[operator]
    assert len(shown) == n * n
    for picture, (x0, y0, x1, y1) in zip(shown, parts((0, 0, 131, 77), n), strict=True):
        assert (np.asarray(picture) == noise[y0:y1, x0:x1]).all()


def _colours(picture: Image.Image) -> str:
    """Of the sign in a picture without anything else."""
    names = {(255, 0, 0): "red", (0, 0, 255): "blue"}
    found = {names[colour] for _, colour in picture.getcolors(100) or [] if colour in names}  # type: ignore[index]
    return ", ".join(sorted(found)) or "none"


@pytest.mark.parametrize("place", [(3, 3), (200, 100), (380, 180), (210, 8)])
def test_the_program_goes_closer_where_the_asked_sign_is(
    place: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Image.new("RGB", (400, 200))
    scene.paste((0, 0, 255), (100, 60, 108, 68))
    scene.paste((255, 0, 0), (*place, place[0] + 2, place[1] + 2))
    names: dict[str, object] = {}
    exec(SEARCH, names)
    search = names["search"](scene, "red")  # type: ignore[operator]
    view, looks = next(search), 1
    while not capsys.readouterr().out:
        seen = _colours(view)
        view, looks = search.send(seen), looks + 1
    assert "red" in _colours(view)
    assert view.size == (50, 25)
    assert looks <= sum(n * n for n in GRIDS) + 1


def test_the_program_looks_on_after_a_mistake_and_says_when_nothing_is_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Image.new("RGB", (400, 400))
    names: dict[str, object] = {}
    exec(SEARCH, names)
    search = names["search"](scene, "red")  # type: ignore[operator]
    next(search)
    said = ["red, blue", *["none"] * 16, *["blue"] * 34, "red", *["none"] * 16]
    sizes = [search.send(seen).size for seen in said]
    assert sizes == [*[(50, 50)] * 16, *[(116, 116)] * 35, *[(50, 50)] * 16, (400, 400)]
    assert capsys.readouterr().out == "not found\n"


def test_only_what_is_small_or_large_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    exec(SEARCH, names)
    shown: list[tuple[int, int]] = []
    monkeypatch.setattr(Image.Image, "show", lambda picture: shown.append(picture.size))
    for size in ((50, 50), (100, 80), (160, 160), (600, 400)):
        names["show"](Image.new("RGB", size))  # type: ignore[operator]
    assert shown == [(112, 112), (100, 80), (160, 160), (137, 91)]
