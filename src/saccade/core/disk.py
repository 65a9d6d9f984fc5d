"""Files and folders that appear whole or not at all, and what a disk refuses: in words, with the file's name."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from saccade.core.registry import Reference, digest, loaded, reference
from saccade.errors import RecordError, SettingsError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def writing(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Make an `OSError` of the block name `path` where it names no file (a write's does not), or the `partial` one."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, str(partial)):
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Another name next to `path`, to write under: it becomes `path` if the block ends well, and is removed if not.

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


def sync(path: Path) -> None:
    """Have a file or a folder outlive a power cut as it is now. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, text: str) -> None:
    """Write a file of text, its folder made if missing; it appears complete or not at all. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder next to `folder`, to write into: it becomes `folder` if the block ends well, else it is removed.

    Raises `RecordError`: `folder` exists and is not an empty folder; `SettingsError`: another process is making it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordError(f"{folder} exists already. Name a new folder, or delete that one.")
    partial = partial_folder(folder)
    with one_writer(partial):
        for left in partial.iterdir():  # of a run that was killed
            if left.name != LOCK:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield partial
            partial.replace(folder)
            (folder / LOCK).unlink(missing_ok=True)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Raise `RecordError` if `folder` is a file."""
    if folder.exists() and not folder.is_dir():
        raise RecordError(f"{folder} is a file, and a run needs a folder. Name a folder, existing or new.")


LOCK = ".lock"
"""File in a folder that one process writes; its text says which process that is, and on which host."""
_held: dict[Path, os.stat_result] = {}
_log = logging.getLogger(__name__)


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Hold `folder`, made if missing, for this process; the hold ends with the process, however that ends.

    Raises:
        RecordError: it is a file.
        SettingsError: another process holds it, under whatever path; says which.
        OSError: it cannot be made or written.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = folder.resolve()
    with _locked(folder, alone=True) as file:
        try:
            with writing(folder / LOCK):
                file.truncate(0)
                os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
            _held[name] = os.fstat(file.fileno())
            yield
        finally:
            if os.fstat(file.fileno()).st_nlink:
                (folder / LOCK).unlink(missing_ok=True)
            _held.pop(name, None)
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


def check_free(folder: Path) -> None:
    """Raise `SettingsError` where another process writes to `folder`, as `one_writer` does; holds nothing."""
    if (folder / LOCK).exists():
        with _locked(folder, alone=False):
            pass


def check_there(folder: Path) -> None:
    """Raise `RecordError` where a folder that this process holds was deleted or put elsewhere in the meantime."""
    held = _held.get(folder.resolve())
    try:
        gone = held is not None and not os.path.samestat(held, os.stat(folder / LOCK))
    except FileNotFoundError:
        gone = True
    if gone:
        raise RecordError(
            f"{folder} was deleted or moved while this run wrote to it, and what it held is not there any more. "
            "Put it back and give the same command again, or begin anew."
        )


@contextmanager
def _locked(folder: Path, *, alone: bool) -> Iterator[TextIO]:
    while True:
        with (folder / LOCK).open("a+", encoding="utf-8") as file:
            try:
                if sys.platform != "win32":
                    import fcntl

                    fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise SettingsError(
                    f"{file.read().strip() or 'another process'} writes to {folder}. Wait for it, end it, or name "
                    "another folder."
                ) from None
            except OSError as error:
                _log.warning(
                    "%s cannot be locked (%s): see that no second process writes there.", folder, error.strerror
                )
            if os.fstat(file.fileno()).st_nlink:  # else the one who held it has just removed it
                yield file
                return


def begin_folder(folder: Path) -> Path:
    """Return an empty folder next to `folder`, to be written and then given to `finish_folder`.

    Its name is always the same, so that several processes can write into it, and so that the next run removes what a
    kill left of it.
    """
    partial = partial_folder(folder)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def partial_folder(folder: Path) -> Path:
    """Return the path of what `begin_folder` makes, for other processes."""
    return folder.with_name(f".{folder.name}.part")


def finish_folder(folder: Path) -> None:
    """Move what was written under the name of `begin_folder` to `folder`, in place of one that was there."""
    if folder.exists():
        shutil.rmtree(folder)
    partial_folder(folder).rename(folder)


def disk_words(error: OSError) -> str:
    """Say in at most three lines what happened, why, and what to do."""
    what = error.filename if error.filename is not None else "a file"
    if error.errno in _FULL:
        why, advice = "the disk is full", "Free some space, or name another folder."
    elif error.errno in _CLOSED:
        why, advice = f"it is read-only or not yours ({error.strerror})", "Name a folder that may be written."
    else:
        why, advice = error.strerror or str(error), "See whether the path is right and its disk is still there."
    return f"{what} cannot be used: {why}. {advice}\nWhat was whole before stays, and the same command continues it."


# Files that settings name, with their sha256: a run is continued with the same ones or not.
#
# They are files of a user's own code, wherever a setting names one, and prompt files: the settings called
# `prompt_file`, and those in a table `prompt_files`. Notes are comments of TOML, so that they are no settings. Modules
# are not noted: an installed package has a version of its own.


_NOTE = "# sha256 "
_PROMPTS = "prompt_file"


def file_notes(value: object, before: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a TOML comment for each file of own code and of prompts that `value` names, with its sha256.

    For code that was not loaded in this process, what was noted `before` (path -> sha256) stays.
    """
    notes: dict[str, str] = {}
    for name, text in _texts("", value):
        code = reference(text)
        if code is not None:
            seen = None if loaded(code) else before.get(code.place)
            now = seen or digest(code)
        else:
            now = _digest(text) if name == _PROMPTS and text else None
        if now:
            notes[text if code is None else code.place] = now
    return "".join(f"{_NOTE}{notes[place]}  {place}\n" for place in sorted(notes))


def noted_files(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the files that saved settings noted, with their sha256; empty if there are no such settings."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    notes = (line.removeprefix(_NOTE).partition("  ") for line in lines if line.startswith(_NOTE))
    return {place: sha256 for sha256, _, place in notes}


def check_files(path: str | os.PathLike[str]) -> None:
    """Check that the files that saved settings noted are still as they were. Raises `SettingsError` if one has changed,
    or is gone.
    """
    for place, before in noted_files(path).items():
        code = Reference(place, "")
        now = digest(code) if code.is_file else _digest(place)
        if now != before:
            what = "is not there (relative paths count from the current folder)" if now is None else "has changed"
            raise SettingsError(
                f"{place} {what}, and the run of {path} was begun with it (sha256 {before[:12]}…). "
                "Continue the run with the file as it was, or begin another in a new folder."
            )


def _digest(place: str) -> str | None:
    try:
        return sha256(Path(place).read_bytes()).hexdigest()
    except OSError:
        return None


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(_PROMPTS if name == f"{_PROMPTS}s" else str(key), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(name, inner)
