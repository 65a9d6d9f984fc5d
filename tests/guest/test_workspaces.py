from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import NOBODY, in_child, open_to_all, outcome

from saccade.guest import folders, wire
from saccade.guest.folders import remove_folder
from saccade.guest.workspaces import PlainWorkspaces


@pytest.fixture
def plain(tmp_path: Path) -> PlainWorkspaces:
    open_to_all(tmp_path)
    base = tmp_path / "base"
    base.mkdir()
    return PlainWorkspaces(str(base))


def test_a_plain_workspace(plain: PlainWorkspaces) -> None:
    family = plain.new_family()
    fd, path = plain.make(family, 1 << 20, 10, os.geteuid())
    assert os.path.dirname(path) == family
    assert os.path.samestat(os.fstat(fd), os.stat(path))
    assert os.fstat(fd).st_mode & 0o777 == 0o700
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    plain.release(path)
    plain.release(path)
    assert not os.path.exists(family)


def test_names_do_not_repeat_and_a_family_lives_as_long_as_one_of_it(plain: PlainWorkspaces) -> None:
    family = plain.new_family()
    pairs = [plain.make(family, 1 << 20, 10, os.geteuid()) for _ in range(3)]
    assert len({path for _, path in pairs}) == 3
    for fd, _ in pairs:
        os.close(fd)
    for _, path in pairs:
        assert os.path.isdir(family)
        plain.release(path)
    assert not os.path.exists(family)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_another_user_may_use_its_own_and_see_no_other(plain: PlainWorkspaces) -> None:
    fd, path = plain.make(plain.new_family(), 1 << 20, 10, NOBODY)
    other_fd, other = plain.make(plain.new_family(), 1 << 20, 10, 4321)

    def look() -> list[str]:
        return [outcome(lambda: os.mkdir(f"{path}/x")), *(outcome(lambda p=p: os.listdir(p)) for p in found)]  # type: ignore[misc]

    found = (other, os.path.dirname(other), os.path.dirname(os.path.dirname(other)))
    assert in_child(look, user=NOBODY) == ["ok", "EACCES", "EACCES", "EACCES"]
    os.close(fd)
    os.close(other_fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user whose group has another number")
def test_a_user_whose_group_has_another_number_has_workspaces(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    base = tmp_path / "base"
    base.mkdir()
    os.chown(base, NOBODY, 4321)

    def make() -> list[int]:
        os.setgroups([])
        os.setgid(4321)
        os.setuid(NOBODY)
        made = PlainWorkspaces(str(base))
        fd, path = made.make(made.new_family(), 1 << 20, 10, NOBODY)
        os.close(fd)
        return [os.stat(path).st_uid, os.stat(path).st_gid]

    assert in_child(make) == [NOBODY, 4321]


def test_only_a_workspace_is_released(plain: PlainWorkspaces, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    family = plain.new_family()
    for path in (str(kept), str(tmp_path), family, f"{family}/../../kept", f"{family}/a/b"):
        with pytest.raises(ValueError, match="no workspace"):
            plain.release(path)
    assert kept.is_dir()


class TestRemoveFolder:
    def remove(self, tmp_path: Path) -> None:
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            remove_folder(handle, "hostile", stat.S_IMODE((tmp_path / "hostile").lstat().st_mode))
        finally:
            os.close(handle)

    def test_links_are_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").write_text("x")
        (tmp_path / "hostile").mkdir()
        (tmp_path / "hostile" / "link").symlink_to(tmp_path / "kept")
        (tmp_path / "hostile" / "inner").mkdir()
        (tmp_path / "hostile" / "inner" / "link").symlink_to("../../kept")
        self.remove(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]
        assert (tmp_path / "kept" / "file").exists()

    def test_a_link_in_its_place_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "hostile").symlink_to("kept")
        with pytest.raises(OSError):  # noqa: PT011 (which errno depends on the kernel)
            self.remove(tmp_path)
        assert (tmp_path / "kept").is_dir()

    def test_a_very_deep_tree(self, tmp_path: Path) -> None:
        (tmp_path / "hostile").mkdir()
        handle = os.open(tmp_path / "hostile", os.O_RDONLY)
        for _ in range(1100):
            os.mkdir("d" * 50, dir_fd=handle)
            inner = os.open("d" * 50, os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = inner
        os.close(handle)
        self.remove(tmp_path)
        assert not (tmp_path / "hostile").exists()

    def test_closed_folders_of_a_plain_user(self, tmp_path: Path) -> None:
        open_to_all(tmp_path)
        tmp_path.chmod(0o777)

        def run() -> bool:
            os.makedirs(tmp_path / "hostile" / "a" / "b" / "c")
            (tmp_path / "hostile" / "a" / "b" / "file").write_text("x")
            for name in ("hostile/a/b/c", "hostile/a/b", "hostile/a", "hostile"):
                (tmp_path / name).chmod(0o000)
            self.remove(tmp_path)
            return (tmp_path / "hostile").exists()

        assert in_child(run, user=NOBODY) is False

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            self.remove(tmp_path)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def test_paths_are_shown_below_the_alias(tmp_path: Path) -> None:
    for name in ("work/d", "workshop"):
        (tmp_path / name).mkdir(parents=True)

    def say() -> Any:
        os.dup2(os.open(tmp_path / "work", os.O_RDONLY), wire.WORKSPACE_FD)
        places = []
        folders.install("/workspace")
        for name in ("work", "work/d", "workshop"):
            os.chdir(tmp_path / name)
            places.append([folders.inside(), os.getcwd(), os.fsdecode(os.getcwdb()), os.path.realpath(".")])
        os.chdir(tmp_path / "work")
        odd = [os.fsdecode(os.path.realpath(b"d")), os.path.realpath(tmp_path), type(os.path.realpath(b"d")).__name__]
        with pytest.raises(FileNotFoundError):
            os.path.realpath("missing", strict=True)
        os.close(wire.WORKSPACE_FD)
        return places, odd, os.getcwd()

    places, odd, closed = in_child(say)
    assert places == [
        ["", "/workspace", "/workspace", "/workspace"],
        ["d", "/workspace/d", "/workspace/d", "/workspace/d"],
        [None, *[f"{tmp_path}/workshop"] * 3],
    ]
    assert odd == ["/workspace/d", str(tmp_path), "bytes"]
    assert closed == f"{tmp_path}/work", "whoever has closed it sees the real folder"
