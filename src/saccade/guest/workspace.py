"""Roll back the session's folder, and tell what changed in it.

`commit` keeps copies of the files in memory; `restore` makes the folder what it was at the last commit: contents,
modes, times of access and change, symlinks, hard links, FIFOs, the room that files take and where they have holes, and
the order in which names are listed. Files are compared by their contents, since a write through a mapping changes no
time. Not promised: inode numbers and `st_ctime` of what had to be put back, and sockets or devices.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from os import (
    O_CLOEXEC,
    O_CREAT,
    O_EXCL,
    O_NOFOLLOW,
    O_NONBLOCK,
    O_PATH,
    O_RDONLY,
    O_TRUNC,
    O_WRONLY,
    chmod,
    close,
    fchmod,
    fsencode,
    fstat,
    ftruncate,
    link,
    lseek,
    lstat,
    mkdir,
    mkfifo,
    pread,
    pwrite,
    readlink,
    rename,
    scandir,
    stat_result,
    symlink,
    umask,
    unlink,
    utime,
)
from os import open as open_fd
from stat import S_IMODE, S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG
from typing import Literal, NamedTuple

from .folders import CHANGE, Cursor, Folders, empty_folder, open_anyhow, remove_folder, walk
from .syscalls import allocate

_CHUNK = 1 << 20
_PAGE, _BLOCK = 4096, 512
"""Bytes: what files grow by, and the unit of `st_blocks`."""
_READ = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
_WRITE = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC


class TooMuchError(Exception):
    """The file holds more bytes than asked for."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Contents of a file: `extents` are (offset, bytes) in order, everything between is zero, up to `size`."""

    size: int
    extents: tuple[tuple[int, bytes], ...]
    blocks: int
    """Room that the file takes, in blocks of 512 bytes; some of it may lie in holes and beyond the end."""

    @property
    def weight(self) -> int:
        """Bytes that the copy takes."""
        return sum(len(data) for _, data in self.extents)


def read_copy(folder: int, name: str, mode: int, most: int) -> Copy:
    """Copy file `name` of `folder`; raises `TooMuchError` above `most` bytes of data."""
    fd = _open_to_read(folder, name, mode)
    try:
        found = fstat(fd)
        size, places = found.st_size, _places(fd, found.st_size)
        if sum(end - start for start, end in places) > most:
            raise TooMuchError
        parts = ((start, read_at(fd, start, end - start)) for start, end in places)
        return Copy(size, tuple((start, data) for start, data in parts if data), found.st_blocks)
    finally:
        close(fd)


def _open_to_read(folder: int, name: str, mode: int) -> int:
    try:
        return open_fd(name, _READ, dir_fd=folder)
    except PermissionError:
        chmod(name, mode | 0o400, dir_fd=folder)
        try:
            return open_fd(name, _READ, dir_fd=folder)
        finally:
            chmod(name, mode, dir_fd=folder)


