"""Inspect from outside, through /proc, what a stopped session process holds open and has mapped.

A session closes by itself what it may not keep (see `descriptors`). A program may have patched that away, so the zygote
looks before it keeps a call or a branch. Needs the right to look at the process (CAP_SYS_PTRACE in its user namespace).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import itertools
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from . import groups
from .syscalls import syscall

STRAY = "a process that the code had started was still running"

HARMLESS_DEVICES = frozenset({(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)})
"""Major and minor numbers of null, zero, full, random and urandom: nothing stays in them."""
_GONE = " (deleted)"
_KCMP_FILE = 0
# struct procmap_query (Linux 6.11) and its ioctl.
_QUERY = struct.Struct("=9Q4I2Q")
_QUERY_SHARED, _QUERY_NEXT, _QUERY_FILES = 0x08, 0x10, 0x20
_PROCMAP_QUERY = (3 << 30) | (_QUERY.size << 16) | (ord("f") << 8) | 17
_NAME_BYTES = 4096
_MODES = [
    "".join(letter if bits & bit else "-" for letter, bit in (("r", 1), ("w", 2), ("x", 4))) + "ps"[bits >> 3]
    for bits in range(16)
]
MOST_MAPS = 256
"""Mappings of files that a process may keep: the zygote looks at each after every call, while others wait."""
_MOST_LISTED, _MOST_ASKED = 1 << 20, 10_000
"""Bytes of /proc/PID/maps that the zygote reads at once, for the same reason, and mappings that it asks about."""
_LINE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (....) ([0-9a-f]+) \S+ \d+ +(/.*)$", re.MULTILINE)
_SHARED_LINE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (...s) ([0-9a-f]+) \S+ \d+ *(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Belongings:
    """What a session may hold: its folder, the folder of all workspaces, its socket and its shared memory."""

    workspace: str
    base: str
    socket: int
    """Inode number."""
    memory: frozenset[int]
    """Inode numbers of the outbox and of what stands behind stdout and stderr."""

    def may_map(self, path: str) -> bool:
        """Return whether a file of that path may be mapped: one of the own workspace, or of the read-only root."""
        if path.endswith(_GONE) or not path.startswith("/") or path.startswith(("/memfd:", "/dev/", "/SYSV")):
            return False
        return self.inside(path) or not path.startswith(self.base + "/")

    def inside(self, path: str) -> bool:
        """Return whether a path is in the own workspace."""
        return path == self.workspace or path.startswith(self.workspace + "/")


class Map(NamedTuple):
    """A mapping of a file: addresses, permissions ("rw-s"), offset in the file (bytes) and path."""

    start: int
    end: int
    mode: str
    offset: int
    path: str

    @property
    def shared(self) -> bool:
        """Whether what is written to it is written to the file."""
        return self.mode.endswith("s")


@dataclass(frozen=True)
class Inspected:
    """What the zygote has seen of a process that stands still since."""

    pid: int
    stop: int
    """The number of the stop in which it stood (`groups.stands_since`)."""
    why_not: str | None
    """Why it cannot be kept, or None."""
    maps: list[Map]
    """Its mappings of files of the own workspace, with paths relative to it."""


Known = dict[int, tuple[int, str]]
"""Private mappings of files elsewhere (libraries): the address where one begins -> where its last part ends, and its
path. They stay where they are, and need not be looked at after every call."""


def visible(pid: int) -> bool:
    """Return whether this process may look at what `pid` holds."""
    try:
        os.close(os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC))
        return bool(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return False


def left_running(pid: int, threads: int) -> str | None:
    """Return what runs next to the stopped process `pid` of so many `threads`, and is killed then, or None."""
    if threads != 1:
        return (
            f"a thread is still running{_thread_names(pid)}: join every thread before the code ends, and let a library "
            "that has threads of its own use one"
        )
    if groups.purge(pid):
        return f"{STRAY}: wait for it before the code ends"
    return None


def _thread_names(pid: int) -> str:
    """Return the names of the process's further threads as the kernel knows them, where they tell anything."""
    names = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/comm", "rb") as file:
            names.add(file.read(16).decode("ascii", "replace").strip())
    names -= {name for name in names if name.startswith("python")}
    return f" ({', '.join(sorted(names)[:5])})" if names else ""


