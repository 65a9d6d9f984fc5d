"""Which namespaces the sandbox can have on this machine, and as whom its sessions can run in them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import mounts

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
    """`names`, without the PID namespace if it cannot have a /proc of its own: there the zygote looks at sessions."""
    return names if "mount_namespace" in names else tuple(name for name in names if name != "pid_namespace")


def id_range() -> tuple[int, int]:
    """(first id outside, count) of user ids that sessions may have, or (0, 0); only root may hand them out."""
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
