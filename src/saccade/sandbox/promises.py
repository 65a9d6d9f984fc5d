"""What a sandbox promises, and which promise is weaker where a layer of isolation is missing; see docs/sandbox.md.

Layers overlap, so a missing one seldom breaks a promise: `WEAKENED` says what is lost, and to whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from saccade.sandbox.isolation import Layer


class Promise(StrEnum):
    """What a sandbox promises. Each attack tests one of these."""

    CONFINED = "confined"
    """Nothing outside the session's own workspace is reached."""
    BOUNDED = "bounded"
    """No limit is passed, and nobody else is slowed down or starved."""
    UNDONE = "undone"
    """After a failed call nothing that a later call can observe differs."""
    SEPARATE = "separate"
    """A branch shares nothing that can be written with its origin and its siblings."""
    AT_REST = "at rest"
    """When a call has ended, nothing of it runs."""
    CHECKED = "checked"
    """The host takes every report as an enemy's."""
    SILENT = "silent"
    """Nothing of other sessions or of the host is told."""


_ONE_LESS = "what stops a program is one layer less"
WEAKENED: Mapping[Layer, Mapping[Promise, str]] = {
    Layer.ENVIRONMENT: {Promise.SILENT: "keys in environment variables can be read"},
    Layer.RLIMITS: {Promise.BOUNDED: "one process may use memory, processor and files without end"},
    Layer.NO_NEW_PRIVS: {
        Promise.CONFINED: "a set-uid program could give rights back, and neither seccomp nor Landlock can be had",
    },
    Layer.USER_NAMESPACE: {Promise.CONFINED: "a program that takes over the zygote has the rights of its user"},
    Layer.MOUNT_NAMESPACE: {
        Promise.CONFINED: "only Landlock keeps files of this machine from being opened, and nothing hides their names",
        Promise.BOUNDED: "files are counted when a call has ended: until then it can fill the disk",
        Promise.SEPARATE: "branches may find each other's folders by a path that they have seen before",
        Promise.SILENT: "the folder of all sessions shows how many there are, and when one was opened",
    },
    Layer.PID_NAMESPACE: {
        Promise.SILENT: "ids of processes outside can be seen",
        Promise.AT_REST: "sessions of a zygote that is killed may live on for a moment",
    },
    Layer.NET_NAMESPACE: {Promise.CONFINED: f"the network: {_ONE_LESS} (seccomp still refuses sockets)"},
    Layer.IPC_NAMESPACE: {
        Promise.SEPARATE: f"memory shared by name: {_ONE_LESS} (seccomp still refuses it)",
        Promise.SILENT: "programs can read the name of this machine",
    },
    Layer.WORKSPACE: {Promise.BOUNDED: "files are counted when a call has ended: until then it can fill the disk"},
    Layer.SESSION_USER: {
        Promise.CONFINED: "modes and times of files of the same user can be changed where they can be named",
        Promise.BOUNDED: "a flood of processes can keep neighbours from forking while it lasts",
    },
    Layer.CAPABILITIES: {Promise.CONFINED: f"rights of an administrator: {_ONE_LESS}"},
    Layer.SECCOMP: {
        Promise.CONFINED: "sockets, namespaces, keys and rare system calls can be had",
        Promise.BOUNDED: "a program can kill what it may signal, and its neighbours' zygote with it",
        Promise.UNDONE: "locks and queues of the kernel outlast a failed call",
        Promise.SEPARATE: "a lock on a file of the interpreter is seen by every session",
        Promise.AT_REST: "a program can continue what was stopped",
        Promise.SILENT: "ids and clocks of other processes, and what they open, can be asked for",
    },
    Layer.LANDLOCK: {
        Promise.CONFINED: f"files outside: {_ONE_LESS} (the private root still has none)",
        Promise.SILENT: "/proc shows the mounts, and with them paths and users of other sessions",
    },
    Layer.CGROUP: {
        Promise.BOUNDED: "memory is limited for each process alone, and one origin has at most 256 sessions",
    },
    Layer.CPU_SHARES: {Promise.BOUNDED: "a session with many processes gets many shares of the processors"},
    Layer.INSPECTION: {
        Promise.UNDONE: (
            "a program that patches its runtime may keep shared memory, which no rollback reaches, and a mapped file "
            "(np.memmap) that a failed call replaced stays the one that it made"
        ),
        Promise.SEPARATE: (
            "branches of a program that patches its runtime may share sockets and open files, and a file that is "
            "mapped while a session is branched is the origin's in its branches"
        ),
    },
}
"""Layer -> what each promise loses without it."""


def weakened(layer: Layer) -> str:
    """Return what is lost without `layer`, each loss with the name of its promise, in one line."""
    return "; ".join(f"{promise.value}: {loss}" for promise, loss in WEAKENED[layer].items())
