"""Videos of noise, and records of videos."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
from PIL import Image

from saccade.record.content import ImagePart, VideoPart, VideoSample

FORMS = ("qwen2_5_vl", "qwen3_vl")
"""Families, one of each form."""


class Videos:
    """Animations in memory, by sha256, and their frames."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.frames: dict[str, list[Image.Image]] = {}

    def get_bytes(self, sha256: str) -> bytes:
        return self.stored[sha256]

    @staticmethod
    def picture(width: int, height: int) -> ImagePart:
        """The record of a picture."""
        return ImagePart(sha256="0" * 64, width=width, height=height)

    def put(self, frames: int, width: int, height: int, *, milliseconds: int = 100, seed: int = 0) -> VideoPart:
        """A lossless animation of noise."""
        random = np.random.default_rng([seed, frames, width, height])
        pictures = [
            Image.fromarray(random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)).resize(
                (width, height), Image.Resampling.BICUBIC
            )
            for _ in range(frames)
        ]
        target = io.BytesIO()
        options: dict[str, Any] = {"save_all": True, "append_images": pictures[1:], "duration": milliseconds}
        pictures[0].save(target, "WEBP", lossless=True, **options)
        name = hashlib.sha256(target.getvalue()).hexdigest()
        self.stored[name], self.frames[name] = target.getvalue(), pictures
        return record(frames, width, height, 1000 / milliseconds, sha256=name)


def record(
    frames: int, width: int, height: int, fps: float, indices: tuple[int, ...] | None = None, **fields: Any
) -> VideoPart:
    """Of a video; with those frames of it, if any are given."""
    sample = None if indices is None else VideoSample(indices=indices, pixels=768 * 28**2)
    values = {"sha256": "0" * 64, "seconds": frames / fps, "mime": "image/webp"} | fields
    return VideoPart(width=width, height=height, frames=frames, fps=fps, sample=sample, **values)
