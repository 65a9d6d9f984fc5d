"""What sessions are given, and what the host is told of the jail: on paper, without a jail."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import TextIO, cast

import pytest

from saccade.guest import jail, root
from saccade.guest.jail import JailPlan
from saccade.guest.nursery import Nursery, interpreter_paths, too_wide
from saccade.guest.root import NAMESPACES, Standing, ladder, with_own_proc
from saccade.guest.workspaces import PlainWorkspaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
LIMITS = {
    **{"output_bytes": 1, "pictures": 2, "picture_pixels": 3, "total_pixels": 4, "file_bytes": 5},
    **{"workspace_bytes": 6, "workspace_files": 7},
}
ALL = ("session_user", "rlimits", "capabilities", "no_new_privs", "landlock", "seccomp")


def made(folder: Path, users: str, first: int, uids: int, **left_out: str) -> Nursery:
    plan = JailPlan(users, {}, (), b"", left_out)
    return Nursery(plan, Standing((), first, uids, {}), LIMITS, PlainWorkspaces(str(folder)), sees=False)


def test_no_two_sessions_that_live_have_one_user(tmp_path: Path) -> None:
    given = [os.memfd_create(name) for name in ("socket", "outbox", "stdout", "stderr")]
    inodes = [os.fstat(fd).st_ino for fd in given]
    sessions = made(tmp_path, "range", 7000, 3, session_user="not here")
    entries = []
    for number in range(3):
        entry, fd = sessions.new_entry(number, [*given, 0])
        assert os.path.samestat(os.fstat(fd), os.stat(entry.workspace))
        assert (entry.id, entry.socket, entry.memory) == (number, inodes[0], frozenset(inodes[1:]))
        os.close(fd)
        entries.append(entry)
    assert [entry.uid for entry in entries] == [7000, 7001, 7002]
    sessions.release(entries[1])
    assert not os.path.exists(entries[1].workspace)
    fourth, fd = sessions.new_entry(3, given)
    assert fourth.uid == 7001, "the one that is free"
    os.close(fd)
    # A branch has the user of its origin, which stays taken until both are gone.
    branch = sessions.branch_entry({"branch": 9, "socket": 5, "memory": [6, 7], "path": fourth.workspace}, fourth)
    assert (branch.id, branch.uid, branch.family, branch.base) == (9, 7001, fourth.family, fourth.base)
    assert (branch.socket, branch.memory) == (5, {6, 7})
    sessions.release(branch)
    sessions.release(entries[2])
    fifth, fd = sessions.new_entry(4, given)
    assert fifth.uid == 7002
    for one in (*given, fd):
        os.close(one)


def test_without_a_range_all_have_one_user(tmp_path: Path) -> None:
    sessions = made(tmp_path, "none", 0, 0)
    fds = [os.memfd_create("x")] * 4
    entries = [sessions.new_entry(number, fds) for number in range(2)]
    assert [entry.uid for entry, _ in entries] == [0, 0]
    for fd in (fds[0], *(fd for _, fd in entries)):
        os.close(fd)


def test_a_session_is_told_its_limits_and_options_alone(tmp_path: Path) -> None:
    sessions = made(tmp_path, "none", 0, 0)
    fd = os.memfd_create("x")
    entry, folder = sessions.new_entry(1, [fd] * 4)
    options = {"repairs": ["path_alias"], "path_aliases": {"a": "b"}, "preload": ["np"], "last_expression": False}
    message = json.loads(sessions.setup(entry, {**options, "secret": 1}))
    assert message == {"uid": 0, "family": entry.family, "config": {**LIMITS, **options}}
    os.close(fd)
    os.close(folder)


def test_a_rehearsal_says_of_each_step_why_it_cannot_be_had() -> None:
    plan = JailPlan("none", {}, (), b"", dict.fromkeys(ALL[1:], "left out"))
    said = jail.rehearse(plan, 0, "/f", os.fork)
    assert said == {"session_user": "OSError: this process may not hand out user ids nor make user namespaces"}


def test_namespaces_are_tried_from_all_to_none() -> None:
    everything = tuple(NAMESPACES)
    rest = tuple(name for name in everything if name != "mount_namespace")
    assert ladder(root=False) == [everything, rest, ()]
    assert ladder(root=True) == [everything, everything[1:], rest, ()]
    assert with_own_proc(everything) == everything
    assert with_own_proc(rest) == tuple(name for name in rest if name != "pid_namespace")


def beneath(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let /proc/a/b be the file `_proc_a_b` of a folder."""

    def opened(path: str, mode: str = "r") -> TextIO:
        return cast(TextIO, open(folder / path.replace("/", "_"), mode))

    monkeypatch.setattr(root, "open", opened, raising=False)


