"""Start of the sandbox's own process tree: launcher, then zygote.

    host ──exec──▶ launcher ──clone(namespaces), exec──▶ zygote (process 1 of its namespaces) ──fork──▶ sessions

The launcher tries sets of namespaces from the best to none, maps user ids, and then only waits: it kills the zygote if
the host dies, and removes what the zygote cannot remove itself. It imports no numpy and runs no code of a guest. The
zygote is a program of its own, started inside its user namespace: only so do its rights there cover its own children.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from functools import partial
from typing import Any, NoReturn

from . import wire
from .fork import Forker, NextStep
from .root import NAMESPACES, NO_OWN_PROC, Standing, id_range, ladder, usable, with_own_proc, write_maps
from .zygote import zygote

HOST_NAME = "sandbox"


def try_namespaces(
    names: tuple[str, ...], control: socket.socket, settings: dict[str, Any], reasons: dict[str, str]
) -> tuple[int, str]:
    """Fork a zygote with those namespaces: (its pid, "") once it has them, or (0, why not)."""
    flags = sum(NAMESPACES[name] for name in names)
    first, count = id_range()
    go_read, go_write = os.pipe()
    reply_read, reply_write = os.pipe()
    try:
        pid = Forker().fork(flags)
    except OSError as error:
        for fd in (go_read, go_write, reply_read, reply_write):
            os.close(fd)
        return 0, os.strerror(error.errno or 0)
    if pid == 0:
        os.close(go_write)
        os.close(reply_read)
        if os.read(go_read, 1) != b"g":
            os._exit(1)
        try:
            usable(names)
        except OSError as error:
            os.write(reply_write, str(error).encode())
            os._exit(1)
        os.write(reply_write, b"ok")
        ids = (1, count) if "user_namespace" in names else (first, count)
        standing = {"namespaces": names, "first_uid": ids[0] if count else 0, "uids": count, "reasons": reasons}
        _become_zygote(control, {"settings": settings, "standing": standing})
    os.close(go_read)
    os.close(reply_write)
    try:
        if "user_namespace" in names:
            write_maps(pid, first, count)
        os.write(go_write, b"g")
        answer = os.read(reply_read, 4096).decode(errors="replace")
    except OSError as error:
        answer = str(error)
    finally:
        os.close(go_write)
        os.close(reply_read)
    if answer == "ok":
        return pid, ""
    os.waitpid(pid, 0)  # it has ended by itself, or does so now that nothing will come through its pipe
    return 0, answer or "the process ended"


def wait(zygote_pid: int, host_pid: int, host_fd: int) -> None:
    """Return when the zygote has ended; kill it when the host has."""
    zygote_fd = os.pidfd_open(zygote_pid)
    poller = select.poll()
    poller.register(zygote_fd, select.POLLIN)
    poller.register(host_fd, select.POLLIN)
    while True:
        ready = dict(poller.poll())
        if host_fd in ready:
            os.kill(zygote_pid, signal.SIGKILL)
            poller.unregister(host_fd)
        if zygote_fd in ready:
            os.waitpid(zygote_pid, 0)
            return


def _become_zygote(control: socket.socket, orders: dict[str, Any]) -> NoReturn:
    memfd = wire.sealed_memfd("saccade-orders", json.dumps(orders).encode())
    for fd in (control.fileno(), memfd):
        os.set_inheritable(fd, True)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    boot = "import sys; sys.path.insert(0, sys.argv.pop()); from guest.launch import main_of_zygote as go; go()"
    os.execv(sys.executable, [sys.executable, "-P", "-s", "-c", boot, str(control.fileno()), str(memfd), folder])


def main_of_zygote() -> None:
    """Start as the zygote and, through it, of template and sessions.

    `argv` is the descriptors of the control socket and of the orders; these come in a file, since arguments stay in
    memory for ever. What a process does next it begins from here, so that no frame of an earlier part lies below a
    program.
    """
    step: NextStep | None = partial(_zygote, int(sys.argv[1]), int(sys.argv[2]))
    sys.argv[:] = sys.orig_argv[:] = [""]
    while step is not None:
        step = step()


def _zygote(control: int, memfd: int) -> NextStep:
    with os.fdopen(memfd, "rb") as file:
        file.seek(0)
        orders = json.loads(file.read())
    order = orders["standing"]
    reasons = {name: why for name, why in order["reasons"].items() if name not in order["namespaces"]}
    standing = Standing(tuple(order["namespaces"]), order["first_uid"], order["uids"], reasons)
    if "ipc_namespace" in standing.namespaces:
        try:
            socket.sethostname(HOST_NAME)
        except OSError as error:  # seccomp profiles of container engines leave it to the administrator
            reasons["ipc_namespace"] = f"programs can read the name of this machine: sethostname: {error.strerror}"
    if group := orders["settings"]["zygote_cgroup"]:
        with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", "wb", 0) as procs:
            procs.write(b"0")
    return zygote(socket.socket(fileno=control), orders["settings"], standing)


def main() -> None:
    """Start as the launcher: `argv` is the control socket's descriptor; the settings come over it."""
    control = socket.socket(fileno=int(sys.argv[1]))
    first = wire.receive(control)
    if first is None:
        return
    settings, _fds = first
    host_pid = settings["host_pid"]
    host_fd = os.pidfd_open(host_pid)
    if os.getppid() != host_pid:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reasons: dict[str, str] = {}
    for rung in ladder(os.geteuid() == 0):
        wanted = tuple(name for name in rung if name not in settings["without"])
        names = with_own_proc(wanted)
        for name in set(wanted) - set(names):
            reasons.setdefault(name, NO_OWN_PROC)
        pid, why = try_namespaces(names, control, settings, dict(reasons))
        if pid:
            control.close()
            wait(pid, host_pid, host_fd)
            remove_leftovers(settings)
            return
        for name in names:
            reasons.setdefault(name, why)
    sys.exit("the sandbox could not start a zygote: " + json.dumps(reasons))


def remove_leftovers(settings: dict[str, Any]) -> None:
    """Remove the folders and empty control groups that `settings` names; missing ones are fine."""
    for folder in settings["leftover_folders"]:
        shutil.rmtree(folder, ignore_errors=True)
    for group in settings["leftover_cgroups"]:
        remove_cgroup(group)


def remove_cgroup(path: str, tries: int = 50) -> None:
    """Remove a control group and the groups in it; a group whose processes are still dying is tried again."""
    for _ in range(tries):
        try:
            inner = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for group in [*inner, path]:
            with contextlib.suppress(OSError):
                os.rmdir(group)
        if not os.path.exists(path):
            return
        time.sleep(0.02)
