"""Making of sessions: what the zygote prepares once, what it hands out, and what a fresh process does first."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import platform
import signal
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import adapt, folders, inspection, privileges, seccomp, session, wire
from .compact import fill_gaps, merge_mappings, use_large_pages
from .fork import Forker, NextStep
from .jail import JailPlan, enter, rehearse
from .preload import add_cjk_font, fix_machine, warm_up
from .root import NAMESPACES, WORKSPACE, Standing, build_private_root, plan_root
from .wire import FAMILY_SESSIONS, GuestConfig
from .workspaces import Places, PlainWorkspaces, fill_stock, stocked

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/usr/share/zoneinfo"),
    *("/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/fontconfig", "/usr/share/matplotlib", "/etc/fonts"),
    *("/etc/alternatives", "/etc/localtime", "/etc/timezone", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    "/etc/ld.so.conf.d",
)
_WIDE_NAMES = (
    "/ /bin /boot /dev /etc /home /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /usr/local /usr/share "
    "/var /var/lib /var/tmp /dev/shm"
)
_TOO_WIDE = frozenset(_WIDE_NAMES.split())


def too_wide(path: str) -> bool:
    """Tell whether a folder is never to be shown whole: a system folder, a home folder, or one that holds one."""
    real = os.path.realpath(path)
    home = os.path.realpath(os.path.expanduser("~"))
    return real in _TOO_WIDE or home == real or home.startswith(real + "/") or os.path.dirname(real) == "/home"


def interpreter_paths() -> list[str]:
    """List the folders and files that this interpreter and its loaded libraries read; none in another.

    Paths are absolute, exist, and may lead through symbolic links. No folder is among them that holds a person's files
    as a whole. Call it after the libraries of sessions were imported: unusual places are found among those loaded.
    """
    kept = [path for path in (*_SYSTEM, *_python_folders()) if not too_wide(path) and os.path.exists(path)]
    covered = [os.path.realpath(path) for path in kept]
    for library in _loaded_libraries():
        if not any(_beneath(library, path) for path in covered):
            folder = os.path.dirname(library)
            kept.append(library if too_wide(folder) else folder)
            covered.append(kept[-1])
    result: list[str] = []
    for path in sorted(set(kept)):
        if not any(_beneath(path, other) for other in result):
            result.append(path)
    return result


def _python_folders() -> list[str]:
    """Return standard library, site-packages and the library folders of the prefixes."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix):
        folders += [os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")]
    folders += [
        path
        for path in sys.path
        if os.path.isabs(path) and os.path.basename(path) in ("site-packages", "dist-packages", "lib-dynload")
    ]
    return folders


def _loaded_libraries() -> list[str]:
    """Return real paths of the shared objects mapped into this process."""
    libraries = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            # address, permissions, offset, device, inode, path
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                libraries.add(fields[5])
    executable = os.path.realpath(sys.executable)
    return sorted(path for path in libraries if path != executable and os.path.exists(path))


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


PLAIN_WORKSPACE = f"/proc/self/fd/{wire.WORKSPACE_FD}"
"""Path of the workspace without a private root; the same for every session and branch."""
LIMITS_OF_CONFIG = (
    *("output_bytes", "pictures", "picture_pixels", "total_pixels"),
    *("file_bytes", "workspace_bytes", "workspace_files"),
)
LIMITS_OF_KERNEL = ("cpu_seconds", "memory_bytes", "open_files", "file_bytes")
FAMILY_PROCESSES = 3 * FAMILY_SESSIONS
"""Processes that the kernel allows beyond `processes`: it counts a session and its branches, three each, together."""
ANY_PROCESSES = 1 << 22
"""The same where control groups count the processes of each session: more than the kernel has ids for."""
LAST_RESERVED_PID = 300
"""The kernel itself begins anew behind it; beneath are the zygote and what it has started."""
_LIBRARIES = ("numpy", "PIL", "matplotlib", "cv2")


@dataclass
class SessionEntry:
    """Processes and folders of a session; a process id here is also the id of its process group."""

    id: int
    uid: int
    family: str
    """Folder that holds the workspaces of this session and of the sessions it shares memory with."""
    workspace: str
    base: str
    """Folder that holds the workspaces of all sessions."""
    socket: int
    """Inode number of the session's socket."""
    memory: frozenset[int]
    """Inode numbers of the memory that session and host share."""
    keeper: int = 0
    leaf: int | None = None
    calling: bool = False
    """Whether the leaf runs a call, and the host waits to hear how it stands at its end."""
    late: bool = False
    """Whether the keeper, while it got ready, has stopped itself, which it should have done before."""
    former: int = 0
    """The keeper before the present one, to be killed as soon as that gets ready; 0 if it is."""
    inspected: inspection.Inspected | None = None
    rolling: bool = False
    """A rollback was ordered and the leaf has not ended yet."""
    dying: bool = False
    """The leaf has ended, and what it had started has not yet."""
    closing: bool = False
    maps: list[inspection.Map] = field(default_factory=list)
    """Shared mappings of files of the workspace when the last kept call ended, with paths relative to it."""
    known: inspection.Known = field(default_factory=dict)
    fault: str = ""
    """Why the zygote itself has ended the session; empty if it has not."""

    @property
    def own(self) -> inspection.Belongings:
        """What the session's processes may hold."""
        return inspection.Belongings(self.workspace, self.base, self.socket, self.memory)


class Nursery:
    """Gives sessions their user id and workspace. Part of the zygote's books: no session process has ever seen it."""

    def __init__(self, plan: JailPlan, standing: Standing, limits: dict[str, Any], places: Places, sees: bool) -> None:
        self.plan = plan
        self.limits = limits
        self.places = places
        self.sees = sees
        """Whether this process may look at what sessions hold open."""
        self.last_pid: int | None = None
        """Descriptor of the file that holds the last number of a process in our own PID namespace."""
        self._uids = itertools.cycle(range(standing.first_uid, standing.first_uid + max(standing.uids, 1)))
        self._uids_in_use: Counter[int] = Counter()

    def number_anew(self) -> None:
        """Have the kernel number processes from the first free number on, so that a number does not count forks."""
        if self.last_pid is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self.last_pid, b"%d" % LAST_RESERVED_PID, 0)

    def new_entry(self, session_id: int, fds: list[int]) -> tuple[SessionEntry, int]:
        """Return the entry of a new family, and its workspace's descriptor. `fds`: socket, outbox, stdout, stderr."""
        uid = next(self._uids)
        while self._uids_in_use[uid] and self.plan.users == "range":
            uid = next(self._uids)
        family = self.places.new_family()
        fd, path = self._make(family, uid)
        self._uids_in_use[uid] += 1
        sock, *memory = (os.fstat(given).st_ino for given in fds[:4])
        return SessionEntry(session_id, uid, family, path, self.places.base, sock, frozenset(memory)), fd

    def new_workspace(self, entry: SessionEntry) -> tuple[int, str]:
        """Return the descriptor and path of one more workspace in the family of `entry`."""
        return self._make(entry.family, entry.uid)

    def branch_entry(self, message: dict[str, Any], parent: SessionEntry) -> SessionEntry:
        """Return the entry of a branch of `parent`, as the order to adopt it says."""
        self._uids_in_use[parent.uid] += 1
        own = (message["socket"], frozenset(message["memory"]))
        return SessionEntry(message["branch"], parent.uid, parent.family, message["path"], parent.base, *own)

    def move_workspace(self, entry: SessionEntry) -> None:
        """Give the workspace of `entry` another path, which nobody has seen."""
        entry.workspace = self.places.move(entry.workspace)

    def release(self, entry: SessionEntry) -> None:
        """Give back what a session had."""
        self.places.release(entry.workspace)
        self._uids_in_use[entry.uid] -= 1

    def stock(self, entry: SessionEntry) -> list[int]:
        """Return the descriptor of the folder of the family's spare workspaces, if there is one."""
        fd = self.places.stock(entry.family)
        return [] if fd is None else [fd]

    def setup(self, entry: SessionEntry, options: dict[str, Any]) -> bytes:
        """Return what a fresh process must know to become the keeper of `entry`, for `become_session`."""
        values = {name: self.limits[name] for name in LIMITS_OF_CONFIG}
        values |= {name: options[name] for name in ("repairs", "path_aliases", "preload", "last_expression")}
        return json.dumps({"uid": entry.uid, "family": entry.family, "config": values}).encode()

    def _make(self, family: str, uid: int) -> tuple[int, str]:
        owner = uid if self.plan.users == "range" and "session_user" not in self.plan.left_out else os.geteuid()
        return self.places.make(family, self.limits["workspace_bytes"], self.limits["workspace_files"], owner)


