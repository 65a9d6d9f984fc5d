"""Media that are linked into the folder of a curated set."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from saccade.media.store import MediaStore
from saccade.sft.curate.stage import Media


def link_into(store: MediaStore, media: Media, sha256: str) -> None:
    """Put one object into `store`: a hard link where the file system has them, else a copy."""
    target = store.path(sha256)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    link_or_copy(media.path(sha256), target)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, or a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
