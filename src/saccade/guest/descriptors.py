"""What a program holds open when its call ends: kept exactly, or closed with a word about it.

A fork shares open files with its parent, so what a call does to them survives its rollback unless it is put back:
positions and flags are. Kept are files and folders of the workspace that have a name, files of the read-only root, and
devices that hold nothing. What else a descriptor can stand for (pipes, sockets, counters, timers, files without a name)
holds state that nothing can put back, and is closed when the call ends. Its number stays taken, by a descriptor that
can neither be read nor written, so that a later file does not come to stand in its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import stat
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from . import wire
from .folders import inside, open_anyhow
from .inspection import HARMLESS_DEVICES

_FLAGS = os.O_APPEND | os.O_NONBLOCK | getattr(os, "O_DIRECT", 0) | getattr(os, "O_NOATIME", 0)
"""The flags of an open file that can be changed."""
_PATH = getattr(os, "O_PATH", 0)
_OPENING = os.O_ACCMODE | os.O_DIRECTORY | _FLAGS | _PATH
_PUNCH_HOLE_KEEP_SIZE = 3
_GONE = " (deleted)"
_BOUND = ("/memfd:saccade-image", "/memfd:saccade-array")
"""Beginnings of the names of pictures and arrays of the host."""
_STANDARD = (0, 1, 2)
_OWN = frozenset((*_STANDARD, *range(wire.WORKSPACE_FD, wire.FIRST_FREE_FD)))
"""Descriptors of the session itself."""
_LENT = (*_STANDARD, wire.WORKSPACE_FD)
"""Those of them that a program may use, or put a file of its own in the place of."""
_FREE = 16
"""Descriptors that stay free: for looking at what a call has left, and for the next one."""
_libc = ctypes.CDLL(None, use_errno=True)


class Kept(NamedTuple):
    """One open file at the end of a kept call."""

    flags: int
    position: int
    file: tuple[int, int]
    """Device and inode number."""
    path: str | None
    """Path in the workspace; None if it lies elsewhere."""
    twin: int | None = None
    """A descriptor before it of the same opening, with which it shares position and flags."""


@dataclass(frozen=True, slots=True)
class OpenState:
    """What a process holds beside its memory at the end of a kept call."""

    files: dict[int, Kept]
    folder: str | None
    """The current folder, relative to the workspace; None if it lies elsewhere."""


def program_fds(known: Collection[int] = ()) -> list[int]:
    """Every open descriptor that is the program's; quick if these are the `known` ones."""
    count = _count()
    numbers = {fd for fd in (*_OWN, *known) if _is_open(fd)}
    if len(numbers) != count:
        numbers = _all_open()
    return sorted(numbers - _OWN)


def make_room() -> str | None:
    """Close all that the program has open where that leaves too few for anything else; why its call cannot be kept."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if (_count() or len(_all_open())) + _FREE <= most:
        return None
    fds = program_fds()
    for fd in fds:
        os.close(fd)
    return (
        f"the code left {len(fds)} files open, and only {most - len(_OWN) - _FREE} can stay open when it has ended. "
        "Close those that are not needed any more."
    )


def _all_open() -> set[int]:
    # By way of ctypes: `fcntl` would raise an exception for each of the hundreds that are not open.
    ask = _libc.fcntl
    return {fd for fd in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) if ask(fd, fcntl.F_GETFD) >= 0}


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _count() -> int:
    """How many descriptors are open; 0 before Linux 6.2."""
    return os.stat("/proc/self/fd").st_size


def close_what_cannot_be_kept(fds: list[int]) -> list[str]:
    """Close what of the open `fds` cannot be kept; a sentence about each thing for the program's author.

    What is closed keeps its number.
    """
    notes = []
    if not os.stat(".").st_nlink:
        os.fchdir(wire.WORKSPACE_FD)
        notes.append("the current folder was removed, so the next code starts in the top folder of the workspace.")
    for fd in fds:
        try:
            what = _why_not(fd)
        except OSError:
            continue
        if what is None:
            continue
        # What `mmap` keeps open of a mapped picture is no doing of the program; the mapping needs no descriptor.
        mapped = _is_bound(fd)
        _bury(fd)
        if not mapped:
            notes.append(
                f"{what} was closed when the code ended (descriptor {fd}): what it holds could not be put back after "
                "a call that fails. Open it in the call that uses it."
            )
    return notes


def _is_bound(fd: int) -> bool:
    """Whether `fd` holds pixels that the host has bound; they are sealed."""
    return os.readlink(f"/proc/self/fd/{fd}").startswith(_BOUND)


def _why_not(fd: int) -> str | None:
    """What `fd` is, if it cannot be kept."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & _PATH:
        return None
    seen = os.fstat(fd)
    kind = stat.S_IFMT(seen.st_mode)
    if kind == stat.S_IFCHR:
        harmless = (os.major(seen.st_rdev), os.minor(seen.st_rdev)) in HARMLESS_DEVICES
        return None if harmless else "a device"
    path = os.readlink(f"/proc/self/fd/{fd}")
    if kind == stat.S_IFSOCK:
        return "a socket"
    if kind == stat.S_IFIFO:
        return "a pipe"
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        return f"an object of the kernel ({path.removeprefix('anon_inode:').strip('[]')})"
    if path.endswith(_GONE) or not seen.st_nlink or path.startswith("/memfd:"):
        return "a file without a name"
    if path.startswith("/proc/"):
        return "a file of /proc"
    if _in_workspace(path) is None and flags & os.O_ACCMODE != os.O_RDONLY:
        return "a file outside the workspace"
    return None


