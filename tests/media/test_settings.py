"""How large media may be where nobody says otherwise, and what a picture is stored as."""

import pytest
from pydantic import ValidationError

from saccade.media import budget
from saccade.media.decode import DecodeLimits
from saccade.media.encode import EncodeOptions
from saccade.media.settings import MediaSettings, OwnMediaSettings
from saccade.media.video import VideoLimits


def test_limits() -> None:
    assert DecodeLimits() == DecodeLimits(2 * 1024**3, 500_000_000, 500_000, 400_000_000)
    assert VideoLimits() == VideoLimits(4 * 1024**3, 36_000_000, 1_000_000, 21_600.0, 400_000_000)
    own = OwnMediaSettings()
    assert (own.url_bytes, own.url_seconds, own.shown_pixels) == (256 * 1024**2, 60.0, 36_000_000)
    assert (EncodeOptions().quality, EncodeOptions().compression) == (90, 6)


def test_no_picture_is_shown_smaller_than_a_patch() -> None:
    assert MediaSettings(shown_pixels=784).shown_pixels == 784
    with pytest.raises(ValidationError, match="shown_pixels"):
        MediaSettings(shown_pixels=783)


def test_published_budgets() -> None:
    """Factor, least and most pixels as the families' own processors have them."""
    assert budget.policy("qwen2.5-vl") == budget.PixelBudget(28, 3136, 12_845_056)
    assert budget.policy("qwen3-vl") == budget.PixelBudget(32, 65_536, 16_777_216)
    assert budget.MAX_ASPECT_RATIO == 200