def write_copy(folder: int, name: str, mode: int, copy: Copy, exists: bool, mtime_ns: int) -> None:
    """Make file `name` of `folder` equal to `copy`: in place if it `exists`, so that open handles stay good."""
    made = _WRITE | O_CREAT | O_EXCL
    fd = _open_to_write(folder, name, mode) if exists else open_fd(name, made, 0o600, dir_fd=folder)
    try:
        ftruncate(fd, 0)
        ftruncate(fd, copy.size)
        for offset, data in copy.extents:
            view = memoryview(data)
            while view:
                written = pwrite(fd, view, offset)
                view, offset = view[written:], offset + written
        missing = copy.blocks - fstat(fd).st_blocks
        if missing > 0:
            allocate(fd, -(-copy.size // _PAGE) * _PAGE, missing * _BLOCK)
        fchmod(fd, mode)
        utime(fd, ns=(mtime_ns, mtime_ns))
    finally:
        close(fd)


def _open_to_write(folder: int, name: str, mode: int, flags: int = 0) -> int:
    try:
        return open_fd(name, _WRITE | flags, dir_fd=folder)
    except PermissionError:
        chmod(name, mode | 0o200, dir_fd=folder)
        return open_fd(name, _WRITE | flags, dir_fd=folder)


def same_content(folder: int, name: str, mode: int, copy: Copy, *, exactly: bool = False) -> bool:
    """Tell whether the file reads as `copy` does, and with `exactly`, whether it takes the same room in all places."""
    try:
        fd = _open_to_read(folder, name, mode)
        try:
            found = fstat(fd)
            if found.st_size != copy.size or not _equal(fd, copy):
                return False
            places = [(at, at + len(data)) for at, data in copy.extents]
            return not exactly or (found.st_blocks == copy.blocks and _places(fd, copy.size) == places)
        finally:
            close(fd)
    except OSError:
        return False


def _equal(fd: int, copy: Copy) -> bool:
    at = 0
    for offset, data in copy.extents:
        if not _is_zero(fd, at, offset):
            return False
        at = offset + len(data)
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            if pread(fd, len(part), offset + start) != part:
                return False
    return _is_zero(fd, at, copy.size)


def _is_zero(fd: int, start: int, end: int) -> bool:
    """Return whether the file holds nothing but zeros from `start` to `end`."""
    while start < end:
        data, hole = _next_data(fd, start, end)
        for offset in range(data, hole, _CHUNK):
            part = pread(fd, min(_CHUNK, hole - offset), offset)
            if part != bytes(len(part)):
                return False
        start = max(hole, data)
    return True


def _places(fd: int, size: int) -> list[tuple[int, int]]:
    """Return (start, end) of everything that is no hole."""
    places = []
    offset = 0
    while offset < size:
        start, offset = _next_data(fd, offset, size)
        if start < size:
            places.append((start, offset))
    return places


def _next_data(fd: int, offset: int, size: int) -> tuple[int, int]:
    """Return (start, end) of the next bytes that are no hole; start is `size` if there are none."""
    try:
        start = lseek(fd, offset, os.SEEK_DATA)
        return start, min(lseek(fd, start, os.SEEK_HOLE), size)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (offset, size)


def read_at(fd: int, offset: int, length: int) -> bytes:
    """Read `length` bytes from `offset` on, or those that are there."""
    parts = []
    while length > 0:
        part = pread(fd, min(length, _CHUNK), offset)
        if not part:
            break
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)


MIB = 1024 * 1024
_LONGEST_PATH = 4000
"""Bytes; a longer path could not be opened by its name."""

Kind = Literal["file", "folder", "link", "fifo", "other"]


class WorkspaceTooLarge(Exception):  # noqa: N818
    """The workspace holds more than may be kept; the message says what and how much."""


class Entry(NamedTuple):
    """The metadata of one name; times in nanoseconds."""

    kind: Kind
    mode: int
    inode: int
    size: int
    mtime: int
    ctime: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths (relative, sorted) of everything but folders that is not as it was at the last commit."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


Visit = Callable[[Cursor, str, str, Entry], Entry]
Times = tuple[int, int]
"""Last access and last change, in nanoseconds."""


class Workspace:
    """The folder behind directory descriptor `fd`, and what it may hold at most."""

    def __init__(self, fd: int, workspace_bytes: int = 128 * MIB, workspace_files: int = 100_000) -> None:
        self.fd = fd
        self.workspace_bytes = workspace_bytes
        self.workspace_files = workspace_files
        self._mode, self._index, self._copies = S_IMODE(fstat(fd).st_mode), dict[str, Entry](), dict[str, Copy]()
        self._targets: dict[str, str] = {}
        self._times: dict[str, Times] = {"": _times(fstat(fd))}
        """Times of every file and folder at the last commit; "" is the top."""
        self._scanned: dict[str, Entry] = {}
        self._scanned_times: dict[str, Times] = {}
        self._unchanged = False  # when last compared
        self._touched: set[str] = set()
        """Files that hold other bytes than at the last commit although the file system says nothing of it."""
        self._spread: set[str] = set()
        """Files that hold the same bytes but take other room: to look at a hole through a mapping may fill it."""
        self._paths: dict[int, str] = {}
        """While the folder is rebuilt: inode number at the last commit -> a path that the file has again."""

    def scan(self, visit: Visit | None = None) -> dict[str, Entry]:
        """Return every entry of the folder by its path. Raises `WorkspaceTooLarge` for too many or too deep ones."""
        entries, times = dict[str, Entry](), {"": _times(fstat(self.fd))}

        def enter(cursor: Cursor) -> Folders:
            if len(cursor.path) > _LONGEST_PATH // 4 and len(fsencode(cursor.path)) > _LONGEST_PATH:
                raise WorkspaceTooLarge(f"the workspace holds folders whose path is longer than {_LONGEST_PATH} bytes")
            folders = []
            for name, entry, stamps in _listing(cursor.fd):
                path = cursor.path + name
                entries[path] = visit(cursor, path, name, entry) if visit is not None else entry
                if entry.kind != "other":
                    times[path] = stamps
                if entry.kind == "folder":
                    folders.append((name, entry.mode))
            if len(entries) > self.workspace_files:
                raise WorkspaceTooLarge(
                    f"the workspace holds more than {self.workspace_files} files and folders; delete some"
                )
            return folders

        walk(self.fd, enter)
        self._scanned, self._scanned_times = entries, times
        return entries

    def changes(self) -> Changes:
        """Return what was created, changed and deleted since the last commit."""
        return self._compare()[0]

    def entry(self, path: str) -> Entry:
        """Return the entry of one path that `changes` named."""
        return self._scanned[path]

    def open(self, path: str) -> int:
        """Open a file that `changes` named for reading."""
        return open_fd(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dir_fd=self.fd)

    def commit(self, *, compared: bool = False) -> None:
        """Keep the folder as it is now. Raises `WorkspaceTooLarge`, with nothing kept, if the files are too large.

        With `compared`, nothing was written since `changes` was asked, so that it need not compare all files again.
        """
        if not compared:
            self._compare()
        self._mode = S_IMODE(fstat(self.fd).st_mode)
        if compared and self._unchanged:
            self._times = self._scanned_times
            return
        copies, targets, weight = dict[str, Copy](), dict[str, str](), 0

        def visit(cursor: Cursor, path: str, name: str, entry: Entry) -> Entry:
            nonlocal weight
            if entry.kind == "link":
                targets[path] = readlink(name, dir_fd=cursor.fd)
            if entry.kind != "file":
                return entry
            same = path not in self._touched | self._spread and self._index.get(path) == entry
            copy = self._copies.get(path) if same else None
            if copy is None:
                try:
                    copy = read_copy(cursor.fd, name, entry.mode, self.workspace_bytes - weight)
                except TooMuchError:
                    raise WorkspaceTooLarge(
                        f"the files of the workspace hold more than {self.workspace_bytes} bytes; delete some"
                    ) from None
                entry = _entry(lstat(name, dir_fd=cursor.fd))
            copies[path] = copy
            weight += copy.weight
            return entry

        self._index = self.scan(visit)
        self._copies, self._targets, self._times = copies, targets, self._scanned_times
        self._touched, self._spread = set(), set()

    def restore(self) -> bool:
        """Make the folder what it was at the last commit; whether it had to be rebuilt. Raises OSError if it cannot."""
        try:
            changes, same_folders = self._compare()
            if same_folders and changes == Changes() and not self._spread:
                if self._scanned_times != self._times or S_IMODE(fstat(self.fd).st_mode) != self._mode:
                    self._put_times_back()
                return False
        except (WorkspaceTooLarge, OSError):
            pass
        try:
            self._rebuild()
        except OSError:
            # Whatever stands in the way: nothing that is there is needed.
            fchmod(self.fd, CHANGE)
            empty_folder(self.fd)
            self._rebuild()
        return True

    def switch(self, fd: int) -> None:
        """Move to the folder behind `fd`, whose contents are replaced by what is kept."""
        self.fd = fd
        self._rebuild()

    def _compare(self) -> tuple[Changes, bool]:
        """Return the changes, and whether the folders are the same, and everything is listed in the same order."""
        self._touched, self._spread = set(), set()
        now = self.scan(self._look_closer)
        index = self._index
        same = not self._touched and now == index and [*now] == [*index]
        self._unchanged = same and not self._spread
        if same:
            return Changes(), True
        deleted = [path for path, entry in index.items() if entry.kind != "folder" and path not in now]
        files = [path for path, entry in now.items() if entry.kind != "folder"]
        created = [path for path in files if path not in index]
        changed = [path for path in files if path in index and (now[path] != index[path] or path in self._touched)]
        folders = [
            {(path, entry.mode) for path, entry in entries.items() if entry.kind == "folder"}
            for entries in (now, index)
        ]
        changes = Changes(*(tuple(sorted(paths)) for paths in (created, changed, deleted)))
        return changes, folders[0] == folders[1] and [*now] == [*index]

    def _look_closer(self, cursor: Cursor, path: str, name: str, entry: Entry) -> Entry:
        """Compare the contents of a file whose metadata is as it was."""
        if entry.kind == "file" and entry == self._index.get(path):
            copy = self._copies[path]
            if not same_content(cursor.fd, name, entry.mode, copy, exactly=True):
                same = same_content(cursor.fd, name, entry.mode, copy)
                (self._spread if same else self._touched).add(path)
            elif not entry.mode & 0o400:
                # To read it, its mode was changed for a moment, which has left a time.
                entry = self._index[path] = _entry(lstat(name, dir_fd=cursor.fd))
        return entry

    def _rebuild(self) -> None:
        children: dict[str, list[str]] = {}
        for path in self._index:
            parent, slash, name = path.rpartition("/")
            children.setdefault(parent + slash, []).append(name)
        mask, self._paths = umask(0), {}
        try:
            fchmod(self.fd, self._mode | CHANGE)
            # First everything that takes room for itself, then what was there: the disk may be full.
            walk(self.fd, self._prune, need=CHANGE)
            walk(self.fd, lambda cursor: self._fill(cursor, children.get(cursor.path, [])), need=CHANGE)
            self._put_times_back()
        finally:
            umask(mask)

    def take_note(self) -> None:
        """Record the present metadata of everything that is as it was at the last commit."""
        entries = self.scan()
        self._index = {path: entries.get(path, entry) for path, entry in self._index.items()}

    def _prune(self, cursor: Cursor) -> Folders:
        """Remove what was not there, and empty what is not as it was."""
        folders = []
        for name, entry, _times in list(_listing(cursor.fd)):
            path = cursor.path + name
            old = self._index.get(path)
            if old is not None and old.kind == entry.kind == "folder":
                folders.append((name, entry.mode))
            elif entry.kind == "folder":
                remove_folder(cursor.fd, name, entry.mode)
            elif old is None or not self._is_it(cursor.fd, name, path, entry):
                unlink(name, dir_fd=cursor.fd)
            else:
                self._paths[old.inode] = path
                copy = self._copies.get(path)
                if copy is not None and not same_content(cursor.fd, name, entry.mode, copy, exactly=True):
                    close(_open_to_write(cursor.fd, name, entry.mode, O_TRUNC))
        return folders

    def _is_it(self, folder: int, name: str, path: str, entry: Entry) -> bool:
        """Return whether `entry` is what had the path; a symlink's inode number may have been given out again."""
        old, target = self._index[path], self._targets.get(path)
        same = (old.kind, old.inode) == (entry.kind, entry.inode)
        return same and (target is None or readlink(name, dir_fd=folder) == target)

    def _put_times_back(self) -> None:
        """Restore times of files, then of the folders around them, and the mode of the top."""

        def put(cursor: Cursor, path: str, name: str, entry: Entry) -> Entry:
            if path in self._times and self._scanned_times.get(path) != self._times[path]:
                utime(name, ns=self._times[path], dir_fd=cursor.fd, follow_symlinks=False)
            return entry

        self.scan()
        self.scan(put)
        fchmod(self.fd, self._mode)
        utime(self.fd, ns=self._times[""])
        self.take_note()

    def _fill(self, cursor: Cursor, names: list[str]) -> Folders:
        """Bring back what is missing in this folder or not as it was, and list it in the order in which it was."""
        if cursor.path:
            cursor.put_back = self._index[cursor.path[:-1]].mode
        present = {name: entry for name, entry, _times in _listing(cursor.fd)}
        folders = []
        for name in reversed(names):  # what comes last is listed first
            path, now = cursor.path + name, present.get(name)
            old = self._index[path]
            if old.kind == "folder":
                if now is None:
                    mkdir(name, CHANGE, dir_fd=cursor.fd)
                folders.append((name, CHANGE if now is None else now.mode))
            elif now is None and old.inode in self._paths:
                self._join(self._paths[old.inode], cursor.fd, name)
            else:
                self._make(cursor.fd, name, path, now)
                self._paths[old.inode] = path
        put_in_order(cursor.fd, names)
        return folders

    def _join(self, path: str, folder: int, name: str) -> None:
        """Give the file at `path` one more name."""
        fd = open_anyhow(self.fd, path, O_PATH | O_NOFOLLOW)
        try:
            link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
        finally:
            close(fd)

    def _make(self, folder: int, name: str, path: str, now: Entry | None) -> None:
        """Make a file, symlink or FIFO what it was; `now` is None where there is none."""
        old = self._index[path]
        if old.kind == "file":
            copy = self._copies[path]
            same = now is not None and (now.mode, now.mtime) == (old.mode, old.mtime)
            if now is None or not same or not same_content(folder, name, now.mode, copy, exactly=True):
                write_copy(folder, name, old.mode, copy, now is not None, old.mtime)
        elif old.kind == "link" and now is None:
            symlink(self._targets[path], name, dir_fd=folder)
        elif old.kind == "fifo":
            if now is None:
                mkfifo(name, dir_fd=folder)
            chmod(name, old.mode, dir_fd=folder)


def put_in_order(folder: int, names: list[str]) -> None:
    """Have the names of `folder` listed in this order, where the file system lists the latest first, as tmpfs does."""
    with scandir(folder) as items:
        found = [item.name for item in items]
    names = [name for name in names if name in found] if len(names) != len(found) else names
    done = 0
    while done < len(names) and names[-1 - done] == found[-1 - done]:
        done += 1
    aside = next(name for name in map("{:x}".format, itertools.count()) if name not in found)
    for name in reversed(names[: len(names) - done]):
        rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _listing(folder: int) -> list[tuple[str, Entry, Times]]:
    listing = []
    with scandir(folder) as items:
        for item in items:
            try:
                stat = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            listing.append((item.name, _entry(stat), _times(stat)))
    return listing


def _times(stat: stat_result) -> Times:
    return stat.st_atime_ns, stat.st_mtime_ns


def _entry(stat: stat_result) -> Entry:
    mode = stat.st_mode
    if S_ISREG(mode):
        kind: Kind = "file"
    elif S_ISDIR(mode):
        # The other numbers of a folder change with what is in it.
        return Entry("folder", S_IMODE(mode), 0, 0, 0, 0)
    else:
        kind = "link" if S_ISLNK(mode) else "fifo" if S_ISFIFO(mode) else "other"
    return Entry(kind, S_IMODE(mode), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
