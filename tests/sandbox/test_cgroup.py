from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.children import NOBODY, fork, in_child, outcome

from saccade.errors import SandboxError
from saccade.sandbox import cgroup
from saccade.sandbox import cgroup as cgroup_places
from saccade.sandbox.cgroup import Cgroups, SessionCgroup, candidates, sweep

MIB = 1024 * 1024


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    made = Cgroups.probe()
    if isinstance(made, str):
        pytest.skip(f"no control groups here: {made}")
    yield made
    made.close()
    assert not any(os.path.exists(folder) for folder in made.folders)


def join(group: SessionCgroup) -> None:
    for fd in group.join_fds:
        os.write(fd, b"0")


def test_memory_is_limited_for_the_whole_session(groups: Cgroups) -> None:
    group = groups.create(64 * MIB, 50)
    assert group.oom_kills() == 0
    pid = fork()
    if pid == 0:
        join(group)
        block = mmap.mmap(-1, 200 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for offset in range(0, 200 * MIB, 4096):
            block[offset] = 1
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert group.oom_kills() == 1
    group.remove()
    assert group.oom_kills() == 1


def test_a_fork_is_lent_memory_for_as_long_as_it_lives(groups: Cgroups) -> None:
    origin = groups.create(64 * MIB, 50)
    file = f"{groups.folders[0]}/s2/{'memory.max' if groups.version == 2 else 'memory.limit_in_bytes'}"

    def limit() -> int:
        return int(Path(file).read_text())

    branches = [groups.create(64 * MIB, 50) for _ in range(2)]
    for branch in branches:
        branch.forked_from(origin)
    assert limit() == 64 * MIB + 2 * cgroup.FORK_BYTES
    branches[0].remove()
    assert limit() == 64 * MIB + cgroup.FORK_BYTES
    origin.remove()
    branches[1].remove()


def test_a_session_may_weigh_less_for_a_while(groups: Cgroups) -> None:
    unshared = groups.create(64 * MIB, 50)
    unshared.weigh_less(True)  # nothing to change, and nothing that fails
    unshared.remove()
    groups.share_processors()
    if groups.no_cpu:
        pytest.skip(groups.no_cpu)
    group = groups.create(64 * MIB, 50)
    file = Path(groups.folders[groups.cpu]) / "s3" / ("cpu.weight" if groups.version == 2 else "cpu.shares")
    usual = int(file.read_text())
    group.weigh_less(True)
    assert int(file.read_text()) == usual // cgroup.LESS
    group.weigh_less(False)
    assert int(file.read_text()) == usual
    group.remove()
    group.weigh_less(True)


def test_processes_are_limited(groups: Cgroups) -> None:
    group = groups.create(64 * MIB, 4)

    def run() -> list[str]:
        join(group)
        read_end, write_end = os.pipe()
        results = []
        children = []
        for _ in range(6):
            try:
                pid = os.fork()
            except OSError as error:
                results.append(errno.errorcode[error.errno or 0])
                continue
            if pid == 0:
                os.close(write_end)
                os.read(read_end, 1)
                os._exit(0)
            children.append(pid)
            results.append("ok")
        os.close(write_end)
        for pid in children:
            os.waitpid(pid, 0)
        return results

    assert in_child(run) == ["ok"] * 3 + ["EAGAIN"] * 3
    group.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_without_privileges_joins_by_the_descriptors(groups: Cgroups) -> None:
    group = groups.create(64 * MIB, 50)
    fds = group.join_fds

    def run() -> list[str]:
        by_fd = outcome(lambda: join(group))
        with open("/proc/self/cgroup") as file:
            inside = sum("saccade-" in line for line in file)
        return [by_fd, str(inside == len(fds)), outcome(lambda: os.open(path, os.O_WRONLY))]

    path = f"{groups.folders[0]}/cgroup.procs"
    assert in_child(run, user=NOBODY) == ["ok", "True", "EACCES"]
    group.remove()


def test_removal_is_idempotent_and_waits_for_the_living(groups: Cgroups) -> None:
    group = groups.create(64 * MIB, 50)
    folder = f"{groups.folders[0]}/s2"
    assert os.path.isdir(folder)
    read_end, write_end = os.pipe()
    pid = fork()
    if pid == 0:
        join(group)
        os.write(write_end, b"r")
        signal.pause()
    os.close(write_end)
    assert os.read(read_end, 1), "the child has died"
    group.remove()
    group.remove()
    assert os.path.isdir(folder)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    # The next session's start takes it away.
    for _ in range(100):
        groups.create(64 * MIB, 50).remove()
        if not os.path.isdir(folder):
            break
    assert not os.path.isdir(folder)
    os.close(read_end)


def test_descriptors_are_closed(groups: Cgroups) -> None:
    group = groups.create(64 * MIB, 50)
    fds = group.join_fds
    assert fds
    group.close_fds()
    group.remove()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)


