"""Start of the sandbox's own process tree: launcher, then zygote.

    host ──exec──▶ launcher ──clone(namespaces)──▶ zygote (process 1 of its namespaces) ──fork──▶ sessions

The launcher tries sets of namespaces from the best to none, maps user ids, and then only waits: it kills the zygote if
the host dies, and removes what the zygote cannot remove itself. It imports no numpy and runs no code of a guest.
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
from typing import Any

from .fork import Forker
from .namespaces import NAMESPACES, Standing, id_range, ladder, usable, write_maps
from .zygote import zygote

REFUSED = 77
"""Exit status of a zygote whose namespaces turned out to be of no use."""


def try_namespaces(
    names: tuple[str, ...], control: socket.socket, settings: dict[str, Any], reasons: dict[str, str]
) -> tuple[int, str]:
    """Fork a zygote with those namespaces: (its pid, "") once it has them, or (0, why not)."""
    flags = 0
    for name in names:
        flags |= NAMESPACES[name]
    first, count = id_range()
    go_read, go_write = os.pipe()
    told_read, told_write = os.pipe()
    try:
        pid = Forker().fork(flags)
    except OSError as error:
        for fd in (go_read, go_write, told_read, told_write):
            os.close(fd)
        return 0, os.strerror(error.errno or 0)
    if pid == 0:
        os.close(go_write)
        os.close(told_read)
        if os.read(go_read, 1) != b"g":
            os._exit(REFUSED)
        try:
            usable(names)
        except OSError as error:
            os.write(told_write, str(error).encode())
            os._exit(REFUSED)
        os.write(told_write, b"ok")
        os.close(told_write)
        os.close(go_read)
        ids = (1, count) if "user_namespace" in names else (first, count)
        zygote(control, settings, Standing(names, ids[0] if count else 0, count, reasons))
        os._exit(0)
    os.close(go_read)
    os.close(told_write)
    try:
        if "user_namespace" in names:
            write_maps(pid, first, count)
        os.write(go_write, b"g")
        answer = os.read(told_read, 4096).decode(errors="replace")
    except OSError as error:
        answer = str(error)
    finally:
        os.close(go_write)
        os.close(told_read)
    if answer == "ok":
        return pid, ""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
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


def main() -> None:
    """Entry point of the launcher: `argv` is the control socket's descriptor and the settings as JSON."""
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.argv[2])
    host_pid = settings["host_pid"]
    host_fd = os.pidfd_open(host_pid)
    if os.getppid() != host_pid:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reasons: dict[str, str] = {}
    for rung in ladder(os.geteuid() == 0):
        names = tuple(name for name in rung if name not in settings["without"])
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