def become_session(plan: JailPlan, forker: Forker, workspace: str, zygote: int, fds: list[int]) -> NextStep:
    """Turn a fresh fork of the template into the keeper of a session; what it does next.

    `zygote` is the process id of its parent. `fds`: socket, outbox, stdout, stderr, folder of the workspace, the memfd
    that `Nursery.setup` was written to, and the folder of spare workspaces if there is one.
    """
    try:
        privileges.die_with_parent(zygote)
        setup = json.loads(os.pread(fds[5], os.fstat(fds[5]).st_size, 0))
        stock = take_descriptors(fds[:5], *fds[6:])
        privileges.oom_first()
        if stock is None:
            enter(plan, setup["uid"], [setup["family"]])
        else:
            fill_stock(stock)
            enter(plan, setup["uid"], itertools.chain([wire.WORKSPACE_FD], stocked(stock)))
            os.close(stock)
        privileges.die_with_parent(zygote)  # again, since it is another user now
        config = GuestConfig(**setup["config"], workspace=workspace)
        return functools.partial(session.keep, session.new_interpreter(config, forker))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(wire.SOCKET_FD, json.dumps({"op": "failed", "error": f"{error!r}"[:500]}).encode())
        os._exit(1)


def take_descriptors(fds: list[int], stock: int | None = None) -> int | None:
    """Move the session's descriptors to their numbers, close all others, enter the workspace; `stock`'s number now."""
    sock, outbox, stdout, stderr, workspace = fds
    # Not one for all sessions: the flags of an open file are seen by everyone who has it.
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    moves = {0: null, 1: stdout, 2: stderr, wire.WORKSPACE_FD: workspace, wire.SOCKET_FD: sock}
    moves |= {wire.OUTBOX_FD: outbox, wire.STDOUT_FD: stdout, wire.STDERR_FD: stderr}
    if stock is not None:
        moves[wire.FIRST_FREE_FD] = stock
    for target, source in moves.items():
        os.dup2(source, target, inheritable=False)
    os.closerange(3, wire.WORKSPACE_FD)
    os.closerange(wire.FIRST_FREE_FD + (stock is not None), os.sysconf("SC_OPEN_MAX"))
    os.fchdir(wire.WORKSPACE_FD)
    os.umask(0o077)
    return None if stock is None else wire.FIRST_FREE_FD


