"""A control group for each session: memory and processes of the whole session limited together, processors shared.

Works with version 2 (as root, or in a folder delegated to the user) and with version 1 (as root). Groups are made
beneath the host's own group, so limits set around the host keep holding:

    <own group>/saccade-<pid>-<start time>-<process namespace>-<token>/<session>

The name tells `sweep` whether the owner of a folder is dead.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from saccade.errors import SandboxError

CONTROLLERS = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One tree of groups: where it is mounted, the host's own folder in it, and which controllers it has."""

    version: int
    mount: str
    own: str
    controllers: frozenset[str]

    def upwards(self) -> Iterator[str]:
        """Yield the host's own folder and those above it, up to the mount."""
        folder = self.own
        while folder == self.mount or folder.startswith(self.mount + "/"):
            yield folder
            folder = os.path.dirname(folder)


def candidates() -> list[tuple[int, tuple[str, ...], str]]:
    """Return (version, folders in which to make ours, why there are none) for each version, the better one first."""
    try:
        hierarchies = _hierarchies()
    except OSError as error:
        return [(2, (), str(error))]
    result: list[tuple[int, tuple[str, ...], str]] = []
    for hierarchy in hierarchies:
        if hierarchy.version == 2:
            base = _delegated(hierarchy)
            why = f"no group at or above {hierarchy.own} is writable and hands on memory and pids"
            result.append((2, (base,) if base else (), why))
    places = {name: found.own for found in hierarchies if found.version == 1 for name in found.controllers}
    if all(name in places for name in CONTROLLERS):
        both = tuple(dict.fromkeys(places[name] for name in CONTROLLERS))
        why = f"{both[0]} is not writable for this user"
        result.append((1, both if all(os.access(place, os.W_OK) for place in both) else (), why))
    return result


def mounts() -> list[str]:
    """Return where trees of groups that can hold ours are mounted; empty where there are none."""
    try:
        return sorted({hierarchy.mount for hierarchy in _hierarchies((*CONTROLLERS, "cpu"))})
    except OSError:
        return []


def _delegated(hierarchy: Hierarchy) -> str | None:
    """Find the nearest version 2 group, from our own upwards, that we may write and that hands on both controllers."""
    for folder in hierarchy.upwards():
        writable = os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)
        with contextlib.suppress(OSError):
            if writable and folder == hierarchy.own:
                # Refused (EBUSY) while our own group holds processes, unless it is the root.
                enable(folder)
        with contextlib.suppress(OSError):
            if writable and set(CONTROLLERS) <= set(read(f"{folder}/cgroup.subtree_control").split()):
                return folder
    return None


def around(controller: str) -> list[tuple[int, str]]:
    """Return (version, folder) of every group around this process that may limit `controller`, the innermost first."""
    try:
        hierarchies = _hierarchies((controller,))
    except OSError:
        return []
    return [(hierarchy.version, folder) for hierarchy in hierarchies for folder in hierarchy.upwards()]


def cpu_place() -> str:
    """Return the host's own folder in the version 1 tree that shares processors out. Raises OSError without one."""
    for hierarchy in _hierarchies(("cpu",)):
        if hierarchy.version == 1:
            return hierarchy.own
    raise OSError("no control groups with cpu are mounted")


def _hierarchies(wanted: tuple[str, ...] = CONTROLLERS) -> list[Hierarchy]:
    """Return the mounted trees and our own place in each. Raises OSError where /proc cannot be read."""
    places: dict[str, str] = {}
    for line in read("/proc/self/cgroup").splitlines():
        _number, names, place = line.split(":", 2)
        # Version 2 has no names.
        places |= dict.fromkeys(names.split(","), place)
    hierarchies = []
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        root, mount = left.split()[3:5]
        kind, _source, options = right.split(" ", 2)
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version is None:
            continue
        controllers = frozenset(options.split(",")) & frozenset(wanted) if version == 1 else frozenset(("",))
        for name in sorted(controllers & places.keys()):
            inside = os.path.relpath(places[name], root)
            own = os.path.normpath(os.path.join(mount, inside))
            if not inside.startswith("..") and os.path.isdir(own):
                hierarchies.append(Hierarchy(version, mount, own, controllers))
    return hierarchies


