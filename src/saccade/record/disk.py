"""Files and folders that appear whole or not at all, and what a disk refuses: in words, with the file's name."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.errors import RecordError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def writing(path: Path, partial: Path | None = None) -> Iterator[None]:
    """An `OSError` in here names `path` if it names no file (those of a write do not) or the `partial` one of it."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, str(partial)):
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Another name beside `path`, to write under: it becomes `path` if the block ends well, and is removed if not.

    The file appears complete or not at all; whoever needs it to outlive a power cut syncs it in the block. An `OSError`
    in the block names `path`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path, partial):
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a file of text, its folder made if missing; it appears complete or not at all. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder`, to write into: it becomes `folder` if the block ends well, and is removed if not.

    Raises:
        RecordError: `folder` exists and is not an empty folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordError(f"{folder} exists already. Name a new folder, or delete that one.")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(partial, ignore_errors=True)  # in a container a killed run often had the same number
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def begin_folder(folder: Path) -> Path:
    """An empty folder beside `folder`, to be written and then given to `finish_folder`.

    Its name is always the same, so that several processes can write into it, and so that the next run removes what a
    kill left of it.
    """
    partial = partial_folder(folder)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def partial_folder(folder: Path) -> Path:
    """The path of what `begin_folder` makes, for other processes."""
    return folder.with_name(f".{folder.name}.part")


def finish_folder(folder: Path) -> None:
    """What was written under the name of `begin_folder` becomes `folder`, in the place of one that was there."""
    if folder.exists():
        shutil.rmtree(folder)
    partial_folder(folder).rename(folder)


def disk_words(error: OSError) -> str:
    """What happened, why, and what to do, in at most three lines."""
    what = error.filename if error.filename is not None else "a file"
    if error.errno in _FULL:
        why, advice = "the disk is full", "Free some space, or name another folder."
    elif error.errno in _CLOSED:
        why, advice = f"it is read-only or not yours ({error.strerror})", "Name a folder that may be written."
    else:
        why, advice = error.strerror or str(error), "See whether the path is right and its disk is still there."
    return f"{what} cannot be used: {why}. {advice}\nWhat was whole before stays, and the same command continues it."
