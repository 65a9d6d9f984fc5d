"""The kernel's mount calls (`fsopen`, `open_tree`, `move_mount`, `mount_setattr`), each as one small function.

Needs Linux 5.12 and CAP_SYS_ADMIN over the calling process's mount namespace. Mounts are made detached, as
descriptors, and appear in the tree only when attached; closing the descriptor of one never attached removes it.
Every function raises OSError as the kernel does.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from .syscalls import syscall

RDONLY, NOSUID, NODEV, NOEXEC, NOATIME = 0x1, 0x2, 0x4, 0x8, 0x10
"""Attributes of a mount."""

_AT_FDCWD = -100
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_CLOEXEC = 1
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_EMPTY_PATH = 0x4
_FSCONFIG_SET_STRING, _FSCONFIG_CREATE = 1, 6
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def make_private() -> None:
    """Let no mount made here appear in another namespace, nor the other way round."""
    syscall("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def new_mount(filesystem: str, options: Mapping[str, str], attributes: int) -> int:
    """A new, detached mount of `filesystem` (say "tmpfs"); its descriptor."""
    context = syscall("fsopen", filesystem.encode(), _CLOEXEC)
    try:
        for key, value in options.items():
            syscall("fsconfig", context, _FSCONFIG_SET_STRING, key.encode(), value.encode(), 0)
        syscall("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
        return syscall("fsmount", context, _CLOEXEC, attributes)
    finally:
        os.close(context)


def clone_tree(path: str) -> int:
    """A detached copy of what is mounted at `path` and beneath (a bind mount); its descriptor."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    return syscall("open_tree", _AT_FDCWD, os.fsencode(path), flags)


def set_attributes(where: int | str, attributes: int, *, recursive: bool = False) -> None:
    """Add attributes to a mount, named by descriptor or path, and to those beneath it if `recursive`."""
    fd, path = (where, b"") if isinstance(where, int) else (_AT_FDCWD, os.fsencode(where))
    flags = (0 if path else _AT_EMPTY_PATH) | (_AT_RECURSIVE if recursive else 0)
    # struct mount_attr: attributes to set, to clear, propagation, user namespace.
    request = struct.pack("=4Q", attributes, 0, 0, 0)
    syscall("mount_setattr", fd, path, flags, request, len(request))


def attach(mount: int, path: str) -> None:
    """Attach a detached mount at an existing file or folder."""
    syscall("move_mount", mount, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_EMPTY_PATH)


def move(path: str, to: str) -> None:
    """Attach what is mounted at `path` at another existing folder instead."""
    syscall("move_mount", _AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(to), 0)


def detach(path: str) -> None:
    """Take a mount out of the tree at once; it is freed when nothing uses it any more."""
    syscall("umount2", os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW)


def enter_root() -> None:
    """Make the current folder (the root of a mount) the root of this mount namespace, and drop the old root."""
    syscall("pivot_root", b".", b".")
    # The old root now lies on top of the new one, at the current folder.
    syscall("umount2", b".", _MNT_DETACH)
    os.chdir("/")
