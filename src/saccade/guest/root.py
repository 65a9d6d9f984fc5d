"""A private root for the zygote and its sessions: nothing of the machine but what the interpreter reads, read-only.

There are the interpreter's folders, an `/etc` of a few harmless files, `/dev` with five devices, a `/proc` that shows
only processes of this namespace, `/workspace` (a link to each session's own folder) with `/tmp` leading to it, and `/w`
for workspaces. Does not promise that the interpreter's own folders hold no secrets.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass

from . import workspaces as mounts
from .workspaces import Workspaces

WORKSPACE = "/workspace"
_BASE = "/w"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = (
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
)
_STAGES = ("/tmp", "/mnt", "/usr", "/var", "/proc")
_MOST_LINKS = 40


@dataclass(frozen=True)
class RootPlan:
    """What a private root shows."""

    binds: tuple[str, ...]
    """Real paths of folders and files, shown at the same place, read-only; none beneath another."""
    links: tuple[tuple[str, str], ...]
    """(path of a symbolic link, its text) that lead to them."""


def plan_root(paths: Iterable[str], workspace_fd: int) -> RootPlan:
    """Return the plan that makes `paths` readable, links as links; those that do not exist are left out."""
    real: set[str] = set()
    links: dict[str, str] = {}
    for path in paths:
        if os.path.exists(path):
            target, on_the_way = _resolve(path)
            real.add(target)
            links |= on_the_way
    binds: list[str] = []
    for path in sorted(real):
        if not _covered(path, binds):
            binds.append(path)
    shown = [(link, text) for link, text in sorted(links.items()) if not _covered(link, binds)]
    own = [(WORKSPACE, f"/proc/self/fd/{workspace_fd}")]
    if not any(_covered(path, ["/tmp"]) for path in binds):
        # An interpreter that is in /tmp keeps its place there.
        own.append(("/tmp", WORKSPACE))
    return RootPlan(tuple(binds), (*shown, *_DEVICE_LINKS, *own))


def _covered(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _resolve(path: str) -> tuple[str, dict[str, str]]:
    """Return the real path, and every symbolic link on the way to it with its text."""
    links: dict[str, str] = {}
    current, rest, followed = "/", path.split("/"), 0
    while rest:
        name = rest.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            current = os.path.dirname(current)
            continue
        step = os.path.join(current, name)
        if not os.path.islink(step):
            current = step
            continue
        text = os.readlink(step)
        links[step] = text
        followed += 1
        if followed > _MOST_LINKS:
            raise OSError(errno.ELOOP, f"too many symbolic links on the way to {path}")
        rest = text.split("/") + rest
        if text.startswith("/"):
            current = "/"
    return current, links


def build_private_root(plan: RootPlan) -> Workspaces:
    """Replace the root of this mount namespace by a private one; the maker of workspaces in it. Raises OSError."""
    mounts.make_private()
    trees = [(path, _read_only(path)) for path in plan.binds]
    devices = [(f"/dev/{name}", mounts.clone_tree(f"/dev/{name}")) for name in _DEVICES]
    proc = _new_proc()
    root = mounts.new_mount("tmpfs", {"size": "1m", "mode": "0755"}, mounts.NOSUID | mounts.NODEV | mounts.NOEXEC)
    mounts.attach(root, next(stage for stage in _STAGES if os.path.isdir(stage)))
    os.fchdir(root)
    for path, tree in (*trees, *devices, ("/proc", proc)):
        _make_place(path, tree)
        mounts.attach(tree, path[1:])
        os.close(tree)
    for link, text in plan.links:
        os.makedirs(os.path.dirname(link)[1:] or ".", exist_ok=True)
        os.symlink(text, link[1:])
    os.mkdir(_BASE[1:])
    mounts.enter_root()
    os.close(root)
    workspaces = _workspaces()
    mounts.set_attributes("/", mounts.RDONLY)
    return workspaces


def _read_only(path: str) -> int:
    """Return a detached, read-only copy of what is at `path`. Not without exec: shared libraries are mapped from it."""
    tree = mounts.clone_tree(path)
    mounts.set_attributes(tree, mounts.RDONLY | mounts.NOSUID | mounts.NODEV, recursive=True)
    return tree


def _new_proc() -> int:
    """Make a detached /proc of this process namespace that shows processes to their own user and to our group."""
    attributes = mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    return mounts.new_mount("proc", {"hidepid": "invisible", "gid": str(os.getegid()), "subset": "pid"}, attributes)


def _make_place(path: str, tree: int) -> None:
    """Make an empty file or folder for a mount, beneath the current folder."""
    place = path[1:]
    # A descriptor of a mount: what it is tells whether a file or a folder is needed.
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        os.makedirs(place, exist_ok=True)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))


def _workspaces() -> Workspaces:
    """Return the folder of workspaces: visible read-only; writable through a descriptor that only we hold."""
    attributes = mounts.NOSUID | mounts.NODEV | mounts.NOEXEC
    # Nobody else makes anything in it. With a limit, each session could see how much of it the others use.
    mount = mounts.new_mount("tmpfs", {"size": "4m", "nr_inodes": "0", "mode": "0111"}, attributes)
    mounts.attach(mount, _BASE)
    os.close(mount)
    handle = mounts.clone_tree(_BASE)
    mounts.set_attributes(_BASE, mounts.RDONLY)
    return Workspaces(handle, _BASE)


CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

NAMESPACES = {
    "user_namespace": CLONE_NEWUSER,
    "mount_namespace": CLONE_NEWNS,
    "pid_namespace": CLONE_NEWPID,
    "net_namespace": CLONE_NEWNET,
    "ipc_namespace": CLONE_NEWIPC | CLONE_NEWUTS,
}
"""Layer -> clone flags."""


@dataclass(frozen=True)
class Standing:
    """Which namespaces the zygote has, and as whom its sessions can run."""

    namespaces: tuple[str, ...]
    first_uid: int
    """First user id for sessions inside the zygote's user namespace; 0 if they cannot have ids of their own."""
    uids: int
    """How many ids from there on."""
    reasons: dict[str, str]
    """Namespace that could not be had, or not as a whole -> why."""


