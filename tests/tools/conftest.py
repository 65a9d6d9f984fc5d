"""A small picture whose pixels say where they are, and a context that holds it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from saccade.tools.context import ToolContext


@pytest.fixture
def picture() -> Image.Image:
    """100 × 60; red is x, green is y, blue is 7."""
    pixels = np.full((60, 100, 3), 7, np.uint8)
    pixels[..., 0] = np.arange(100)[None, :]
    pixels[..., 1] = np.arange(60)[:, None]
    return Image.fromarray(pixels)


@pytest.fixture
def context(picture: Image.Image) -> ToolContext:
    return ToolContext({"scene": picture})