def improper(pid: int, own: Belongings, maps: list[Map]) -> str | None:
    """Say what the stopped process `pid` holds and cannot keep, or None; `maps` are its mappings that may matter."""
    if len(maps) > MOST_MAPS:
        return f"more than {MOST_MAPS} mappings of files would stay: take away those that are not needed any more"
    what = _improper(pid, own, [each for each in maps if each.shared])
    return what and f"{what}: close it before the code ends"


def improper_branch(pid: int, own: Belongings, origin: int) -> str | None:
    """Return the same for a branch, which may not share anything with the process `origin` either."""
    if what := improper(pid, own, shared_maps(pid)):
        return what
    if foreign_maps(pid, own):
        return "memory of another session is still mapped"
    if shares_description(pid, origin):
        return "a file is still open that the origin has open, too"
    return None


def _improper(pid: int, own: Belongings, shared: list[Map]) -> str | None:
    folder = os.open(f"/proc/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(folder):
            if what := _improper_descriptor(folder, name, own):
                return f"{what} is still open (descriptor {name})"
    finally:
        os.close(folder)
    if not own.inside(where := os.readlink(f"/proc/{pid}/cwd")) and where.startswith(own.base + "/"):
        return "its current folder is not in its workspace"
    for found in shared:
        if not own.may_map(found.path):
            return f"memory that is shared with {found.path.removesuffix(_GONE) or 'others'} is still mapped"
    return None


def _improper_descriptor(folder: int, name: str, own: Belongings) -> str | None:
    try:
        seen = os.stat(name, dir_fd=folder)
        kind = stat.S_IFMT(seen.st_mode)
        if kind == stat.S_IFSOCK:
            return None if seen.st_ino == own.socket else "a socket"
        if kind == stat.S_IFCHR and (os.major(seen.st_rdev), os.minor(seen.st_rdev)) in HARMLESS_DEVICES:
            return None
        if seen.st_dev == _memory_device() and seen.st_ino in own.memory:
            return None
        path = os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return "something that cannot be named"
    if kind == stat.S_IFCHR:
        return f"the device {path}"
    if kind == stat.S_IFREG and path.startswith("/memfd:"):
        return "memory shared by descriptor"
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        return "a pipe" if kind == stat.S_IFIFO else path.removeprefix("anon_inode:").strip("[]")
    if path.endswith(_GONE) or not seen.st_nlink:
        return "a file without a name"
    if path.startswith("/proc/") or not (own.inside(path) or not path.startswith(own.base + "/")):
        return "a file of another process or session"
    return None


@functools.cache
def _memory_device() -> int:
    """Return where all memory is that has a descriptor."""
    fd = os.memfd_create("saccade-device", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def shares_description(pid: int, other: int) -> bool:
    """Tell whether `pid` and `other` have a file or device outside workspaces open together; True if none can tell."""
    mine, theirs = _outside(pid), _outside(other)
    same = [
        (owner, fd)
        for owner, found in ((pid, mine), (other, theirs))
        for fd, file in found.items()
        if file in mine.values() and file in theirs.values()
    ]
    try:
        # The kernel tells which of two comes first, so that not each need be held against each.
        same.sort(key=functools.cmp_to_key(_order))
        alike = ((a, b) for a, b in itertools.pairwise(same) if a[0] != b[0] and _order(a, b) == 0)
        return any(not _is_path(*a) for a, _b in alike)
    except OSError:
        return bool(mine)


def _order(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Compare what stands behind two descriptors, each a process and a number: 0 for the same, else -1 or 1."""
    order = syscall("kcmp", a[0], b[0], _KCMP_FILE, a[1], b[1])
    return order if order < 2 else -1


def _outside(pid: int) -> dict[int, tuple[int, int]]:
    """Map each descriptor to device and inode number, of each file and device that is open."""
    folder = f"/proc/{pid}/fd"
    found = {int(name): os.stat(f"{folder}/{name}") for name in os.listdir(folder)}
    kinds = (stat.S_IFREG, stat.S_IFCHR)
    return {fd: (seen.st_dev, seen.st_ino) for fd, seen in found.items() if stat.S_IFMT(seen.st_mode) in kinds}


def _is_path(pid: int, fd: int) -> bool:
    """Tell whether a descriptor is for the file's place only (`O_PATH`): it has neither position nor flags to share."""
    with open(f"/proc/{pid}/fdinfo/{fd}", "rb") as file:
        return bool(int(file.read().split(b"flags:")[1].split()[0], 8) & os.O_PATH)


def private_maps(pid: int, own: Belongings, known: Known) -> list[Map]:
    """Return the private mappings of files of the own workspace, removed ones included. Adds to `known`.

    To cut such a file off takes away what they have changed of it, in every process that has them.
    """
    found, first, last = list[Map](), 0, Map(0, 0, "", 0, "")
    if len(known) > _MOST_ASKED:
        known.clear()  # it has mapped ever others
    for each in _asked(pid, _QUERY_FILES, known):
        if own.inside(each.path):
            found += [] if each.shared else [each]
            if len(found) > MOST_MAPS:
                break
            continue
        first = first if (each.start, each.path) == (last.end, last.path) else each.start
        known[first], last = (each.end, each.path), each
    return found


_PIECES = f"its memory is in more pieces than are looked through (some {_MOST_ASKED:,})"


def _listed(pid: int) -> bytes:
    """Read /proc/PID/maps. Raises ValueError if it is too long."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        text = file.read(_MOST_LISTED + 1)
    if len(text) > _MOST_LISTED:
        raise ValueError(_PIECES)
    return text


def in_workspace(maps: list[Map], own: Belongings) -> list[Map]:
    """Return those of the mappings that show a file of the own workspace, with paths relative to it."""
    found = (known for known in maps if own.inside(known.path))
    return [known._replace(path=known.path[len(own.workspace) + 1 :]) for known in found]


def foreign_maps(pid: int, own: Belongings) -> bool:
    """Return whether `pid` has mapped a file of a workspace that is not its own."""
    paths = (each.path for each in _asked(pid, _QUERY_FILES, {}))
    return any(path.startswith(own.base + "/") and not own.inside(path) for path in paths)


def _parse(match: re.Match[bytes]) -> Map:
    start, end, mode, offset, path = match.groups()
    return Map(int(start, 16), int(end, 16), mode.decode(), int(offset, 16), os.fsdecode(path))


def shared_maps(pid: int) -> list[Map]:
    """Return every shared mapping of a process, or one more than may be."""
    return list(itertools.islice(_asked(pid, _QUERY_SHARED, {}), MOST_MAPS + 1))


def _asked(pid: int, kind: int, known: Known) -> Iterator[Map]:
    """Mappings of a `kind` but for the `known` ones: a quick question for each to a kernel that answers such."""
    fd = os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    address, question, room, nothing = 0, bytearray(_QUERY.size), ctypes.addressof(name), (0,) * 6
    ask = kind | _QUERY_NEXT
    try:
        for _ in range(_MOST_ASKED):
            _QUERY.pack_into(question, 0, _QUERY.size, ask, address, *nothing, 0, 0, _NAME_BYTES, 0, room, 0)
            fcntl.ioctl(fd, _PROCMAP_QUERY, question)
            _, _, _, start, address, flags, _, offset, *_rest, length, _, _, _ = _QUERY.unpack(question)
            path = os.fsdecode(name.value) if length else ""
            end, same = known.get(start, (0, ""))
            if end and path == same:
                address = end
            else:
                yield Map(start, address, _MODES[flags & 15], offset, path)
        raise ValueError(_PIECES)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EINVAL):
            raise
        line = _SHARED_LINE if kind == _QUERY_SHARED else _LINE
        yield from map(_parse, line.finditer(_listed(pid)))
    finally:
        os.close(fd)