def test_a_folder_removed_by_others_is_told(groups: Cgroups) -> None:
    for folder in groups.folders:
        os.rmdir(folder)
    with pytest.raises(SandboxError, match="open a new sandbox"):
        groups.create(64 * MIB, 50)


def test_the_janitor_removes_what_the_dead_left_and_nothing_else(groups: Cgroups) -> None:
    code = (
        "import os, sys; from saccade.sandbox.cgroup import Cgroups; made = Cgroups.probe(); "
        "made.create(1 << 26, 10); print(*made.folders); sys.stdout.flush(); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    left = done.stdout.split()
    assert left
    assert all(os.path.isdir(folder) for folder in left)
    alive = groups.create(64 * MIB, 50)
    assert set(left) <= set(sweep())
    assert not any(os.path.exists(folder) for folder in left)
    assert all(os.path.isdir(folder) for folder in groups.folders)
    in_child(lambda: outcome(lambda: join(alive)))
    alive.remove()


@pytest.mark.parametrize(
    ("name", "dead"),
    [
        ("saccade-{pid}-{start}-{namespace}-00", False),
        ("saccade-{pid}-1-{namespace}-00", True),
        ("saccade-999999999-1-{namespace}-00", True),
        ("saccade-{pid}-1-12-00", False),
        ("saccade-something-else", False),
        ("saccade", False),
    ],
)
def test_the_name_tells_whether_the_owner_lives(name: str, dead: bool) -> None:
    start = cgroup._start_time(os.getpid())
    text = name.format(pid=os.getpid(), start=start, namespace=cgroup._pid_namespace())
    assert cgroup._owner_is_dead(text) is dead


def test_a_plain_user_is_told_why_not() -> None:
    def run() -> str:
        made = Cgroups.probe()
        if isinstance(made, str):
            return made
        made.close()
        return "delegated"

    if os.geteuid() != 0:
        pytest.skip("needs a user without a delegated group")
    assert in_child(run, user=NOBODY) != ""


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Cgroups.probe() == "control groups exist on Linux only"


class TestPlaces:
    """Version 2, on folders that look like a tree of groups."""

    def tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handed_on: dict[str, str]) -> None:
        for place, controllers in handed_on.items():
            folder = tmp_path / place
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text("")
            (folder / "cgroup.subtree_control").write_text(controllers)
        real = cgroup_places.read
        texts = {
            "/proc/self/cgroup": "0::/user/app/own\n",
            "/proc/self/mountinfo": f"30 20 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n",
        }
        monkeypatch.setattr(cgroup_places, "read", lambda path: texts.get(path) or real(path))

        def refuse(folder: str) -> None:
            raise OSError(errno.EBUSY, "it holds processes")

        monkeypatch.setattr(cgroup_places, "enable", refuse)

    def test_the_nearest_group_that_hands_on_both(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        handed_on = {".": "cpu memory pids", "user": "memory pids", "user/app": "memory", "user/app/own": ""}
        self.tree(tmp_path, monkeypatch, handed_on)
        assert candidates()[0][:2] == (2, (f"{tmp_path}/user",))

    def test_none_hands_them_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree(tmp_path, monkeypatch, {".": "cpu", "user/app/own": ""})
        version, folders, why = candidates()[0]
        assert (version, folders) == (2, ())
        assert "hands on memory and pids" in why
        assert "hands on memory and pids" in str(Cgroups.probe())
