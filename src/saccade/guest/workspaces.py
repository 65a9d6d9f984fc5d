"""Writable folders of sessions: one tmpfs each where mounts can be had, plain folders where they cannot.

    <base>/<family>/<workspace>

A family is the folder of a session and of the branches made from it. Names are 128-bit random numbers, and the
folders above a workspace cannot be listed nor written. `Workspaces` caps size and number of files; `PlainWorkspaces`
cannot, and keeps sessions of the same user apart by nothing but names that are hard to guess: Landlock has to do it
there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import struct
from collections.abc import Iterator, Mapping

from .folders import empty_folder
from .syscalls import syscall
from .wire import FAMILY_SESSIONS

# The kernel's mount calls. They need Linux 5.12 and CAP_SYS_ADMIN over the calling process's mount namespace, and raise
# OSError as the kernel does. Mounts are made detached, as descriptors, and appear in the tree only when attached;
# closing the descriptor of one never attached removes it.

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
    """Return a new, detached mount of `filesystem` (say "tmpfs"); its descriptor."""
    context = syscall("fsopen", filesystem.encode(), _CLOEXEC)
    try:
        for key, value in options.items():
            syscall("fsconfig", context, _FSCONFIG_SET_STRING, key.encode(), value.encode(), 0)
        syscall("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
        return syscall("fsmount", context, _CLOEXEC, attributes)
    finally:
        os.close(context)


def clone_tree(path: str) -> int:
    """Return a detached copy of what is mounted at `path` and beneath (a bind mount); its descriptor."""
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
    # The old root now is on top of the new one, at the current folder.
    syscall("umount2", b".", _MNT_DETACH)
    os.chdir("/")


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FAMILIES_AT_ONCE = 256
_MOUNTS_AHEAD, _NEIGHBOURS = 24, 2


def _token() -> str:
    return secrets.token_hex(16)


class Workspaces:
    """Workspaces that are mounts, in a folder whose visible mount is read-only.

    Only the holder of `handle`, a descriptor of a writable mount of the same folder, can make folders in it. Folders of
    families are made in advance and used again, and so are mounts, drawn at random: every session can see how many
    there are, and shall not learn from it how many other sessions there are, and when one was opened.
    """

    def __init__(self, handle: int, base: str) -> None:
        self._handle = handle
        self.base = base
        self._free: list[str] = []
        self._used: dict[str, set[str]] = {}
        """Family -> its workspaces, both as paths."""
        self._mounts: list[list[int]] = []
        """Mounts that nobody has had, neighbours together. All are of one size."""
        self._set_aside: dict[str, list[int]] = {}
        """Family -> mounts for its next branches."""
        self._make_families()

    def _make_families(self) -> None:
        for _ in range(_FAMILIES_AT_ONCE):
            name = _token()
            os.mkdir(name, 0o111, dir_fd=self._handle)
            self._free.append(f"{self.base}/{name}")

    def new_family(self) -> str:
        """Make an empty family, the folder of workspaces that may see each other; its path."""
        if not self._free:
            self._make_families()
        path = self._free.pop()
        self._used[path], self._set_aside[path] = set(), []
        return path

    def _new_mount(self, family: str, size_bytes: int, inodes: int) -> int:
        """Return a mount that nobody has had; of a number next to one of the family's, where there is such a one."""
        there = self._set_aside[family]
        if not there:
            while len(self._mounts) < _MOUNTS_AHEAD:
                # One inode is the workspace's own folder.
                options = {"size": str(size_bytes), "nr_inodes": str(inodes + 1), "mode": "0700"}
                attributes = NOSUID | NODEV | NOEXEC | NOATIME
                self._mounts.append([new_mount("tmpfs", options, attributes) for _ in range(_NEIGHBOURS)])
            there += self._mounts.pop(secrets.randbelow(len(self._mounts)))
        mount = there.pop()
        if there and len(self._used) > _FAMILIES_AT_ONCE:  # each is an open file
            self._mounts.append([there.pop()])
        return mount

    def holds_any(self, path: str) -> bool:
        """Return whether there is any file or folder in a workspace, one without a name included."""
        there = os.statvfs(path)
        return there.f_files - there.f_ffree > 1

    def stock(self, family: str) -> int | None:
        """Open the folder of a family's spare workspaces, in which only `fill_stock` makes any; None if it has none."""
        return None

    def make(self, family: str, size_bytes: int, inodes: int, uid: int) -> tuple[int, str]:
        """Make an empty workspace in a family, owned by `uid`, for `size_bytes` and `inodes` files and folders.

        Returns a descriptor of the folder, which the caller owns, and its path. Raises OSError.
        """
        path, mount = f"{family}/{_token()}", self._new_mount(family, size_bytes, inodes)
        try:
            self._used[family].add(path)
            os.mkdir(self._inside(path), 0o111, dir_fd=self._handle)
            attach(mount, path)
            folder = os.open(".", _FOLDER, dir_fd=mount)
            os.fchown(folder, uid, uid)
            os.utime(folder)
            return folder, path
        except OSError:
            self.release(path)
            raise
        finally:
            os.close(mount)

    def move(self, path: str) -> str:
        """Give a workspace a new name in its family; its new path. What is open in it stays open."""
        family = os.path.dirname(path)
        moved = f"{family}/{_token()}"
        os.mkdir(self._inside(moved), 0o111, dir_fd=self._handle)
        self._used[family].add(moved)
        move(path, moved)
        os.rmdir(self._inside(path), dir_fd=self._handle)
        self._used[family].discard(path)
        return moved

    def release(self, path: str) -> None:
        """Unmount a workspace (its memory is freed when no process uses it) and remove its folder."""
        inside, family = self._inside(path), os.path.dirname(path)
        with contextlib.suppress(OSError):
            # EINVAL: not a mount (any more); ENOENT: gone.
            detach(path)
        try:
            os.rmdir(inside, dir_fd=self._handle)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EBUSY):
                raise
        left = self._used.get(family, set())
        if path in left:
            left.discard(path)
            if not left:
                del self._used[family]
                if rest := self._set_aside.pop(family):
                    self._mounts.append(rest)
                self._free.append(family)

    def _inside(self, path: str) -> str:
        """Return a path of ours relative to the base."""
        return _relative(path, self.base)


