"""Walk a tree of folders that a hostile program made: any depth, one open descriptor, no symlink followed.

A path may be longer than the kernel takes and a folder may be unreadable, so a `Cursor` moves one step at a time and
lends itself the rights it needs (the mode is put back when it leaves). Not promised: a sound walk while another
process renames folders; that is noticed and raises OSError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from os import (
    O_CLOEXEC,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_PATH,
    O_RDONLY,
    chmod,
    close,
    fchmod,
    fstat,
    rmdir,
    scandir,
    stat,
    unlink,
)
from os import open as open_fd
from stat import S_IMODE, S_ISDIR
from typing import Any

from .wire import WORKSPACE_FD

_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
READ = 0o500
"""Rights to list a folder and to reach what is in it."""
CHANGE = 0o700
"""Rights to add and remove names besides."""


class Cursor:
    """A place in the tree. `fd` is the folder it stands in, `path` the way there ("" at the top, else "a/b/")."""

    def __init__(self, top: int, need: int = READ) -> None:
        self.need = need
        self.path = ""
        self.put_back: int | None = None
        """Mode that the present folder gets when the cursor leaves it, or None to leave it alone."""
        self._above: list[tuple[str, str, tuple[int, int], int | None]] = []
        try:
            self.fd = open_fd(".", _FOLDER, dir_fd=top)
        except PermissionError:
            mode = S_IMODE(fstat(top).st_mode)
            fchmod(top, mode | CHANGE)
            self.fd = open_fd(".", _FOLDER, dir_fd=top)
            self.put_back = mode

    def down(self, name: str, mode: int) -> None:
        """Enter folder `name`, whose mode is `mode`."""
        lent = mode & self.need != self.need
        if lent:
            chmod(name, mode | self.need, dir_fd=self.fd)
        inner = open_fd(name, _FOLDER, dir_fd=self.fd)
        self._above.append((name, self.path, _identity(self.fd), self.put_back))
        close(self.fd)
        self.fd = inner
        self.path += name + "/"
        self.put_back = mode if lent else None

    def up(self) -> str:
        """Go back to the folder above; the name of the one that was left."""
        name, path, identity, put_back = self._above.pop()
        above = open_fd("..", _FOLDER, dir_fd=self.fd)
        if self.put_back is not None:
            fchmod(self.fd, self.put_back)
        close(self.fd)
        self.fd, self.path, self.put_back = above, path, put_back
        if _identity(above) != identity:
            raise OSError(f"folder {name!r} was moved while the workspace was read")
        return name

    def close(self) -> None:
        """Give the descriptor back."""
        if self.put_back is not None and not self._above:
            fchmod(self.fd, self.put_back)
        close(self.fd)


Folders = Iterable[tuple[str, int]]
"""Names of folders, each with its mode."""


def walk(
    top: int,
    enter: Callable[[Cursor], Folders],
    leave: Callable[[Cursor, str], None] | None = None,
    need: int = READ,
) -> None:
    """Call `enter`, which names folders to go into, from `top` down, and `leave` above with each that is done."""
    cursor = Cursor(top, need)
    try:
        stack = [iter(enter(cursor))]
        while stack:
            inner = next(stack[-1], None)
            if inner is not None:
                cursor.down(*inner)
                stack.append(iter(enter(cursor)))
                continue
            stack.pop()
            if stack:
                name = cursor.up()
                if leave is not None:
                    leave(cursor, name)
    finally:
        cursor.close()


def open_anyhow(top: int, path: str, flags: int) -> int:
    """Return a descriptor of `path` below `top`, whatever rights are lacking; modes are put back. Raises OSError."""
    try:
        return open_fd(path, flags | O_CLOEXEC, dir_fd=top)
    except PermissionError:
        pass
    *folders, name = path.split("/")
    cursor = Cursor(top)
    try:
        for folder in folders:
            cursor.down(folder, _mode(cursor.fd, folder))
        if flags & O_PATH:  # takes no rights to the file itself, which may be a symlink
            return open_fd(name, flags | O_CLOEXEC, dir_fd=cursor.fd)
        mode = _mode(cursor.fd, name)
        chmod(name, mode | 0o600, dir_fd=cursor.fd)
        try:
            return open_fd(name, flags | O_CLOEXEC, dir_fd=cursor.fd)
        finally:
            chmod(name, mode, dir_fd=cursor.fd)
    finally:
        while cursor.path:
            cursor.up()
        cursor.close()


def enter_anyhow(top: int, path: str) -> None:
    """Make the folder `path` below `top` ("" for that itself) the current one, whatever rights it lacks."""
    fd = open_anyhow(top, path, O_PATH | O_DIRECTORY) if path else os.dup(top)
    try:
        os.fchdir(fd)
    except PermissionError:
        itself = f"/proc/self/fd/{fd}"
        mode = S_IMODE(fstat(fd).st_mode)
        chmod(itself, mode | READ)
        try:
            os.fchdir(fd)
        finally:
            chmod(itself, mode)
    finally:
        close(fd)


def _mode(folder: int, name: str) -> int:
    return S_IMODE(stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def remove_folder(parent: int, name: str, mode: int) -> None:
    """Remove folder `name` of folder `parent` with all that is in it."""
    if mode & CHANGE != CHANGE:
        chmod(name, mode | CHANGE, dir_fd=parent)
    folder = open_fd(name, _FOLDER, dir_fd=parent)
    try:
        empty_folder(folder)
    finally:
        close(folder)
    rmdir(name, dir_fd=parent)


def empty_folder(folder: int) -> None:
    """Remove all that is in a folder."""
    walk(folder, _remove_files, lambda cursor, name: rmdir(name, dir_fd=cursor.fd), CHANGE)


def _remove_files(cursor: Cursor) -> Folders:
    folders = []
    with scandir(cursor.fd) as items:
        for item in items:
            mode = item.stat(follow_symlinks=False).st_mode
            if S_ISDIR(mode):
                folders.append((item.name, S_IMODE(mode)))
            else:
                unlink(item.name, dir_fd=cursor.fd)
    return folders


def _identity(fd: int) -> tuple[int, int]:
    stat = fstat(fd)
    return stat.st_dev, stat.st_ino


# A session's folder has a random name, and a branch has another folder than its origin. Programs see `/workspace` (a
# link) instead, so that what they print and what they keep in variables stays true in every session and branch.
_LINK = f"/proc/self/fd/{WORKSPACE_FD}"


def inside() -> str | None:
    """Return the current folder relative to the workspace ("" for that itself), or None for one that lies elsewhere."""
    # Not ".", which cannot be looked at in a folder that nobody may enter.
    if os.path.samestat(os.stat("/proc/self/cwd"), os.fstat(WORKSPACE_FD)):
        return ""
    real, current = os.readlink(_LINK), os.readlink("/proc/self/cwd")
    return current[len(real) + 1 :] if f"{current}/".startswith(real + "/") else None


def install(alias: str) -> None:
    """Make `os.getcwd`, `os.getcwdb` and `os.path.realpath` say `alias` for the real folder of the workspace."""
    getcwd, realpath, readlink = os.getcwd, os.path.realpath, os.readlink

    def shown(path: Any) -> Any:
        try:
            real = readlink(_LINK)
        except OSError:
            return path
        if isinstance(path, bytes):
            return os.fsencode(shown(os.fsdecode(path)))
        if path == real or path.startswith(real + "/"):
            return alias + path[len(real) :]
        return path

    def alias_getcwd() -> str:
        return str(shown(getcwd()))

    def alias_getcwdb() -> bytes:
        return os.fsencode(alias_getcwd())

    def alias_realpath(filename: Any, *, strict: Any = False) -> Any:
        return shown(realpath(filename, strict=strict))

    os.getcwd, os.getcwdb = alias_getcwd, alias_getcwdb
    os.path.realpath = alias_realpath
