from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import NOBODY, in_child, open_to_all, outcome

from saccade.guest import jail, privileges

pytestmark = pytest.mark.skipif(jail.abi() == 0, reason="this kernel has no Landlock")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str, str]:
    """A readable, a writable and an outer folder, open to every user, with one file each."""
    made = []
    open_to_all(tmp_path)
    for name in ("readable", "writable", "outer"):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "file").write_text(name)
        (folder / "file").chmod(0o666)
        made.append(str(folder))
    return made[0], made[1], made[2]


def restricted(
    folders: tuple[str, str, str], function: Callable[[], Any], *, confine: bool, user: int | None = None
) -> Any:
    """Run `function` in a child under Landlock."""

    def run() -> Any:
        privileges.no_new_privs()
        jail.restrict([folders[0]], [folders[1]], confine_files=confine)
        return function()

    return in_child(run, user=user)


def touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


@pytest.mark.parametrize("user", [None, NOBODY])
def test_files_are_confined(folders: tuple[str, str, str], user: int | None) -> None:
    readable, writable, outer = folders

    def attempts() -> dict[str, str]:
        return {
            "read readable": outcome(lambda: os.open(f"{readable}/file", os.O_RDONLY)),
            "list readable": outcome(lambda: os.listdir(readable)),
            "write readable": outcome(lambda: os.open(f"{readable}/file", os.O_WRONLY)),
            "create in readable": outcome(lambda: touch(f"{readable}/new")),
            "read writable": outcome(lambda: os.open(f"{writable}/file", os.O_RDWR)),
            "create in writable": outcome(lambda: touch(f"{writable}/new")),
            "truncate": outcome(lambda: os.truncate(f"{writable}/file", 1)),
            "folder": outcome(lambda: os.mkdir(f"{writable}/inner")),
            "link": outcome(lambda: os.symlink("/etc", f"{writable}/link")),
            "move between folders": outcome(lambda: os.rename(f"{writable}/new", f"{writable}/inner/new")),
            "remove": outcome(lambda: os.unlink(f"{writable}/inner/new")),
            "read outer": outcome(lambda: os.open(f"{outer}/file", os.O_RDONLY)),
            "list outer": outcome(lambda: os.listdir(outer)),
            "by link": outcome(lambda: os.open(f"{writable}/link/hostname", os.O_RDONLY)),
            "by parent": outcome(lambda: os.open(f"{writable}/../outer/file", os.O_RDONLY)),
            "create in outer": outcome(lambda: touch(f"{outer}/new")),
            "remove in outer": outcome(lambda: os.unlink(f"{outer}/file")),
            "process": outcome(lambda: os.open("/proc/self/mountinfo", os.O_RDONLY)),
            "null": outcome(lambda: os.open("/dev/null", os.O_RDWR)),
        }

    found = restricted(folders, attempts, confine=True, user=user)
    allowed = {
        "read readable",
        "list readable",
        "read writable",
        "create in writable",
        "truncate",
        "folder",
        "link",
        "move between folders",
        "remove",
        "null",
    }
    if jail.abi() == 1:
        allowed -= {"move between folders", "remove"}
    assert {name for name, result in found.items() if result == "ok"} == allowed
    refused = {name: result for name, result in found.items() if name not in allowed}
    assert set(refused.values()) <= {"EACCES", "EXDEV", "ENOENT"}, refused
    assert {refused[name] for name in ("read outer", "list outer", "create in outer", "process")} == {"EACCES"}


def test_with_a_private_root_only_programs_and_special_files_are_refused(folders: tuple[str, str, str]) -> None:
    _readable, writable, outer = folders

    def attempts() -> dict[str, str]:
        os.mkdir(f"{writable}/inner")
        found = {
            "read": outcome(lambda: os.open(f"{outer}/file", os.O_RDWR)),
            "move": outcome(lambda: os.rename(f"{writable}/file", f"{writable}/inner/file")),
            "execute": outcome(lambda: os.execv("/bin/true", ["true"])),
            "fifo": outcome(lambda: os.mkfifo(f"{writable}/fifo")),
            "socket": outcome(lambda: socket.socket(socket.AF_UNIX).bind(f"{writable}/socket")),
        }
        if os.geteuid() == 0:
            found["device"] = outcome(lambda: os.mknod(f"{writable}/device", 0o020600, os.makedev(1, 3)))
        return found

    found = restricted(folders, attempts, confine=False)
    assert found.pop("read") == "ok"
    assert found.pop("move") == ("ok" if jail.abi() >= 2 else "EXDEV")
    assert set(found.values()) == {"EACCES"}


def test_network_and_signals_are_refused_as_the_version_allows(folders: tuple[str, str, str]) -> None:
    abstract = f"\0saccade-{os.getpid()}"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        address = tcp.getsockname()
        unix.bind(abstract)
        unix.listen()

        def attempts() -> dict[str, str]:
            return {
                "connect": outcome(lambda: socket.socket().connect(address)),
                "bind": outcome(lambda: socket.socket().bind(("127.0.0.1", 0))),
                "abstract": outcome(lambda: socket.socket(socket.AF_UNIX).connect(abstract)),
                "signal": outcome(lambda: os.kill(os.getppid(), 0)),
            }

        found = restricted(folders, attempts, confine=False)
    if jail.abi() >= 4:
        assert found["connect"] == found["bind"] == "EACCES"
    if jail.abi() >= 6:
        assert found["abstract"] == found["signal"] == "EPERM"


def test_an_open_folder_serves_as_well_as_a_path(folders: tuple[str, str, str]) -> None:
    def run() -> list[str]:
        handle = os.open(folders[1], os.O_RDONLY)
        privileges.no_new_privs()
        jail.restrict([], [handle], confine_files=True)
        return [outcome(lambda: touch(f"{folders[1]}/new")), outcome(lambda: touch(f"{folders[2]}/new"))]

    assert in_child(run) == ["ok", "EACCES"]


def test_a_folder_out_of_reach_is_left_out(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    (tmp_path / "closed" / "inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    inner = str(tmp_path / "closed" / "inner")

    def run() -> str:
        privileges.no_new_privs()
        jail.restrict([inner], [], confine_files=True)
        return outcome(lambda: os.listdir(inner))

    assert in_child(run, user=NOBODY) == ("EACCES" if os.geteuid() == 0 else "ok")


@pytest.mark.parametrize("version", range(1, jail.abi() + 1))
def test_every_older_version_is_served(folders: tuple[str, str, str], version: int) -> None:
    def run() -> str:
        jail.abi = lambda: version  # type: ignore[assignment]
        privileges.no_new_privs()
        jail.restrict([folders[0]], [folders[1]], confine_files=True)
        return outcome(lambda: os.listdir(folders[2])) + outcome(lambda: touch(f"{folders[1]}/new"))

    assert in_child(run) == "EACCESok"


def test_without_landlock_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "abi", lambda: 0)
    with pytest.raises(OSError, match="no Landlock"):
        jail.restrict([], [], confine_files=True)
