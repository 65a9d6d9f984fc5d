"""A folder that appears complete or not at all, and media that are linked into it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.sft.curate.stage import Media


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which gets the name `target` if the block ends well and is removed if it does not.

    Raises:
        RecordError: `target` exists and is not an empty folder.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RecordError(f"{target} exists already. Name a new folder, or delete that one.")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    partial.mkdir()
    try:
        yield partial
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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