def prepare(
    settings: dict[str, Any], standing: Standing, forker: Forker
) -> tuple[Nursery, dict[str, Any], Callable[[list[int]], NextStep]]:
    """Import, build the private root, try the jail; the nursery, what the host is told, and what makes a session."""
    privileges.die_with_parent(os.getppid())
    for module in settings["modules"]:
        importlib.import_module(module)
    warm_up()  # last, since it leaves the random states seeded
    adapt.install()
    # The folder that holds this package must not be importable for a guest.
    sys.path[:] = [entry for entry in sys.path if entry and not os.path.isdir(os.path.join(entry, "guest"))]
    sys.argv[:] = [""]
    readable = interpreter_paths()
    private = "mount_namespace" in standing.namespaces
    last_pid = open_last_pid() if "pid_namespace" in standing.namespaces else None
    places: Places
    if private:
        places = build_private_root(plan_root(readable, wire.WORKSPACE_FD))
        # /proc and the workspaces of others are reached by no session.
        readable = [
            f"/{name}" for name in os.listdir("/") if name not in ("proc", "w") and not os.path.islink(f"/{name}")
        ]
    else:
        places = PlainWorkspaces(settings["folder"])
    os.environ["HOME"] = os.environ["TMPDIR"] = WORKSPACE if private else PLAIN_WORKSPACE
    folders.install(os.environ["HOME"])
    fix_machine()
    privileges.limit_capabilities()
    left_out = dict.fromkeys(settings["without"], "left out on purpose")
    if standing.uids and not private and not _readable_for(standing.first_uid, readable, forker):
        left_out["session_user"] = "the interpreter lies in a folder that only the current user may enter"
    plan = _plan(settings, standing, tuple(readable), left_out)
    room = (settings["limits"]["workspace_bytes"], settings["limits"]["workspace_files"])
    outcomes = _rehearsed(plan, standing, places, room, forker)
    left_out |= {layer: why for layer, why in outcomes.items() if why}
    sees, blind = _sight(plan, standing, forker)
    outcomes["inspection"] = blind
    nursery = Nursery(plan, standing, settings["limits"], places, sees)
    nursery.last_pid = last_pid
    become = functools.partial(become_session, plan, forker, WORKSPACE if private else PLAIN_WORKSPACE, os.getpid())
    session.forget_fonts()
    gc.collect()
    fill_gaps()
    gc.freeze()
    merge_mappings()
    use_large_pages()
    return nursery, {"layers": _layers(standing, outcomes, left_out, private), "versions": versions()}, become


