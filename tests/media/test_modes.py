"""Sizes by the budget: hand-worked cases, and what holds for every size."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from saccade.errors import MediaError, RegistryError
from saccade.media.modes import POLICIES, PixelBudget, fit, policy

QWEN25 = PixelBudget(28, 56 * 56, 28 * 28 * 16_384)
QWEN3 = PixelBudget(32, 256 * 256, 32 * 32 * 16_384)


@pytest.mark.parametrize(
    ("budget", "size", "expected"),
    [
        # 640/28 = 22.86 -> 23, 480/28 = 17.14 -> 17
        (QWEN25, (640, 480), (644, 476)),
        # divisible already
        (QWEN25, (280, 560), (280, 560)),
        # 42/28 = 1.5 -> 2 and 70/28 = 2.5 -> 2: halves go to the even number
        (QWEN25, (42, 70), (56, 56)),
        # 28x28 = 784 < 3136: grow by sqrt(3136/100) = 5.6, so 56/28 = 2 a side
        (QWEN25, (10, 10), (56, 56)),
        # 28x84 = 2352 < 3136: grow by sqrt(3136/(20*80)) = 1.4; 28/28 -> 1, 112/28 -> 4
        (QWEN25, (20, 80), (28, 112)),
        # 4000x3000 = 12,000,000 fits below 12,845,056: 142.86 -> 143, 107.14 -> 107
        (QWEN25, (4000, 3000), (4004, 2996)),
        # shrink by sqrt(48,000,000/12,845,056) = 1.93309: 4138.45/28 = 147.8 -> 147, 3103.8/28 = 110.8 -> 110
        (QWEN25, (8000, 6000), (4116, 3080)),
        # sqrt(12,845,056) is 3584 = 128 * 28, but 10,000/(10,000/3584) is a hair less in floating point: 127,
        # and the models' own preprocessors say 127 too
        (QWEN25, (10_000, 10_000), (3556, 3556)),
        (QWEN25, (7168, 7168), (3584, 3584)),
        # 640/32 = 20, 480/32 = 15
        (QWEN3, (640, 480), (640, 480)),
        # 96x96 = 9216 < 65,536: grow by 256/100 to 256
        (QWEN3, (100, 100), (256, 256)),
        # 47 rounds to 32, 2000 to 1984, and 63,488 pixels are under 65,536: grow by sqrt(65,536/94,000) = 0.835
        (QWEN3, (47, 2000), (64, 1696)),
        # the budget of a published training run: shrink by sqrt(12,000,000/2,000,000) = 2.4495;
        # 1632.99/28 = 58.3 -> 58, 1224.7/28 = 43.7 -> 43
        (PixelBudget(28, 3136, 2_000_000), (4000, 3000), (1624, 1204)),
        # just as many pixels as allowed after rounding: nothing shrinks or grows
        (QWEN25, (3590, 3580), (3584, 3584)),
        (QWEN25, (60, 50), (56, 56)),
        # 1 row of 3 tokens would be 84*28 = 2352 > 1568: the longer side is cut to two
        (PixelBudget(28, 784, 1568), (84, 10), (56, 28)),
    ],
)
def test_hand_worked_sizes(budget: PixelBudget, size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert budget.size(*size) == expected
    assert budget.size(*size[::-1]) == expected[::-1]


def test_tokens() -> None:
    assert QWEN25.tokens(640, 480) == 23 * 17
    assert QWEN3.tokens(640, 480) == 20 * 15


sides = st.integers(1, 40_000)
budgets = st.sampled_from([QWEN25, QWEN3]) | st.builds(
    lambda factor, least, more: PixelBudget(factor, least, max(least, factor**2) + more),
    st.integers(1, 64),
    st.integers(0, 10**6),
    st.integers(0, 10**7),
)


@given(budgets, sides, sides)
def test_within_the_budget_and_on_the_grid(budget: PixelBudget, width: int, height: int) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    new_width, new_height = budget.size(width, height)
    assert new_width % budget.factor == 0
    assert new_height % budget.factor == 0
    assert 0 < new_width * new_height <= budget.max_pixels
    if budget in (QWEN25, QWEN3):
        assert new_width * new_height >= budget.min_pixels


@given(st.sampled_from([QWEN25, QWEN3]), sides, sides)
def test_aspect_ratio_is_kept_but_for_rounding(budget: PixelBudget, width: int, height: int) -> None:
    assume(max(width, height) <= 50 * min(width, height))
    new_width, new_height = budget.size(width, height)
    # One scale for both sides, each off by less than one step of the grid.
    lowest = max((new_width - budget.factor) / width, (new_height - budget.factor) / height)
    highest = min((new_width + budget.factor) / width, (new_height + budget.factor) / height)
    assert lowest <= highest


@given(st.sampled_from([QWEN25, QWEN3]), sides, sides)
def test_what_fits_stays_as_it_is(budget: PixelBudget, width: int, height: int) -> None:
    assume(max(width, height) <= 50 * min(width, height))
    once = budget.size(width, height)
    assert budget.size(*once) == once


def test_policies_by_name() -> None:
    assert policy("qwen2.5-vl") == QWEN25
    assert policy("qwen3-vl") == QWEN3
    assert policy("none") is None
    assert sorted(POLICIES) == ["none", "qwen2.5-vl", "qwen3-vl"]
    with pytest.raises(RegistryError, match=r"Did you mean 'qwen3-vl'"):
        policy("qwen3vl")


def test_fit() -> None:
    image = Image.new("RGB", (640, 480), "red")
    assert fit(image, None) is image
    fitted = fit(image, QWEN25)
    assert fitted.size == (644, 476)
    assert fitted.getpixel((300, 300)) == (255, 0, 0)
    assert fit(fitted, QWEN25) is fitted
    assert fit(image.convert("P"), QWEN25).mode == "RGB"
    assert fit(image.convert("P"), None).mode == "RGB"


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ((0, 5), "a picture of 0x5 pixels holds nothing to fit"),
        ((5, 0), "a picture of 5x0 pixels holds nothing to fit"),
        ((1, 201), "1x201 pixels is over 200 times as long as wide"),
        ((201, 1), "201x1 pixels is over 200 times as long as wide"),
    ],
)
def test_shapes_that_no_budget_takes(size: tuple[int, int], why: str) -> None:
    with pytest.raises(MediaError, match=why):
        QWEN3.size(*size)


def test_the_longest_shape_and_the_least_budgets() -> None:
    assert QWEN3.size(1, 200)[0] == 32
    assert PixelBudget(1, 0, 1).size(5, 5) == (1, 1)
    assert PixelBudget(2, 4, 4).size(5, 5) == (2, 2)
    for factor, least, most in ((0, 0, 9), (1, -1, 9), (3, 0, 8), (1, 9, 8)):
        with pytest.raises(MediaError, match="is no budget: the factor must be at least 1, and max_pixels"):
            PixelBudget(factor, least, most)
