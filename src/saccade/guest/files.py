"""New and changed files of the workspace: all are listed, and images among them become pictures.

Whether a file is an image is decided by its contents, not by its name. A broken image, or one with far more pixels than
may be shown, is just a file.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from PIL import Image

from .shown import ShownPictures
from .workspace import Entry, Workspace

MOST_LISTED = 1000
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
_BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")
_BOMB_FACTOR = 16
"""An image file with so many times the pixels of the largest picture is not decoded."""


def report_files(workspace: Workspace, shown: ShownPictures) -> list[dict[str, Any]]:
    """path and size (bytes) of every file that is new or changed; images are added to `shown`, oldest first."""
    changes = workspace.changes()
    files: list[tuple[str, Entry]] = []
    for path in (*changes.created, *changes.changed):
        try:
            entry = workspace.entry(path)
        except OSError:
            continue
        if entry.kind == "file":
            files.append((path, entry))
    for path, _entry in sorted(files, key=lambda item: (item[1].mtime, item[0])):
        _add_image(workspace, path, shown)
    if len(files) > MOST_LISTED:
        shown.note(f"{len(files)} files were written; the first {MOST_LISTED} are listed")
    return [{"path": printable(path), "size": entry.size} for path, entry in sorted(files)[:MOST_LISTED]]


def printable(path: str) -> str:
    """The path without the bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _add_image(workspace: Workspace, path: str, shown: ShownPictures) -> None:
    """Show the file if it is an image; once the call has its number of pictures, it is only counted."""
    try:
        fd = workspace.open(path)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        if not file.read(16).startswith(_BEGINNINGS):
            return
        if shown.full:
            shown.drop()
            return
        file.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = Image.open(file, formats=_FORMATS)
                if image.width * image.height > _BOMB_FACTOR * shown.config.picture_pixels:
                    shown.note(f"{printable(path)} has {image.width}x{image.height} pixels, too many to be shown")
                    return
                image.load()
        except Exception:
            return  # broken, or a bomb: just a file
        shown.add(image, "file", printable(path))