def enable(folder: str) -> None:
    """Hand on memory and pids to the groups in a version 2 folder. Raises OSError (EBUSY if it holds processes)."""
    write(f"{folder}/cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))


def read(path: str) -> str:
    """Return the whole text of a small file of the kernel."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, value: int | str) -> None:
    """Write once to a control file; the kernel's refusal raises OSError."""
    with open(path, "r+b", 0) as file:
        file.write(str(value).encode())


PREFIX = "saccade-"
WEIGHT_PER_PROCESSOR = 1
"""What all sessions together weigh against a process outside, for each processor."""
ZYGOTE_WEIGHT = 16
"""What the zygote weighs against a session."""

LESS = 8
"""A call that computes for long weighs this many times less than one that has just begun."""
FORK_BYTES = 2 << 20
"""What a branch takes of its origin's memory for as long as it lives: the kernel counts the fork there."""
_LIMIT_FILES = {
    1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    2: ("memory.max", "memory.swap.max"),
}

_WEIGHT_FILES = {1: ("cpu.shares", 1024, 262_144), 2: ("cpu.weight", 100, 10_000)}
"""By version: the file, what a group weighs if nothing is said, and the most that it may."""


def _limit_swap(file: str, memory_bytes: int) -> None:
    with contextlib.suppress(OSError):
        # Absent, or refused, where the kernel does not account swap.
        write(file, 0 if file.endswith("/memory.swap.max") else memory_bytes)


class SessionCgroup:
    """The groups of one session (two or three folders in version 1, one in version 2)."""

    def __init__(self, owner: Cgroups, folders: tuple[str, ...], memory_bytes: int) -> None:
        """`folders` must have just been made. Sets the limit of memory; raises OSError."""
        self._owner = owner
        self._folders = folders
        self._memory_bytes = 0
        self._kills = 0
        self._join_fds: tuple[int, ...] = ()
        self._origin: SessionCgroup | None = None
        self._lend(memory_bytes)

    def forked_from(self, origin: SessionCgroup) -> None:
        """Let `origin` have more memory for the fork that this session is, until it ends."""
        with contextlib.suppress(OSError):  # it has ended, which its branch will hear of
            origin._lend(FORK_BYTES)
            self._origin = origin

    def _lend(self, more_bytes: int) -> None:
        """Lend more memory to the session (less if negative). Raises OSError if the kernel refuses."""
        if not self._folders:
            return
        total = self._memory_bytes + more_bytes
        limit, with_swap = (f"{self._folders[0]}/{name}" for name in _LIMIT_FILES[self._owner.version])
        # In version 1 the second limit is never below the first.
        if self._memory_bytes and more_bytes > 0:
            _limit_swap(with_swap, total)
        write(limit, total)
        _limit_swap(with_swap, total)
        self._memory_bytes = total

    def weigh_less(self, less: bool) -> None:
        """Let the session have a smaller share of the processors than others, or the same one again."""
        if not self._folders or self._owner.no_cpu:
            return
        name, weight, _most = _WEIGHT_FILES[self._owner.version]
        with contextlib.suppress(OSError):  # it has ended
            write(f"{self._folders[self._owner.cpu]}/{name}", weight // LESS if less else weight)

    @property
    def join_fds(self) -> tuple[int, ...]:
        """Open `cgroup.procs` files; who writes b"0" to each joins, without privileges. See `close_fds`."""
        if not self._join_fds:
            paths = (os.path.join(folder, "cgroup.procs") for folder in self._folders)
            self._join_fds = tuple(os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in paths)
        return self._join_fds

    def close_fds(self) -> None:
        """Close the descriptors of `join_fds`, once they are handed over."""
        fds, self._join_fds = self._join_fds, ()
        for fd in fds:
            os.close(fd)

    def oom_kills(self) -> int:
        """Return how many processes of the session the kernel has killed for want of memory; works after removal."""
        events = "memory.events" if self._owner.version == 2 else "memory.oom_control"
        with contextlib.suppress(OSError, IndexError):
            for line in read(f"{self._folders[0]}/{events}").splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    self._kills = int(value)
        return self._kills

    def remove(self) -> None:
        """Remove the groups; idempotent. Groups whose processes are still dying are removed later by their owner."""
        self.close_fds()
        self.oom_kills()
        for folder in self._folders:
            self._owner.discard(folder)
        self._folders = ()
        origin, self._origin = self._origin, None
        if origin is not None:
            with contextlib.suppress(OSError):  # it uses more than that just now
                origin._lend(-FORK_BYTES)


class Cgroups:
    """The folder of groups of one sandbox."""

    def __init__(self, version: int, bases: tuple[str, ...]) -> None:
        """Make the folder in each of `bases`; raises OSError. Call `probe` instead."""
        self.version = version
        name = f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{_pid_namespace()}-{secrets.token_hex(4)}"
        self.folders = tuple(os.path.join(base, name) for base in bases)
        """The folders to remove when the sandbox is gone, however it ended."""
        self._late: list[str] = []
        self.no_cpu = "not asked for"
        """Why sessions have no equal shares of the processors; empty if they have."""
        self.cpu = 0
        """Which of the folders shares processors out, if they are."""
        self.zygote = ""
        """The zygote's own group, which it joins by itself; empty if there is none."""
        self._names = itertools.count(1)
        self._pids = len(self.folders) - 1
        """Which of the folders limits processes; the first limits memory."""
        for folder in self.folders:
            os.mkdir(folder)

    @classmethod
    def probe(cls) -> Cgroups | str:
        """Return the groups of a new sandbox, tried out, or the reason why there are none."""
        if sys.platform != "linux":
            return "control groups exist on Linux only"
        reasons = []
        for version, bases, why in candidates():
            try:
                if not bases:
                    raise OSError(why)
                cgroups = cls(version, bases)
            except OSError as error:
                reasons.append(f"version {version}: {error}")
                continue
            try:
                if version == 2:
                    enable(cgroups.folders[0])
                cgroups.create(64 * 1024 * 1024, 16).remove()
                return cgroups
            except (OSError, SandboxError) as error:
                reasons.append(f"version {version}: {error}")
                cgroups.close()
        return "; ".join(reasons) or "no control groups with memory and pids are mounted"

    def share_processors(self) -> None:
        """Give every session that is made from now on an equal share of the processors, however many processes it has.

        All sessions together weigh as much as one process outside for each processor: more would starve the host, and
        the zygote, which weighs more than they do, is in a group of its own. Sets `no_cpu`.
        """
        weight = WEIGHT_PER_PROCESSOR * (os.cpu_count() or 1)
        try:
            if self.version == 2:
                folder = self.folders[0]
                with contextlib.suppress(OSError):
                    write(f"{os.path.dirname(folder)}/cgroup.subtree_control", "+cpu")
                write(f"{folder}/cgroup.subtree_control", "+cpu")
            else:
                folder = os.path.join(cpu_place(), os.path.basename(self.folders[0]))
                if folder not in self.folders:
                    os.mkdir(folder)
                    self.folders += (folder,)
            name, usual, most = _WEIGHT_FILES[self.version]
            write(f"{folder}/{name}", min(most, usual * weight))
            # Every session waits for the zygote: it must not wait for theirs.
            zygote = os.path.join(folder, "zygote")
            os.mkdir(zygote)
            write(f"{zygote}/{name}", usual * ZYGOTE_WEIGHT)
            self.zygote, self.cpu = zygote, self.folders.index(folder)
        except OSError as error:
            self.no_cpu = f"processors cannot be shared out: {error}"
        else:
            self.no_cpu = ""

    def create(self, memory_bytes: int, processes: int) -> SessionCgroup:
        """Return a group of at most `memory_bytes` (with swap) and `processes` (and threads). Raises `SandboxError`."""
        late, self._late = self._late, []
        for folder in late:
            self.discard(folder)
        name = f"s{next(self._names)}"
        folders = tuple(os.path.join(folder, name) for folder in self.folders)
        try:
            for folder in folders:
                os.mkdir(folder)
            cgroup = SessionCgroup(self, folders, memory_bytes)
            write(f"{folders[self._pids]}/pids.max", processes)
            _ = cgroup.join_fds
        except OSError as error:
            for folder in folders:
                self.discard(folder)
            raise SandboxError(
                f"a control group for a session could not be made: {error}. Another program may have removed "
                f"{self.folders[0]}; open a new sandbox."
            ) from error
        return cgroup

    def discard(self, folder: str) -> None:
        """Remove an empty group now, or later if processes in it are still dying."""
        if not _remove(folder):
            self._late.append(folder)

    def close(self, wait_seconds: float = 1.0) -> None:
        """Remove all that is left of this sandbox's groups; waits a moment for dying processes. Idempotent."""
        deadline = time.monotonic() + wait_seconds
        while [folder for folder in self.folders if not _remove_tree(folder)] and time.monotonic() < deadline:
            time.sleep(0.01)
        self._late.clear()


def sweep(prefix: str = PREFIX) -> list[str]:
    """Remove the groups that sandboxes of dead hosts left, anywhere; the folders removed. Never touches living ones."""
    removed = []
    for mount in mounts():
        for folder, inner, _files in os.walk(mount):
            names = [name for name in inner if name.startswith(prefix)]
            inner[:] = [name for name in inner if name not in names]
            for path in (os.path.join(folder, name) for name in names if _owner_is_dead(name)):
                with contextlib.suppress(PermissionError):
                    if _remove_tree(path):
                        removed.append(path)
    return removed


def _owner_is_dead(name: str) -> bool:
    """Return whether the process that a folder's name gives has ended; False for one that this process cannot see."""
    parts = name.split("-")[-4:]
    if len(parts) != 4 or not (parts[0].isdigit() and parts[1].isdigit()) or parts[2] != _pid_namespace():
        return False
    try:
        return _start_time(int(parts[0])) != int(parts[1])
    except (FileNotFoundError, ProcessLookupError):
        return True


def _start_time(pid: int) -> int:
    """Return when a process started, in clock ticks since boot: with the id it names a process for good."""
    # The second field, the program's name in brackets, may hold spaces and brackets.
    return int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _remove(folder: str) -> bool:
    """Remove one group; False if it is still in use."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        return False
    return True


def _remove_tree(folder: str) -> bool:
    """Remove a sandbox's folder and the sessions' groups in it; False if one is still in use."""
    with contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
    return _remove(folder)