class PlainWorkspaces:
    """Workspaces that are folders beneath a folder of the host; `base` must exist and belong to this process.

    <base>/<family>/<workspace>    what sessions see
    <base>/<spare>/<number>        folders of a family that no session uses, whose place no session knows

    Where sessions are of this process's own user, only Landlock keeps them from the folder of their family, and its
    rules, made once for all branches to come, are about folders that are there: so each family has a stock of them.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self._spare: dict[str, tuple[str, list[int]]] = {}
        """Family -> folder of its stock, and the numbers that are there."""
        self._numbers: dict[str, int] = {}
        self._pool: list[str] = []
        """Stocks of families that are gone."""
        # Sessions of another user must get through, and see nothing.
        os.chmod(base, 0o711)

    def new_family(self) -> str:
        path, stock = self._folder(), self._pool.pop() if self._pool else self._folder()
        self._spare[path] = stock, list(range(FAMILY_SESSIONS))
        return path

    def _unlock(self, family: str) -> None:
        """Open the folders above a workspace, which a session of our own user may have closed: Landlock lets it."""
        for path in (self.base, family):
            os.chmod(path, 0o711)

    def _folder(self) -> str:
        path = f"{self.base}/{_token()}"
        os.mkdir(path)
        os.chmod(path, 0o711)
        return path

    def holds_any(self, path: str) -> bool:
        return True  # or perhaps not: the disk is not its own

    def stock(self, family: str) -> int:
        return os.open(self._spare[family][0], _FOLDER)

    def make(self, family: str, size_bytes: int, inodes: int, uid: int) -> tuple[int, str]:
        """Return a folder; the caps are not enforced here (only the limits per file and process hold)."""
        self._unlock(family)
        path, (stock, numbers) = f"{family}/{_token()}", self._spare[family]
        if not numbers:
            raise OSError(errno.EMLINK, f"at most {FAMILY_SESSIONS} sessions of one origin can be without mounts")
        number = numbers.pop()
        try:
            os.rename(f"{stock}/{number}", path)
        except FileNotFoundError:
            os.mkdir(path, 0o700)  # the first: its session is still to fill the stock
        self._numbers[path] = number
        if os.geteuid() == 0:
            os.chown(path, uid, uid)
        return os.open(path, _FOLDER | os.O_NOFOLLOW), path

    def move(self, path: str) -> str:
        self._unlock(os.path.dirname(path))
        moved = f"{os.path.dirname(path)}/{_token()}"
        os.rename(path, moved)
        self._numbers[moved] = self._numbers.pop(path)
        return moved

    def release(self, path: str) -> None:
        """Empty a workspace, following no link, and put it back into the stock; its processes must have ended."""
        family, number = os.path.dirname(path), self._numbers.pop(path, None)
        _relative(path, self.base)
        if number is None:
            return
        self._unlock(family)
        os.chmod(path, 0o700)
        folder = os.open(path, _FOLDER | os.O_NOFOLLOW)
        try:
            empty_folder(folder)
        finally:
            os.close(folder)
        stock, numbers = self._spare[family]
        os.rename(path, f"{stock}/{number}")
        numbers.append(number)
        with contextlib.suppress(OSError):
            # Not empty: a branch of the family lives.
            os.rmdir(family)
            self._pool.append(self._spare.pop(family)[0])


def fill_stock(stock: int) -> None:
    """Make those of a family's folders that are missing, as a session does before it gives up its rights."""
    for number in range(FAMILY_SESSIONS):
        with contextlib.suppress(FileExistsError):
            os.mkdir(str(number), 0o700, dir_fd=stock)


def stocked(stock: int) -> Iterator[int]:
    """Descriptors of a family's spare folders, one open at a time."""
    for number in range(FAMILY_SESSIONS):
        with contextlib.suppress(FileNotFoundError):  # the session's own, which was taken from here
            fd = os.open(str(number), os.O_PATH | _FOLDER, dir_fd=stock)
            try:
                yield fd
            finally:
                os.close(fd)


def _relative(path: str, base: str) -> str:
    """Return `path` relative to `base`; ValueError unless it is exactly family and workspace."""
    inside = path.removeprefix(f"{base}/")
    if inside == path or inside.count("/") != 1 or {"", ".", ".."} & {*inside.split("/")}:
        raise ValueError(f"{path} is no workspace of {base}")
    return inside


Places = Workspaces | PlainWorkspaces
