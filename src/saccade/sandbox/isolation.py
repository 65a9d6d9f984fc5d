"""The isolation layers: what each stops, which are on here, and which are required."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from pydantic import BaseModel, ConfigDict

from saccade.core.plugins import install
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
        """Whether that layer is on."""
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
