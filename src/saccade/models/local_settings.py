"""How a checkpoint is loaded into this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.errors import ModelRefusedError


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
    max_sequences: int = 8
    """Answers that are written at once; as many earlier ones are kept in memory to be continued."""


def check_folder(source: str) -> None:
    """Raises `ModelRefusedError` if `source` can only be a folder (a name on the hub has one slash), and is none."""
    path = Path(source)
    looks_local = path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1
    if looks_local and not path.is_dir():
        raise ModelRefusedError(f"there is no folder {source}. Give the folder of a checkpoint or its name on the hub.")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelRefusedError(
            f"the folder {source} holds no checkpoint: there is no config.json in it. "
            "Give the folder of a checkpoint or its name on the hub."
        )