def ladder(root: bool) -> list[tuple[str, ...]]:
    """Sets of namespaces to try, best first."""
    everything = tuple(NAMESPACES)
    without_user = tuple(name for name in everything if name != "user_namespace")
    without_mount = tuple(name for name in everything if name != "mount_namespace")
    return [everything, *([without_user] if root else []), without_mount, ()]


NO_OWN_PROC = "without a mount namespace /proc would show other processes than those of the sandbox"


def with_own_proc(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return `names`, less the PID namespace if it can have no /proc: there the zygote looks at sessions."""
    return names if "mount_namespace" in names else tuple(name for name in names if name != "pid_namespace")


def id_range() -> tuple[int, int]:
    """Return (first id outside, count) of user ids that sessions may have, or (0, 0); only root may hand them out."""
    if os.geteuid() != 0:
        return 0, 0
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(int(word) for word in line.split()) for line in file]
    for start, _outside, count in ranges:
        if start <= 100_000 and start + count >= 165_536:
            return 100_000, 65_536
    for start, _outside, count in ranges:
        if count >= 60_000:
            return start + count - 30_000, 30_000
    return 0, 0


def write_maps(pid: int, first: int, count: int) -> None:
    """Map user and group ids of the new user namespace of `pid`: our own id as 0, the range from 1 on."""
    if count == 0:
        with open(f"/proc/{pid}/setgroups", "w") as file:
            file.write("deny")
    for name, own in (("uid_map", os.geteuid()), ("gid_map", os.getegid())):
        lines = [f"0 {own} 1"] + ([f"1 {first} {count}"] if count else [])
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write("\n".join(lines) + "\n")


def usable(names: tuple[str, ...]) -> None:
    """Raise OSError unless this process, in its new namespaces, can do there what a private root needs."""
    if "mount_namespace" not in names:
        return
    mounts.make_private()
    for filesystem in ("tmpfs", "proc"):
        os.close(mounts.new_mount(filesystem, {}, mounts.NOSUID))
    os.close(mounts.clone_tree("/usr"))
