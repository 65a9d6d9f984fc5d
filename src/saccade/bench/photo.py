"""The photo that every contender works on: 4000x3000 pixels, the same bytes every time.

Photographic in what costs time: smooth areas, edges, text, and sensor noise that keeps a JPEG from being small.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

WIDTH, HEIGHT = 4000, 3000


def write_photo(path: Path, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Path:
    """Write the photo as JPEG and return `path`."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(20)
    scene = Image.fromarray(random.integers(20, 235, (24, 32, 3), dtype=np.uint8)).resize(
        size, Image.Resampling.BICUBIC
    )
    pen = ImageDraw.Draw(scene)
    font = ImageFont.load_default(max(8, size[1] // 60))
    for line in range(24):
        at = (int(random.integers(0, size[0])), size[1] * line // 24)
        colour = tuple(int(part) for part in random.integers(0, 256, 3))
        pen.text(at, f"saccade {line:02d} looks again", fill=colour, font=font)
        pen.rectangle((at[0] // 2, at[1], at[0] // 2 + size[0] // 40, at[1] + size[1] // 60), outline=colour, width=3)
    noise = random.integers(-8, 9, (size[1], size[0], 1), dtype=np.int8)
    pixels = np.clip(np.asarray(scene, dtype=np.int16) + noise, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, "JPEG", quality=90)
    return path
