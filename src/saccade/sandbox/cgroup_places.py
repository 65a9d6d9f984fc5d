"""Where on this machine control groups for sessions can be made.

Reads what is mounted and where this process stands; changes nothing but one thing: in version 2 it turns on the
memory and pids controllers in the process's own group, where the kernel lets it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

CONTROLLERS = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One tree of groups: where it is mounted, the host's own folder in it, and which controllers it has."""

    version: int
    mount: str
    own: str
    controllers: frozenset[str]


def candidates() -> list[tuple[int, tuple[str, ...], str]]:
    """(version, folders in which to make ours, why there are none) for each version, the better one first."""
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
    """Where trees of groups that can hold ours are mounted; empty where there are none."""
    try:
        return sorted({hierarchy.mount for hierarchy in _hierarchies((*CONTROLLERS, "cpu"))})
    except OSError:
        return []


def _delegated(hierarchy: Hierarchy) -> str | None:
    """The nearest version 2 group, from our own upwards, that we may write to and that hands on both controllers."""
    folder = hierarchy.own
    while folder == hierarchy.mount or folder.startswith(hierarchy.mount + "/"):
        writable = os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)
        with contextlib.suppress(OSError):
            if writable and folder == hierarchy.own:
                # Refused (EBUSY) while our own group holds processes, unless it is the root.
                enable(folder)
        with contextlib.suppress(OSError):
            if writable and set(CONTROLLERS) <= set(read(f"{folder}/cgroup.subtree_control").split()):
                return folder
        folder = os.path.dirname(folder)
    return None


def around(controller: str) -> list[tuple[int, str]]:
    """(version, folder) of every group around this process that may limit `controller`, the innermost first."""
    places: list[tuple[int, str]] = []
    try:
        hierarchies = _hierarchies((controller,))
    except OSError:
        return places
    for hierarchy in hierarchies:
        folder = hierarchy.own
        while folder == hierarchy.mount or folder.startswith(hierarchy.mount + "/"):
            places.append((hierarchy.version, folder))
            folder = os.path.dirname(folder)
    return places


def cpu_place() -> str:
    """The host's own folder in the version 1 tree that shares processors out. Raises OSError if there is none."""
    for hierarchy in _hierarchies(("cpu",)):
        if hierarchy.version == 1:
            return hierarchy.own
    raise OSError("no control groups with cpu are mounted")


def _hierarchies(wanted: tuple[str, ...] = CONTROLLERS) -> list[Hierarchy]:
    """The mounted trees and our own place in each. Raises OSError where /proc cannot be read."""
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
    """The whole text of a small file of the kernel."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, value: int | str) -> None:
    """One write to a control file; the kernel's refusal raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