def _bury(fd: int) -> None:
    dead = os.open(os.devnull, _PATH | os.O_CLOEXEC)
    os.dup2(dead, fd, inheritable=False)
    os.close(dead)


def _in_workspace(path: str) -> str | None:
    return _beneath(os.readlink(f"/proc/self/fd/{wire.WORKSPACE_FD}"), path)


def _beneath(real: str, path: str) -> str | None:
    if path == real:
        return "."
    return path[len(real) + 1 :] if path.startswith(real + "/") else None


def standing(fds: list[int], before: OpenState | None = None) -> OpenState:
    """How the open `fds` of the program stand now, and what it may use besides, and where this process does.

    What stood `before` need not be asked for its name again, where it cannot have another one.
    """
    known = before.files if before is not None else {}
    files: dict[int, Kept] = {}
    alike: dict[Kept, list[int]] = {}
    for fd in (*_LENT, *fds):
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL) & _OPENING
            position = -1 if flags & _PATH else os.lseek(fd, 0, os.SEEK_CUR)
            found = _named(fd, flags, position, known.get(fd))
            others = alike.setdefault(found, [])
            files[fd] = found._replace(twin=_twin(fd, position, others)) if others and position >= 0 else found
            others.append(fd)
        except OSError:
            continue
    return OpenState(files, inside())


def _named(fd: int, flags: int, position: int, before: Kept | None) -> Kept:
    seen = os.fstat(fd)
    file = (seen.st_dev, seen.st_ino)
    if before is not None and before.file == file:
        nameless = stat.S_ISCHR(seen.st_mode) or not seen.st_nlink
        if before.path == "." or (before.path is None and nameless):
            return Kept(flags, position, file, before.path)
    return Kept(flags, position, file, _in_workspace(os.readlink(f"/proc/self/fd/{fd}")))


def _twin(fd: int, position: int, others: list[int]) -> int | None:
    """The first of the `others`, which stand alike, that is the same opening: its position moves with that of `fd`."""
    os.lseek(fd, position + 1, os.SEEK_SET)
    try:
        return next((number for number in others if os.lseek(number, 0, os.SEEK_CUR) != position), None)
    finally:
        os.lseek(fd, position, os.SEEK_SET)


def put_back(kept: OpenState) -> bool:
    """Make open files, their positions and flags, and the current folder what they were; after the files themselves.

    A file that was removed meanwhile is another one now, under the same name: it is opened again. Returns whether any
    was, for which its mode may have been changed for a moment.
    """
    anew = False
    _empty_streams()
    fcntl.fcntl(wire.OUTBOX_FD, fcntl.F_SETFL, 0)
    os.lseek(wire.OUTBOX_FD, 0, os.SEEK_SET)
    for fd, file in kept.files.items():
        if file.path is not None and _lost_its_name(fd, file.path):
            reopen(fd, file)
            anew = True
        elif file.position >= 0:
            fcntl.fcntl(fd, fcntl.F_SETFL, file.flags & _FLAGS)
            os.lseek(fd, file.position, os.SEEK_SET)
    stand_in(kept.folder)
    return anew


def stand_in(folder: str | None) -> None:
    """Go to a folder of the workspace; the current one is right if it lies elsewhere."""
    if folder is not None:
        os.fchdir(wire.WORKSPACE_FD)
        if folder:
            os.chdir(folder)


def _empty_streams() -> None:
    """What stands behind descriptors 1 and 2: no bytes, position 0."""
    for fd in (wire.STDOUT_FD, wire.STDERR_FD):
        size = os.fstat(fd).st_size
        _libc.fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        os.lseek(fd, 0, os.SEEK_SET)


def _lost_its_name(fd: int, path: str) -> bool:
    """Whether `fd` is not known by that name any more: what has the name now is another file, or another link to it."""
    return _in_workspace(os.readlink(f"/proc/self/fd/{fd}")) != path


def reopen(fd: int, file: Kept) -> None:
    """Put the file that has the name of `file` now in the place of `fd`; buried if it cannot be opened."""
    if file.twin is not None:
        os.dup2(file.twin, fd, inheritable=False)
        return
    path = file.path
    assert path is not None
    try:
        fresh = open_anyhow(wire.WORKSPACE_FD, path, file.flags)
    except OSError:
        _bury(fd)
        return
    os.dup2(fresh, fd, inheritable=False)
    os.close(fresh)
    if file.position >= 0:
        os.lseek(fd, file.position, os.SEEK_SET)


def take_along(kept: OpenState) -> None:
    """In a branch, whose workspace is another folder: open every file again, so that nothing is shared with the origin.

    Descriptors that were opened since are closed.
    """
    for fd in (*_STANDARD, *program_fds(kept.files)):
        file = kept.files.get(fd)
        if file is None:
            with contextlib.suppress(OSError):
                os.close(fd)
        elif file.path is not None or file.twin is not None:
            reopen(fd, file)
        elif not file.flags & _PATH:
            _open_again(fd, file)


def _open_again(fd: int, file: Kept) -> None:
    """Open what is no file of the workspace once more, in the same place."""
    path = os.readlink(f"/proc/self/fd/{fd}")
    if path.startswith("/memfd:"):
        return  # stdout or stderr, and the branch's own already
    fresh = os.open(path, file.flags | os.O_CLOEXEC)
    os.dup2(fresh, fd, inheritable=False)
    os.close(fresh)
    os.lseek(fd, file.position, os.SEEK_SET)
