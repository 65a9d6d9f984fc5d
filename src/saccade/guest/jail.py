"""Confine a session process, step by step, before it touches anything of a guest.

The steps are tried once in a throw-away process when the zygote starts; a step that cannot be had there is left out of
every session and reported with the reason. A step that was had there and fails later makes the session fail.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import privileges, seccomp
from .syscalls import syscall

# Landlock does not cover: looking at a file's metadata, entering a folder, reading a link, files opened before.

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_NEVER = EXECUTE | MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK | MAKE_FIFO | IOCTL_DEV
"""Handled and granted nowhere."""
_READ = READ_FILE | READ_DIR
_WRITE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | TRUNCATE
_FILE_RIGHTS = READ_FILE | WRITE_FILE | TRUNCATE
"""The rights that may be granted on something that is not a folder."""
_FS_SINCE = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}

_NET_ALL = 0b11
"""Binding and connecting TCP sockets."""
_SCOPE_ALL = 0b11
"""Connecting to abstract Unix sockets, and signalling processes, outside the domain."""

_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
_LOG_SAME_EXEC_OFF = 1

PathOrFd = str | int


def abi() -> int:
    """Return the kernel's Landlock version, 1 or more; 0 where there is none (or it is switched off)."""
    try:
        return syscall("landlock_create_ruleset", None, 0, _CREATE_VERSION)
    except OSError:
        return 0


def _create(version: int, rights: int) -> int:
    """Return a rule set that handles `rights` and every network right and scope of the version; its descriptor."""
    fields = [rights]
    if version >= 4:
        fields.append(_NET_ALL)
    if version >= 6:
        fields.append(_SCOPE_ALL)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return syscall("landlock_create_ruleset", attributes, len(attributes), 0)


def _grant(ruleset: int, where: PathOrFd, rights: int) -> None:
    """Allow `rights` on a path or an open folder and all beneath it; a path out of reach is left out."""
    if isinstance(where, int):
        _add_rule(ruleset, where, rights)
        return
    try:
        fd = os.open(where, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        # Beneath a closed folder nothing could be opened anyway.
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        _add_rule(ruleset, fd, rights)
    finally:
        os.close(fd)


def _add_rule(ruleset: int, fd: int, rights: int) -> None:
    if rights:
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)


def restrict(read_paths: Iterable[PathOrFd], write_paths: Iterable[PathOrFd], *, confine_files: bool) -> None:
    """Restrict this thread and all that it starts, for good.

    `read_paths` and `write_paths` are paths or open folder descriptors; each covers all beneath it. Writable ones are
    readable, too, and files may be moved between folders beneath one of them. Without `confine_files` reading and
    writing are left to the private root, and only `write_paths` matters: Landlock refuses every move between folders
    that is not granted. `/dev/null` stays writable.

    Needs no_new_privs. Raises OSError: ENOSYS or EOPNOTSUPP where the kernel has no Landlock, EPERM without
    no_new_privs. On Landlock 1 (before Linux 5.19) no file can be moved to another folder.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or it is switched off at boot")
    known = max(rights for since, rights in _FS_SINCE.items() if since <= version)
    handled = (known if confine_files else _NEVER | REFER) & known
    ruleset = _create(version, handled)
    try:
        if confine_files:
            for where in read_paths:
                _grant(ruleset, where, _READ & handled)
        for where in write_paths:
            _grant(ruleset, where, (_READ | _WRITE | REFER) & handled)
        _grant(ruleset, os.devnull, (_READ | _WRITE) & handled)
        flags = _LOG_SAME_EXEC_OFF if version >= 7 else 0
        syscall("landlock_restrict_self", ruleset, flags)
    finally:
        os.close(ruleset)


@dataclass(frozen=True)
class JailPlan:
    """How sessions are confined; made once by the zygote."""

    users: str
    """`range`: each session gets a user id of its own; `namespace`: a user namespace of its own; `none`."""
    limits: dict[str, Any]
    read_paths: tuple[str, ...]
    """Folders that may be read."""
    filter: bytes
    """The seccomp program."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Layer -> why it cannot be had on this machine."""

    @property
    def may_be_seen(self) -> bool:
        """Whether processes of the same user may look at a session, which the zygote has to, and has no other right to.

        Other sessions of that user cannot: Landlock keeps them from everything that is not of their own family.
        """
        return self.users == "none" and "landlock" not in self.left_out


def steps(plan: JailPlan, uid: int, writable: Iterable[PathOrFd]) -> list[tuple[str, Callable[[], object]]]:
    """List (layer, what to do) in the order to do it; `writable` are folders of the session's workspaces."""
    users: dict[str, Callable[[], object]] = {
        "range": lambda: privileges.become_user(uid, uid),
        "namespace": privileges.own_user_namespace,
    }
    made = [
        ("session_user", users.get(plan.users, _no_user)),
        ("rlimits", lambda: privileges.set_limits(plan.limits)),
        ("capabilities", privileges.drop_capabilities),
        ("no_new_privs", privileges.no_new_privs),
        ("landlock", lambda: restrict(plan.read_paths, writable, confine_files=True)),
        ("seccomp", lambda: seccomp.install(plan.filter)),
    ]
    return [(layer, step) for layer, step in made if layer not in plan.left_out]


def enter(plan: JailPlan, uid: int, writable: Iterable[PathOrFd]) -> None:
    """Confine this process for good. Raises OSError if a step fails."""
    if not plan.may_be_seen:
        privileges.set_dumpable(0)
    for _layer, step in steps(plan, uid, writable):
        step()


def rehearse(plan: JailPlan, uid: int, family: str, fork: Callable[[], int]) -> dict[str, str]:
    """Try every step in a child: layer -> "" if it holds, or the reason why it cannot be had."""
    read_end, write_end = os.pipe()
    pid = fork()
    if pid == 0:
        outcomes = {}
        for layer, step in steps(plan, uid, [family]):
            try:
                step()
                outcomes[layer] = ""
            except Exception as error:
                outcomes[layer] = f"{type(error).__name__}: {error}"
        os.write(write_end, json.dumps(outcomes).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        body = pipe.read()
    os.waitpid(pid, 0)
    outcomes = json.loads(body) if body else {}
    return {layer: outcomes.get(layer, "the rehearsal died before it") for layer, _step in steps(plan, uid, [family])}


def _no_user() -> None:
    raise OSError("this process may not hand out user ids nor make user namespaces")
