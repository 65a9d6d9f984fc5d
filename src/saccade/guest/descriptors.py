"""Keep or close what a program holds open when its call ends.

A fork shares open files with its parent, so a rollback has to restore their positions and flags. Kept are files and
folders of the workspace that have a name, files of the read-only root, and devices that hold nothing. Everything else
holds state that nothing can restore, and is closed with a note. Its number stays taken, so that no later file gets it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import stat
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from . import wire
from .folders import CHANGE, enter_anyhow, inside, open_anyhow
from .inspection import HARMLESS_DEVICES
from .syscalls import punch_hole, syscall

_FLAGS = os.O_APPEND | os.O_NONBLOCK | os.O_DIRECT | os.O_NOATIME | os.O_ASYNC
"""The flags of an open file that can be changed."""
_PATH = os.O_PATH
_GONE = " (deleted)"
_BOUND = ("/memfd:saccade-image", "/memfd:saccade-array")
"""Beginnings of the names of pictures and arrays of the host."""
_STANDARD = (0, 1, 2)
_OWN = frozenset((*_STANDARD, *range(wire.WORKSPACE_FD, wire.FIRST_FREE_FD)))
"""Descriptors of the session itself."""
_LENT = (*_STANDARD, wire.WORKSPACE_FD)
"""Those of them that a program may use or replace."""
_FREE = 16
"""Descriptors that stay free: for looking at what a call has left, and for the next one."""
_libc = ctypes.CDLL(None, use_errno=True)
_ENTRY, _LISTING = struct.Struct("=QqHB"), 32 * 1024
"""Beginning of a struct linux_dirent64, and bytes of such that are read at a time."""


class Kept(NamedTuple):
    """One open file at the end of a kept call."""

    flags: int
    position: int
    file: tuple[int, int]
    """Device and inode number."""
    path: str | None
    """Path in the workspace; None if it is elsewhere."""
    twin: int | None = None
    """A descriptor before it of the same opening, with which it shares position and flags."""
    next: str | None = None
    """Name that comes next in a folder that was read in part, "" at its end; None for everything else. Positions in
    folders are numbers of names, and a name that is put back gets another one."""


@dataclass(frozen=True, slots=True)
class OpenState:
    """The state of a process outside its memory at the end of a kept call."""

    files: dict[int, Kept]
    folder: str | None
    """The current folder, relative to the workspace; None if it is elsewhere."""


def program_fds(known: Collection[int] = ()) -> list[int]:
    """List the open descriptors of the program; quick if these are the `known` ones."""
    count = _count()
    numbers = {fd for fd in (*_OWN, *known) if _libc.fcntl(fd, fcntl.F_GETFD) >= 0}
    if len(numbers) != count:
        numbers = _all_open()
    return sorted(numbers - _OWN)


def make_room() -> str | None:
    """Close all files of the program if too few descriptors are free; return why its call cannot be kept, or None."""
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


def _count() -> int:
    """Return how many descriptors are open; 0 before Linux 6.2."""
    return os.stat("/proc/self/fd").st_size


def close_what_cannot_be_kept(fds: list[int]) -> list[str]:
    """Close what of the open `fds` cannot be kept; a sentence about each thing for the program's author.

    What is closed keeps its number.
    """
    notes = []
    mode = stat.S_IMODE(os.fstat(wire.WORKSPACE_FD).st_mode)
    if mode & CHANGE != CHANGE:
        os.fchmod(wire.WORKSPACE_FD, mode | CHANGE)
        notes.append("the top folder of the workspace was closed, and was opened again when the code ended.")
    if why := _why_leave():
        stand_in("")
        notes.append(f"the current folder {why}, so the next code starts in the top folder of the workspace.")
    for fd in fds:
        try:
            what = _why_not(fd)
            # `mmap` keeps a bound picture open; that is no doing of the program, and the mapping needs no descriptor.
            mapped = what is not None and os.readlink(f"/proc/self/fd/{fd}").startswith(_BOUND)
        except OSError as error:
            what, mapped = None if error.errno == errno.EBADF else "something that cannot be named", False
        if what is None:
            continue
        _bury(fd)
        if not mapped:
            notes.append(
                f"{what} was closed when the code ended (descriptor {fd}): what it holds could not be put back after "
                "a call that fails. Open it in the call that uses it."
            )
    return notes


def _why_leave() -> str | None:
    """Say why the process cannot stay in its current folder, or None."""
    try:
        if f"{os.readlink('/proc/self/cwd')}/".startswith("/proc/"):
            return "was one of /proc, which end with their process"
        if not os.stat("/proc/self/cwd").st_nlink:
            return "was removed"
        return None if os.access("/proc/self/cwd", os.X_OK) else "was closed to everybody"
    except OSError:
        return "has too long a path"


def _why_not(fd: int) -> str | None:
    """Return what `fd` is, if it cannot be kept."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
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
    _replace(fd, os.open(os.devnull, _PATH | os.O_CLOEXEC))


def _in_workspace(path: str) -> str | None:
    """Return `path` relative to the workspace ("." for that itself), or None."""
    real = os.readlink(f"/proc/self/fd/{wire.WORKSPACE_FD}")
    if path == real:
        return "."
    return path[len(real) + 1 :] if path.startswith(real + "/") else None


def standing(fds: list[int]) -> OpenState:
    """Record the open `fds` of the program and the standard ones, and the current folder."""
    files: dict[int, Kept] = {}
    alike: dict[Kept, list[int]] = {}
    for fd in (*_LENT, *fds):
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            position = -1 if flags & _PATH else os.lseek(fd, 0, os.SEEK_CUR)
            found = _named(fd, flags, position)
            others = alike.setdefault(found, [])
            files[fd] = found._replace(twin=_twin(fd, position, others)) if others and position >= 0 else found
            others.append(fd)
        except OSError:
            continue
    return OpenState(files, inside())


