"""The isolation layers: what each stops, which are on here, and which are required."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from pydantic import BaseModel, ConfigDict

from saccade.core.registry import install
from saccade.errors import IsolationError


class Layer(StrEnum):
    """One isolation layer. The order is the order of the report."""

    ENVIRONMENT = "environment"
    """Only allow-listed environment variables reach the guest."""
    RLIMITS = "rlimits"
    """Kernel resource limits per process."""
    NO_NEW_PRIVS = "no_new_privs"
    """No set-uid program can give privileges back."""
    USER_NAMESPACE = "user_namespace"
    MOUNT_NAMESPACE = "mount_namespace"
    """A private root that holds, read-only, only what the interpreter needs."""
    PID_NAMESPACE = "pid_namespace"
    NET_NAMESPACE = "net_namespace"
    IPC_NAMESPACE = "ipc_namespace"
    WORKSPACE = "workspace"
    """A private writable folder with a size cap."""
    SESSION_USER = "session_user"
    """Every session runs under a user id (or a user namespace) of its own."""
    CAPABILITIES = "capabilities"
    """All capabilities dropped."""
    SECCOMP = "seccomp"
    """Only allow-listed system calls."""
    LANDLOCK = "landlock"
    """File, network and signal access confined by the kernel's Landlock."""
    CGROUP = "cgroup"
    """Memory and process count of a whole session limited together."""
    CPU_SHARES = "cpu_shares"
    """The processors are shared equally between sessions, whatever each of them starts."""
    INSPECTION = "inspection"
    """What a session holds open is looked at from outside before it is kept."""


MINIMUM: frozenset[Layer] = frozenset({Layer.ENVIRONMENT, Layer.RLIMITS, Layer.NO_NEW_PRIVS, Layer.SECCOMP})
"""Required by default. `files_confined` is checked besides: a private root or Landlock."""


# What a sandbox promises; see docs/sandbox.md. Layers overlap, so a missing one seldom breaks a promise: `WEAKENED`
# says what is lost, and to whom.


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
        Promise.BOUNDED: "a session may keep thousands of mappings, each of which makes its own calls slower",
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


class LayerState(BaseModel):
    """Whether a layer is on, and if not, why and what would turn it on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layer: Layer
    on: bool
    detail: str = ""


class Isolation(BaseModel):
    """The isolation that a sandbox really has: what was applied, not what was asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    platform: str
    layers: tuple[LayerState, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the layers that are on."""
        return tuple(state.layer.value for state in self.layers if state.on)

    def is_on(self, layer: Layer) -> bool:
        """Return whether that layer is on."""
        return layer.value in self.names

    def require(self, layers: Iterable[Layer]) -> None:
        """Raise `IsolationError` unless all of `layers` are on and files are confined; no layers ask for nothing."""
        required = frozenset(layers)
        if not required:
            return
        missing = [state for state in self.layers if state.layer in required and not state.on]
        if missing:
            lines = "\n".join(f"  {state.layer.value}: {state.detail or 'not available'}" for state in missing)
            raise IsolationError(
                f"the sandbox lacks required isolation layers on this machine:\n{lines}\n"
                "Run `saccade doctor` for what each needs, use a RemoteSandbox on a Linux host, "
                "or name fewer layers in require_isolation (then hostile code can reach this machine)."
            )
        if not (self.is_on(Layer.MOUNT_NAMESPACE) or self.is_on(Layer.LANDLOCK)):
            raise IsolationError(
                "files of this machine would be open to the guest: neither a private root nor Landlock can be had. "
                "Use Linux 5.13 or newer with Landlock, or allow unprivileged user namespaces; see `saccade doctor`."
            )


# Packages that programs of the papers import, beyond those that every sandbox has: the extra `sandbox`. A session sees
# what the interpreter of its sandbox has installed.
INSTALL: Final = install("sandbox")


@dataclass(frozen=True, slots=True)
class OfferedPackage:
    """One of them."""

    module: str
    """As programs import it."""
    distribution: str
    """As it is installed."""
    note: str = ""
    """What a session cannot do with it."""

    @property
    def version(self) -> str | None:
        """The installed one; None if it is absent."""
        if find_spec(self.module) is None:
            return None
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return "unknown"


OFFERED: Final = (
    OfferedPackage("scipy", "scipy"),
    OfferedPackage("skimage", "scikit-image"),
    OfferedPackage("sklearn", "scikit-learn", "in one thread and one process, whatever n_jobs says"),
    OfferedPackage("pandas", "pandas"),
    OfferedPackage("shapely", "shapely"),
)
