"""The protocol of control groups of version 2, on folders that behave like the kernel's: it fills what is made in them.

Where the kernel itself hands memory and pids on in version 2, test_cgroup.py goes through the real ones.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.sandbox import cgroup
from saccade.sandbox import cgroup as cgroup_places
from saccade.sandbox.cgroup import FORK_BYTES, LESS, Cgroups

pytestmark = linux_only

MIB = 1 << 20
FILES = {
    "cgroup.procs": "",
    "cgroup.subtree_control": "",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.current": "0",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
    "pids.max": "max",
    "pids.current": "0",
    "cpu.weight": "100",
}


class Tree:
    """A tree of groups below `top`; this process stands in its folder `own`."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own = top / "app"
        self.busy: set[str] = set()
        """Folders that still hold processes."""
        self._texts = {
            "/proc/self/cgroup": "0::/app\n",
            "/proc/self/mountinfo": f"30 20 0:26 / {top} rw - cgroup2 cgroup2 rw\n",
        }
        self._mkdir, self._rmdir, self._read = os.mkdir, os.rmdir, cgroup_places.read
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        for module in (cgroup, cgroup_places):
            monkeypatch.setattr(module, "read", self.read)
            monkeypatch.setattr(module, "write", self.write)
        self.mkdir(self.own)

    def mkdir(self, path: str | Path, mode: int = 0o777) -> None:
        """The kernel fills the folder."""
        self._mkdir(path, mode)
        for name, text in FILES.items():
            (Path(path) / name).write_text(text)

    def rmdir(self, path: str) -> None:
        """Files do not count, groups and processes do."""
        if path in self.busy or any(entry.is_dir() for entry in os.scandir(path)):
            raise OSError(errno.EBUSY, "it is in use")
        for name in FILES:
            os.unlink(f"{path}/{name}")
        self._rmdir(path)

    def read(self, path: str) -> str:
        return self._texts.get(path) or self._read(path)

    def write(self, path: str, value: int | str) -> None:
        """A control file must exist, and holds what was written last; controllers are added with a sign."""
        file = Path(path)
        old = file.read_text()
        if file.name == "cgroup.subtree_control":
            value = " ".join(sorted({*old.split(), *(name.removeprefix("+") for name in str(value).split())}))
        file.write_text(str(value))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


def probed() -> Cgroups:
    made = Cgroups.probe()
    assert isinstance(made, Cgroups), made
    assert made.version == 2
    return made


def test_limits_of_a_session(tree: Tree) -> None:
    made = probed()
    [folder] = made.folders
    assert Path(folder).parent == tree.own
    assert (Path(folder) / "cgroup.subtree_control").read_text() == "memory pids"
    group = made.create(64 * MIB, 12)
    session = Path(folder) / "s2"
    limits = {name: (session / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")}
    assert limits == {"memory.max": str(64 * MIB), "memory.swap.max": "0", "pids.max": "12"}
    [fd] = group.join_fds
    os.write(fd, b"0")
    assert (session / "cgroup.procs").read_text() == "0"
    assert group.oom_kills() == 0
    (session / "memory.events").write_text("oom 3\noom_kill 2\n")
    assert group.oom_kills() == 2
    group.remove()
    assert not session.exists()
    assert group.oom_kills() == 2
    made.close()
    assert not Path(folder).exists()


def test_a_branch_is_counted_where_it_was_forked(tree: Tree) -> None:
    made = probed()
    origin, branch = made.create(64 * MIB, 12), made.create(64 * MIB, 12)
    branch.forked_from(origin)
    limit = Path(made.folders[0]) / "s2" / "memory.max"
    assert limit.read_text() == str(64 * MIB + FORK_BYTES)
    branch.remove()
    assert limit.read_text() == str(64 * MIB)


def test_processors_are_shared(tree: Tree) -> None:
    made = probed()
    made.share_processors()
    assert made.no_cpu == ""
    folder = Path(made.folders[0])
    assert (folder / "cgroup.subtree_control").read_text() == "cpu memory pids"
    assert int((folder / "cpu.weight").read_text()) == 100 * (os.cpu_count() or 1)
    assert int((Path(made.zygote) / "cpu.weight").read_text()) > 100
    group = made.create(64 * MIB, 12)
    weight = folder / "s2" / "cpu.weight"
    group.weigh_less(True)
    assert weight.read_text() == str(100 // LESS)
    group.weigh_less(False)
    assert weight.read_text() == "100"


def test_without_the_cpu_controller_the_promise_is_named(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FILES, "cpu.weight")
    made = probed()
    made.share_processors()
    assert made.no_cpu.startswith("processors cannot be shared out")
    made.create(64 * MIB, 12).weigh_less(True)


def test_a_group_in_use_is_removed_later(tree: Tree) -> None:
    made = probed()
    folder = Path(made.folders[0]) / "s2"
    group = made.create(64 * MIB, 12)
    tree.busy.add(str(folder))
    group.remove()
    assert folder.exists()
    tree.busy.clear()
    made.create(64 * MIB, 12)
    assert not folder.exists()