def open_last_pid() -> int | None:
    """Open the file, if this process may; to be done while /proc is still that of the machine."""
    try:
        return os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _plan(
    settings: dict[str, Any], standing: Standing, readable: tuple[str, ...], left_out: dict[str, str]
) -> JailPlan:
    users = "range" if standing.uids else "namespace" if "user_namespace" in standing.namespaces else "none"
    limits = {name: settings["limits"][name] for name in LIMITS_OF_KERNEL}
    kin = ANY_PROCESSES if settings["leftover_cgroups"] else FAMILY_PROCESSES
    limits["processes"] = settings["limits"]["processes"] + kin
    return JailPlan(users, limits, readable, seccomp.build_filter(platform.machine()), left_out)


def _readable_for(uid: int, paths: list[str], forker: Forker) -> bool:
    """Return whether user `uid` may read every one of `paths`."""
    pid = forker.fork()
    if pid == 0:
        try:
            privileges.become_user(uid, uid)
            os._exit(0 if all(os.access(path, os.R_OK) for path in paths) else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _sight(plan: JailPlan, standing: Standing, forker: Forker) -> tuple[bool, str]:
    """Return whether this process sees what a session holds open, and if not, why."""
    if "inspection" in plan.left_out:
        return False, plan.left_out["inspection"]
    ready, open_until_ready = os.pipe()
    pid = forker.fork()
    if pid == 0:
        try:
            if plan.users == "range" and "session_user" not in plan.left_out:
                privileges.become_user(standing.first_uid, standing.first_uid)
            if not plan.may_be_seen:
                privileges.set_dumpable(0)
            os.close(open_until_ready)
            signal.pause()
        finally:
            os._exit(1)
    os.close(open_until_ready)
    # Until it has given its rights up, everybody may look at it.
    os.read(ready, 1)
    os.close(ready)
    sees = inspection.visible(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return sees, "" if sees else "this process may not look at its own processes without a user namespace or Landlock"


def _rehearsed(
    plan: JailPlan, standing: Standing, places: Places, room: tuple[int, int], forker: Forker
) -> dict[str, str]:
    """Return layer -> "" or why it cannot be had, tried in a child with a workspace of its own."""
    fd, path = places.make(places.new_family(), *room, standing.first_uid)
    try:
        return rehearse(plan, standing.first_uid, os.path.dirname(path), forker.fork)
    finally:
        os.close(fd)
        places.release(path)


def _layers(
    standing: Standing, outcomes: dict[str, str], left_out: dict[str, str], private: bool
) -> list[dict[str, Any]]:
    layers: dict[str, tuple[bool, str]] = {}
    for name in NAMESPACES:
        on = name in standing.namespaces
        layers[name] = (on, standing.reasons.get(name, "" if on else left_out.get(name, "")))
    layers["workspace"] = (private, "" if private else "a folder without a size cap: a private root cannot be had")
    for layer, why in outcomes.items():
        layers[layer] = (not why, why)
    for layer, why in left_out.items():
        layers.setdefault(layer, (False, why))
    return [{"layer": name, "on": on, "detail": detail} for name, (on, detail) in layers.items()]


def versions() -> dict[str, str]:
    """Tell versions of the interpreter and of the libraries here, and the font of letters that most fonts lack."""
    texts = {"python": platform.python_version()}
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        if module is not None:
            texts[name] = str(getattr(module, "__version__", "?"))
    texts["CJK font"] = add_cjk_font() or (
        "none: such letters are empty boxes in figures; to have one: apt install fonts-noto-cjk"
    )
    return texts