@pytest.mark.parametrize(
    ("maps", "ids"),
    [
        (["0 0 4294967295"], (100_000, 65_536)),
        (["100000 5 65536"], (100_000, 65_536)),
        (["100001 5 65536"], (100_001 + 65_536 - 30_000, 30_000)),
        (["100000 5 65535"], (100_000 + 65_535 - 30_000, 30_000)),
        (["0 0 1", "1 1000 60000"], (30_001, 30_000)),
        (["0 0 1", "1 1000 59999"], (0, 0)),
    ],
)
def test_user_ids_that_sessions_may_have(
    maps: list[str], ids: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_proc_self_uid_map").write_text("".join(f"{line}\n" for line in maps))
    beneath(tmp_path, monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert root.id_range() == ids
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert root.id_range() == (0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
@pytest.mark.parametrize(
    ("users", "left_out", "owner"),
    [("range", {}, 7000), ("range", {"session_user": "no"}, 0), ("none", {}, 0), ("namespace", {}, 0)],
)
def test_a_workspace_belongs_to_the_user_that_its_session_becomes(
    users: str, left_out: dict[str, str], owner: int, tmp_path: Path
) -> None:
    sessions = made(tmp_path, users, 7000, 9, **left_out)
    memfd = os.memfd_create("x")
    entry, fd = sessions.new_entry(1, [memfd] * 4)
    twin, path = sessions.new_workspace(entry)
    assert [os.fstat(folder).st_uid for folder in (fd, twin)] == [owner] * 2
    assert os.path.dirname(path) == entry.family
    for each in (memfd, fd, twin):
        os.close(each)


def test_what_the_interpreter_needs_is_covered() -> None:
    import numpy as np

    paths = [os.path.realpath(path) for path in interpreter_paths()]
    for needed in (sysconfig.get_path("stdlib"), np.__file__, os.__file__):
        real = os.path.realpath(needed)
        assert any(real == path or real.startswith(path + "/") for path in paths), needed


def test_shared_libraries_in_unusual_places_are_found() -> None:
    paths = [os.path.realpath(path) for path in interpreter_paths()]
    with open("/proc/self/maps") as file:
        fields = [line.split(maxsplit=5) for line in file]
    libraries = {words[5].strip() for words in fields if len(words) == 6 and ".so" in words[5]}
    assert libraries
    for library in libraries:
        assert any(library == path or library.startswith(path + "/") for path in paths), library


def test_nothing_private_is_shown_as_a_whole() -> None:
    for path in interpreter_paths():
        assert os.path.isabs(path)
        assert os.path.exists(path)
        assert not too_wide(path), path
        assert not os.path.exists(os.path.join(path, "passwd"))
        assert not path.startswith(("/var/", "/run/", "/sys/", "/proc/")) or path.startswith(sys.prefix), path
        assert path != "/tmp"


def test_the_current_folder_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert str(tmp_path) not in interpreter_paths()


@pytest.mark.parametrize("path", ["/", "/etc", "/home", "/root", "/usr", "/tmp", "~"])
def test_folders_that_hold_more_than_an_interpreter_are_too_wide(path: str, tmp_path: Path) -> None:
    assert too_wide(os.path.expanduser(path))
    link = tmp_path / "link"
    link.symlink_to(os.path.expanduser(path))
    assert too_wide(str(link))