def _named(fd: int, flags: int, position: int) -> Kept:
    seen = os.fstat(fd)
    file = (seen.st_dev, seen.st_ino)
    following = _name_at(fd, position) if position > 0 and stat.S_ISDIR(seen.st_mode) else None
    return Kept(flags, position, file, _in_workspace(os.readlink(f"/proc/self/fd/{fd}")), next=following)


def _entries(fd: int) -> Iterator[tuple[int, str]]:
    """(position after it, name) of what is left to read in a folder; what was read ahead is passed over."""
    buffer = ctypes.create_string_buffer(_LISTING)
    while length := syscall("getdents64", fd, buffer, _LISTING):
        at = 0
        while at < length:
            _inode, after, size, _kind = _ENTRY.unpack_from(buffer, at)
            yield after, os.fsdecode(buffer.raw[at + _ENTRY.size : at + size].split(b"\0", 1)[0])
            at += size


def _name_at(fd: int, position: int) -> str:
    """Return the name that is read next in a folder, or "" at its end."""
    name = next((name for _after, name in _entries(fd)), "")
    os.lseek(fd, position, os.SEEK_SET)
    return name


def _move(fd: int, file: Kept) -> None:
    """Move the position of `fd` to where that of `file` was."""
    position = file.position
    if file.next is not None:
        # ext4: a folder whose first reading is at its end has nothing after a rewind either (`last_pos` is still 0).
        os.lseek(fd, 0, os.SEEK_SET)
        next(_entries(fd), None)
        os.lseek(fd, position, os.SEEK_SET)
        if _name_at(fd, position) != file.next:
            position = os.lseek(fd, 0, os.SEEK_SET)
            for after, name in _entries(fd):
                if name == file.next:
                    break
                position = after
    if position >= 0:
        os.lseek(fd, position, os.SEEK_SET)


def _twin(fd: int, position: int, others: list[int]) -> int | None:
    """Find the first of `others` that shares its position with `fd`, as descriptors made by `dup` do."""
    os.lseek(fd, position + 1, os.SEEK_SET)
    try:
        return next((number for number in others if os.lseek(number, 0, os.SEEK_CUR) != position), None)
    finally:
        os.lseek(fd, position, os.SEEK_SET)


def give_back_room(kept: OpenState) -> None:
    """Empty the files that have lost their names, and are made anew: the disk may be too small for both."""
    for fd, file in kept.files.items():
        if file.path is not None and stat.S_ISREG(os.fstat(fd).st_mode) and not os.fstat(fd).st_nlink:
            itself = f"/proc/self/fd/{fd}"
            os.chmod(itself, 0o600)
            os.truncate(itself, 0)


def put_back(kept: OpenState) -> bool:
    """Restore open files, their positions and flags, and the current folder; call it after the files are restored.

    A file that was removed meanwhile is another one now, under the same name, and is opened again. Returns whether any
    was: its mode may have been changed for a moment.
    """
    anew = False
    for fd in (wire.STDOUT_FD, wire.STDERR_FD):
        punch_hole(fd, 0, os.fstat(fd).st_size)
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(wire.OUTBOX_FD, fcntl.F_SETFL, 0)
    os.lseek(wire.OUTBOX_FD, 0, os.SEEK_SET)
    for fd, file in kept.files.items():
        if file.path is not None and _in_workspace(os.readlink(f"/proc/self/fd/{fd}")) != file.path:
            reopen(fd, file)
            anew = True
        elif file.position >= 0:
            fcntl.fcntl(fd, fcntl.F_SETFL, file.flags & _FLAGS)
            _move(fd, file)
    stand_in(kept.folder)
    return anew


def stand_in(folder: str | None) -> None:
    """Enter a folder of the workspace; None stays where it is."""
    if folder is not None:
        enter_anyhow(wire.WORKSPACE_FD, folder)


def reopen(fd: int, file: Kept) -> None:
    """Replace `fd` by the file that now has the name of `file`; bury it if that cannot be opened."""
    if file.twin is not None:
        put(file.twin, fd)
        return
    assert file.path is not None
    try:
        fresh = open_anyhow(wire.WORKSPACE_FD, file.path, file.flags)
    except OSError:
        _bury(fd)
    else:
        _replace(fd, fresh)
        _move(fd, file)


def put(source: int, fd: int) -> None:
    """Have `fd` stand for what `source` stands for; whether a new program would inherit it stays as it is."""
    os.dup2(source, fd, inheritable=_libc.fcntl(fd, fcntl.F_GETFD) == 0)


def _replace(fd: int, fresh: int) -> None:
    put(fresh, fd)
    os.close(fresh)


def take_along(kept: OpenState) -> None:
    """Open every file again, so that a branch shares none with its origin; what was opened since is closed."""
    for fd in (*_STANDARD, *program_fds(kept.files)):
        file = kept.files.get(fd)
        if file is None:
            with contextlib.suppress(OSError):
                os.close(fd)
        elif file.path is not None or file.twin is not None:
            reopen(fd, file)
        elif not file.flags & _PATH:
            path = os.readlink(f"/proc/self/fd/{fd}")
            if not path.startswith("/memfd:"):  # these are stdout and stderr, and the branch's own already
                _replace(fd, os.open(path, file.flags | os.O_CLOEXEC))
                _move(fd, file)
