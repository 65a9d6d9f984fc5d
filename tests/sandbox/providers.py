"""The providers that the suites run against: name -> function that gives a sandbox which is not yet entered."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from tests.fake_sandboxes import ServedSandbox

from saccade.sandbox.base import Limits, Sandbox
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox

NAMESPACES = (
    Layer.USER_NAMESPACE,
    Layer.MOUNT_NAMESPACE,
    Layer.PID_NAMESPACE,
    Layer.NET_NAMESPACE,
    Layer.IPC_NAMESPACE,
)


def local(limits: Limits) -> Sandbox:
    """The best isolation of this machine."""
    return LocalSandbox(limits=limits)


def without_namespaces(limits: Limits) -> Sandbox:
    """As in a container that refuses `unshare`: Landlock, seccomp and resource limits."""
    return LocalSandbox(limits=limits, without=NAMESPACES)


def remote(limits: Limits) -> Sandbox:
    """The same over HTTP."""
    return ServedSandbox(limits)


PROVIDERS: dict[str, Callable[[Limits], Sandbox]] = {
    "local": local,
    "without_namespaces": without_namespaces,
    "remote": remote,
}

SUITES = ["local", *(pytest.param(name, marks=pytest.mark.slow) for name in ("remote", "without_namespaces"))]
"""The names as parameters of a suite: the same over HTTP, and the lesser machine, only where there is time."""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
