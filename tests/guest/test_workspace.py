"""The workspace comes back exactly, whatever was done to it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guest.children import NOBODY, in_child

from saccade.guest.folders import Cursor, remove_folder
from saccade.guest.workspace import Changes, Workspace, WorkspaceTooLarge

FOLDER = os.O_RDONLY | os.O_DIRECTORY


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "workspace"
    path.mkdir()
    yield path
    remove(path)


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    fd = os.open(folder, FOLDER)
    yield Workspace(fd)
    os.close(fd)


def remove(path: Path) -> None:
    """Remove a tree that `shutil.rmtree` may be unable to walk."""
    with suppress(FileNotFoundError):
        fd = os.open(path, FOLDER)
        try:
            Workspace(fd).restore()  # nothing was committed: it becomes empty
        finally:
            os.close(fd)
        shutil.rmtree(path)


def survey(root: Path) -> dict[str, Any]:
    """Kind, mode, contents, time and other names of everything below `root`."""
    found: dict[str, Any] = {}
    names_of: dict[int, list[str]] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        for name in folders + names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            key = os.path.relpath(path, os.fsencode(root)).decode("latin-1")
            about: list[object] = [stat.filemode(status.st_mode)]
            if stat.S_ISLNK(status.st_mode):
                about.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    about.append(file.read())
            if not stat.S_ISDIR(status.st_mode):
                names_of.setdefault(status.st_ino, []).append(key)
                about += [status.st_mtime_ns, names_of[status.st_ino]]
            found[key] = about
    return found


def test_changes(folder: Path, workspace: Workspace) -> None:
    (folder / "same.txt").write_text("same")
    (folder / "old.txt").write_text("old")
    (folder / "gone.txt").write_text("gone")
    workspace.commit()
    assert workspace.changes() == Changes()
    (folder / "d").mkdir()
    (folder / "d/new.txt").write_text("new")
    (folder / "old.txt").write_text("newer")
    (folder / "gone.txt").unlink()
    (folder / "link").symlink_to("nowhere")
    assert workspace.changes() == Changes(("d/new.txt", "link"), ("old.txt",), ("gone.txt",))
    workspace.commit()
    assert workspace.changes() == Changes()


def test_restore_brings_back_everything(folder: Path, workspace: Workspace) -> None:
    (folder / "d/e").mkdir(parents=True)
    (folder / "d/e/a.txt").write_text("a")
    (folder / "run.sh").write_text("b")
    (folder / "run.sh").chmod(0o751)
    (folder / "d").chmod(0o510)
    (folder / "link").symlink_to("d/e")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    (folder / "empty").mkdir()
    before = survey(folder)
    workspace.commit()
    (folder / "d").chmod(0o700)
    shutil.rmtree(folder / "d")
    (folder / "d").symlink_to("/etc")
    (folder / "link").unlink()
    (folder / "link").mkdir()
    (folder / "link/in.txt").write_text("x")
    (folder / "run.sh").unlink()
    (folder / "run.sh").mkdir(0o000)
    (folder / "loop").unlink()
    (folder / "loop").symlink_to("fifo")
    (folder / "fifo").unlink()
    (folder / "fifo").write_text("a file now")
    (folder / "empty").chmod(0)
    (folder / "new.txt").write_text("new")
    folder.chmod(0)
    workspace.restore()
    assert survey(folder) == before
    assert workspace.changes() == Changes()


def test_nothing_outside_is_touched_through_symlinks(tmp_path: Path, folder: Path, workspace: Workspace) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious")
    (folder / "d").mkdir()
    (folder / "d/precious.txt").write_text("mine")
    workspace.commit()
    shutil.rmtree(folder / "d")
    (folder / "d").symlink_to(outside)
    (folder / "up").symlink_to("..")
    assert "d/precious.txt" in workspace.changes().deleted
    assert "up/outside" not in workspace.scan()
    workspace.restore()
    assert (outside / "precious.txt").read_text() == "precious"
    assert (folder / "d/precious.txt").read_text() == "mine"
    assert not (folder / "up").exists()


@pytest.mark.parametrize("name", [b"\xff\xfe", "ä\u20ac".encode(), b"new\nline", b" ", b"-rf", b"x" * 255])
def test_odd_names(folder: Path, workspace: Workspace, name: bytes) -> None:
    path = os.path.join(os.fsencode(folder), name)
    with open(path, "wb") as file:
        file.write(b"1")
    assert workspace.changes().created == (os.fsdecode(name),)
    workspace.commit()
    os.unlink(path)
    workspace.restore()
    assert survey(folder)[name.decode("latin-1")][1] == b"1"


def nest(top: Path, levels: int, name: str) -> None:
    """A chain of folders, made step by step because no path reaches its end."""
    fd = os.open(top, FOLDER)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, FOLDER, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("end.txt", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


@pytest.mark.slow
def test_deep_folders(folder: Path, workspace: Workspace) -> None:
    workspace.commit()
    nest(folder, 1100, "d")
    assert len(workspace.changes().created) == 1
    workspace.commit()
    fd = os.open(folder / "d/d/d", FOLDER)
    remove_folder(fd, "d", 0o755)
    os.close(fd)
    workspace.restore()
    assert len(workspace.scan()) == 1101


def test_folders_too_deep_for_any_path(folder: Path, workspace: Workspace) -> None:
    (folder / "a.txt").write_text("a")
    workspace.commit()
    nest(folder, 300, "n" * 200)
    with pytest.raises(WorkspaceTooLarge, match="longer than"):
        workspace.commit()
    workspace.restore()
    assert list(survey(folder)) == ["a.txt"]


def test_sparse_files_cost_what_they_hold(folder: Path) -> None:
    fd = os.open(folder, FOLDER)
    workspace = Workspace(fd, workspace_bytes=1 << 20)
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"middle")
    workspace.commit()
    (folder / "sparse.bin").unlink()
    workspace.restore()
    with (folder / "sparse.bin").open("rb") as file:
        file.seek(1 << 29)
        assert file.read(7) == b"middle\0"
    status = (folder / "sparse.bin").stat()
    assert status.st_size == 1 << 30
    assert status.st_blocks * 512 < 1 << 20
    os.close(fd)


@pytest.mark.parametrize(
    ("limits", "more", "words"),
    [({"workspace_bytes": 1000}, b"b" * 401, "1000 bytes"), ({"workspace_files": 1}, b"", "1 files")],
)
def test_too_much_to_keep(folder: Path, limits: dict[str, int], more: bytes, words: str) -> None:
    fd = os.open(folder, FOLDER)
    workspace = Workspace(fd, **limits)
    (folder / "a.bin").write_bytes(b"a" * 600)
    workspace.commit()
    (folder / "b.bin").write_bytes(more)
    with pytest.raises(WorkspaceTooLarge, match=words):
        workspace.commit()
    workspace.restore()
    assert list(survey(folder)) == ["a.bin"]
    os.close(fd)


def test_switch_fills_another_folder(tmp_path: Path, folder: Path, workspace: Workspace) -> None:
    (folder / "d").mkdir(mode=0o711)
    (folder / "d/a.txt").write_text("a")
    (folder / "link").symlink_to("d")
    workspace.commit()
    (folder / "later.txt").write_text("not committed")
    other = tmp_path / "other"
    other.mkdir()
    (other / "rubbish.txt").write_text("rubbish")
    fd = os.open(other, FOLDER)
    workspace.switch(fd)
    assert workspace.changes() == Changes()
    (other / "d/a.txt").write_text("changed")
    workspace.restore()
    found = survey(other)
    assert sorted(found) == ["d", "d/a.txt", "link"]
    assert found["d/a.txt"][1] == b"a"
    assert found["d"] == ["drwx--x--x"]
    assert (folder / "later.txt").exists()
    os.close(fd)


def test_a_folder_that_is_moved_while_it_is_read_is_noticed(folder: Path, workspace: Workspace) -> None:
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "elsewhere").mkdir()
    fd = os.open(folder, FOLDER)
    cursor = Cursor(fd)
    for name in ("a", "b", "c"):
        cursor.down(name, 0o755)
    (folder / "a/b/c").rename(folder / "elsewhere/c")
    with pytest.raises(OSError, match="'c' was moved while the workspace was read"):
        cursor.up()
    os.close(cursor.fd)
    os.close(fd)


NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "f"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "append", "poke", "mkdir", "delete", "rename", "link", "join", "chmod", "touch", "fifo"]
        ),
        NAMES,
        NAMES,
        st.integers(0, 0o777),
        st.binary(max_size=5),
    ),
    max_size=12,
)


def do(root: Path, action: str, name: str, other: str, number: int, data: bytes) -> None:
    """One step of a random program; steps that make no sense do nothing."""
    path, second = root / name, root / other
    actions: dict[str, Callable[[], object]] = {
        "write": lambda: path.write_bytes(data) if not path.is_fifo() else None,
        "append": lambda: path.open("ab").write(data) if path.is_file() else None,
        "poke": lambda: os.pwrite(os.open(path, os.O_WRONLY), data, 0) if path.is_file() else None,
        "mkdir": path.mkdir,
        "delete": lambda: shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(),
        "rename": lambda: path.rename(second),
        "link": lambda: path.symlink_to(other),
        "join": lambda: os.link(path, second, follow_symlinks=False),
        "chmod": lambda: path.lstat() and not path.is_symlink() and path.chmod(number | 0o700),
        "touch": lambda: os.utime(path, ns=(number, number), follow_symlinks=False),
        "fifo": lambda: os.mkfifo(path),
    }
    with suppress(OSError, shutil.Error):
        actions[action]()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@given(STEPS, STEPS, STEPS)
def test_any_program_is_undone(first: list[Any], second: list[Any], third: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "w"
        root.mkdir()
        fd = os.open(root, FOLDER)
        workspace = Workspace(fd)
        try:
            for step in first:
                do(root, *step)
            workspace.commit()
            for steps in (second, third):
                before = survey(root)
                for step in steps:
                    do(root, *step)
                workspace.restore()
                assert survey(root) == before
                assert workspace.changes() == Changes()
        finally:
            os.close(fd)
            remove(root)


def test_what_was_kept_counts_again_and_what_changed_is_read_anew(folder: Path) -> None:
    fd = os.open(folder, FOLDER)
    workspace = Workspace(fd, workspace_bytes=1000)
    (folder / "a.bin").write_bytes(b"a" * 600)
    os.utime(folder / "a.bin", ns=(1, 1))
    time.sleep(0.05)  # beyond the tick of a coarse clock
    workspace.commit()
    (folder / "b.bin").write_bytes(b"b" * 400)
    workspace.commit()
    (folder / "b.bin").write_bytes(b"c" * 401)
    with pytest.raises(WorkspaceTooLarge):
        workspace.commit()
    workspace.restore()
    assert (folder / "b.bin").read_bytes() == b"b" * 400
    os.close(fd)


def test_paths_of_up_to_4000_bytes_are_kept(folder: Path, workspace: Workspace) -> None:
    nest(folder, 19, "n" * 200)  # 19 folders and their slashes: 3,819 bytes
    assert len(workspace.scan()) == 20
    nest(folder / "/".join(["n" * 200] * 19), 1, "m" * 180)  # 4,000 with its slash
    assert len(workspace.scan()) == 22
    other = folder / "other"
    other.mkdir()
    nest(other, 20, "ä" * 98)  # two bytes each: 6 and 20 times 197 are 3,946
    assert len(workspace.scan()) == 44
    (folder / ("k" * 20)).mkdir()
    nest(folder / ("k" * 20), 20, "n" * 198)  # 21 and 20 times 199 are 4,001
    with pytest.raises(WorkspaceTooLarge, match="longer than 4000 bytes"):
        workspace.scan()


def test_only_a_folders_mode_or_being_there_is_a_change_of_it(folder: Path, workspace: Workspace) -> None:
    (folder / "d").mkdir(mode=0o755)
    (folder / "d/a.txt").write_text("a")
    workspace.commit()
    for change in (lambda: (folder / "d").chmod(0o700), lambda: (folder / "e").mkdir()):
        change()
        assert workspace.changes() == Changes()  # folders are not told
        workspace.restore()
        assert survey(folder)["d"] == ["drwxr-xr-x"]
        assert sorted(survey(folder)) == ["d", "d/a.txt"]


def test_a_file_replaced_by_another_of_the_same_content_is_written_in_place(folder: Path, workspace: Workspace) -> None:
    (folder / "a.txt").write_text("same")
    (folder / "link").symlink_to("a.txt")
    workspace.commit()
    (folder / "b.txt").write_text("same")
    (folder / "b.txt").rename(folder / "a.txt")
    assert workspace.changes() == Changes(changed=("a.txt",))
    workspace.restore()
    assert (folder / "a.txt").read_text() == "same"
    inode = (folder / "link").lstat().st_ino
    (folder / "c.txt").write_text("new")
    workspace.restore()
    assert (folder / "link").lstat().st_ino == inode  # what is as it was is not made again
    assert workspace.changes() == Changes()


def as_nobody(program: Callable[[Workspace], object]) -> object:
    """What `program` gives for a workspace, run by a plain user whom modes of files stop."""

    def run() -> object:
        fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        os.chdir(top)
        try:
            return program(Workspace(fd))
        finally:
            os.fchmod(fd, 0o700)

    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        if os.geteuid() == 0:
            os.chown(top, NOBODY, NOBODY)
        return in_child(run, user=NOBODY)


def test_a_plain_user_may_close_the_top_folder() -> None:
    def program(workspace: Workspace) -> object:
        Path("a").write_text("kept")
        workspace.commit()
        os.fchmod(workspace.fd, 0)
        workspace.restore()
        back = stat.S_IMODE(os.fstat(workspace.fd).st_mode), Path("a").read_text()
        os.fchmod(workspace.fd, 0o300)
        workspace.commit()
        closed = stat.S_IMODE(os.fstat(workspace.fd).st_mode)
        os.fchmod(workspace.fd, 0o700)
        Path("a").write_text("other")
        workspace.restore()
        after = stat.S_IMODE(os.fstat(workspace.fd).st_mode)
        os.fchmod(workspace.fd, 0o700)
        return [*back, closed, after, Path("a").read_text()]

    assert as_nobody(program) == [0o755, "kept", 0o300, 0o300, "kept"]


def test_a_plain_user_may_have_files_that_cannot_be_read() -> None:
    def program(workspace: Workspace) -> object:
        os.umask(0o022)
        Path("a").write_text("kept")
        os.chmod("a", 0)
        os.mkdir("d", 0o755)
        Path("d/b").write_text("inside")
        os.chmod("d", 0)
        workspace.commit()
        quiet = [workspace.changes() == Changes() for _ in range(3)]
        os.chmod("a", 0o600)
        Path("a").write_text("other")
        os.chmod("d", 0o700)
        os.remove("d/b")
        workspace.restore()
        modes = [stat.S_IMODE(os.stat(name).st_mode) for name in ("a", "d")]
        os.chmod("a", 0o600)
        os.chmod("d", 0o700)
        return [*quiet, *modes, Path("a").read_text(), Path("d/b").read_text()]

    assert as_nobody(program) == [True, True, True, 0, 0, "kept", "inside"]


def test_a_change_that_leaves_no_time_is_seen_and_undone(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    workspace = Workspace(fd)
    (tmp_path / "a").write_bytes(b"A" * 8192)
    workspace.commit()
    entry = workspace.scan()["a"]
    with mock.patch("saccade.guest.workspace._entry", return_value=entry):  # a file system that stamps nothing
        (tmp_path / "a").write_bytes(b"B" * 8192)
        assert workspace.changes().changed == ("a",)
        workspace.commit(compared=True)
        (tmp_path / "a").write_bytes(b"C" * 8192)
        workspace.restore()
    assert (tmp_path / "a").read_bytes() == b"B" * 8192
    os.close(fd)
