"""How a checkpoint is loaded into this process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Placement of a checkpoint, and what it may be shown."""

    device: str = "auto"
    """As torch names it; `auto`: `cuda` where there is one, else `cpu`."""
    dtype: str = "auto"
    """`float32`, `bfloat16` or `float16`; `auto`: `bfloat16` on a GPU, `float32` on the CPU."""
    revision: str | None = None
    """Branch, tag or commit on the hub; None for its default."""
    max_pixels: int | None = None
    """Larger pictures are scaled down to this many pixels first; None leaves it to the checkpoint."""
