"""Room for many sessions is asked for before anything is made, and the limit is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxError
from saccade.plugins.audit.attacks.runner import descendants
from saccade.sandbox import capacity, cgroup
from saccade.sandbox import capacity as cgroup_room
from saccade.sandbox.base import Limits
from saccade.sandbox.capacity import Room
from saccade.sandbox.cgroup import CONTROLLERS
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox

MIB = 1 << 20
LIMITS = {
    "_files_left": "open files of this process",
    "_processes_left": "processes of this machine",
    "_mounts_left": "mounts",
    "_memory_left": "bytes of memory",
}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Plenty of everything."""
    for name in LIMITS:
        monkeypatch.setattr(capacity, name, lambda: 1 << 50)
    for name in ("memory_room", "process_room"):
        monkeypatch.setattr(capacity, name, lambda: None)
    return monkeypatch


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_named(name: str, room: pytest.MonkeyPatch) -> None:
    capacity.check_room(5000, kin=1, most_kin=None)
    room.setattr(capacity, name, lambda: 7)
    with pytest.raises(SandboxError, match=f"{LIMITS[name]}, and there is room for 7"):
        capacity.check_room(5000, kin=1, most_kin=None)
    room.setattr(capacity, name, lambda: None)  # cannot be known: left to the kernel
    capacity.check_room(5000, kin=1, most_kin=None)


@pytest.mark.parametrize(("name", "spare"), [("memory_room", 0), ("process_room", 256)])
def test_a_control_group_around_is_named(name: str, spare: int, room: pytest.MonkeyPatch) -> None:
    room.setattr(capacity, name, lambda: Room(7 + spare, "/groups/app/limit"))
    with pytest.raises(SandboxError, match=r"of the control group, and there is room for 7\. Raise /groups/app/limit"):
        capacity.check_room(5000, kin=1, most_kin=None)


class TestGroupsAround:
    """Limits at any level, in files that look like those of the kernel."""

    def group(self, folder: Path, files: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text + "\n")

    def tree(self, monkeypatch: pytest.MonkeyPatch, own: str, mounts: str) -> None:
        texts = {"/proc/self/cgroup": own, "/proc/self/mountinfo": mounts}
        real = cgroup.read
        for module in (cgroup, cgroup_room):
            monkeypatch.setattr(module, "read", lambda path: texts.get(path) or real(path))

    def test_version_2(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mount = f"30 20 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
        self.tree(monkeypatch, "0::/app/own\n", mount)
        self.group(tmp_path, {})  # the root has no limits
        assert cgroup_room.memory_room() is cgroup_room.process_room() is None
        self.group(tmp_path / "app" / "own", {"memory.max": "max", "memory.current": "5", "pids.max": "max"})
        limits = {"memory.max": str(100 * MIB), "memory.current": str(90 * MIB), "pids.max": "50", "pids.current": "20"}
        self.group(tmp_path / "app", {**limits, "memory.stat": f"anon 1\ninactive_file {30 * MIB}"})
        assert cgroup_room.memory_room() == (40 * MIB, f"{tmp_path}/app/memory.max")
        assert cgroup_room.process_room() == (30, f"{tmp_path}/app/pids.max")

    def test_version_1(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = (
            f"3{i} 20 0:2{i} / {tmp_path}/{name} rw - cgroup {name} rw,{name}\n" for i, name in enumerate(CONTROLLERS)
        )
        self.tree(monkeypatch, "4:memory:/app\n8:pids:/other\n", "".join(lines))
        for folder, limit in (("memory", 9223372036854771712), ("memory/app", 8 * MIB)):
            files = {"memory.limit_in_bytes": str(limit), "memory.usage_in_bytes": str(MIB)}
            self.group(tmp_path / folder, files)
        self.group(tmp_path / "pids" / "other", {"pids.max": "9", "pids.current": "2"})
        assert cgroup_room.memory_room() == (7 * MIB, f"{tmp_path}/memory/app/memory.limit_in_bytes")
        assert cgroup_room.process_room() == (7, f"{tmp_path}/pids/other/pids.max")


@pytest.mark.parametrize(
    ("name", "each"), [("_files_left", 3), ("_processes_left", 2), ("_mounts_left", 1), ("_memory_left", 5 << 20)]
)
def test_what_a_session_takes_of_each(name: str, each: int, room: pytest.MonkeyPatch) -> None:
    room.setattr(capacity, name, lambda: 40 * each)
    capacity.check_room(40, kin=1, most_kin=None)
    with pytest.raises(
        SandboxError, match=f"^41 more sessions need {41 * each:,} .*, and there is room for {40 * each:,}"
    ):
        capacity.check_room(41, kin=1, most_kin=None)
    room.setattr(capacity, name, lambda: -5)
    with pytest.raises(SandboxError, match="there is room for 0"):
        capacity.check_room(1, kin=1, most_kin=None)


@pytest.mark.parametrize(("name", "spare", "each"), [("memory_room", 0, 5 << 20), ("process_room", 256, 2)])
def test_what_a_session_takes_of_a_control_group(name: str, spare: int, each: int, room: pytest.MonkeyPatch) -> None:
    room.setattr(capacity, name, lambda: Room(40 * each + spare, "/groups/app/limit"))
    capacity.check_room(40, kin=1, most_kin=None)
    with pytest.raises(SandboxError, match=f"need {41 * each:,} .* room for {40 * each:,}"):
        capacity.check_room(41, kin=1, most_kin=None)


def test_what_the_kernel_says_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/sys/kernel/pid_max": "32768\n",
        "/proc/sys/kernel/threads-max": "20000\n",
        "/proc/sys/fs/mount-max": "100000\n",
        "/proc/loadavg": "0.00 0.01 0.05 1/234 5678\n",
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 1000 kB\nSwapFree: 7 kB\n",
    }

    def text(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    monkeypatch.setattr(capacity, "read", text)
    monkeypatch.setattr(capacity.resource, "getrlimit", lambda what: (1024, 4096))
    monkeypatch.setattr(capacity.os, "listdir", lambda path: ["0", "1", "2"])
    found = [getattr(capacity, name)() for name in LIMITS]
    assert found == [1024 - 3 - 64, 20000 - 234 - 256, 100_000 - 256, 1_024_000]
    files["/proc/sys/kernel/threads-max"] = "none\n"
    assert capacity._processes_left() == 32768 - 234 - 256
    monkeypatch.setattr(capacity.resource, "getrlimit", lambda what: (capacity.resource.RLIM_INFINITY, 0))
    files.clear()
    assert [getattr(capacity, name)() for name in LIMITS] == [None] * 4
    files |= {"/proc/loadavg": "1/2\n", "/proc/meminfo": "MemFree: 1 kB\n"}
    assert (capacity._processes_left(), capacity._memory_left()) == (None, None)


@pytest.mark.usefixtures("room")
def test_sessions_of_one_origin_are_counted_together() -> None:
    capacity.check_room(6, kin=4, most_kin=10)
    with pytest.raises(SandboxError, match="at most 10 can be without control groups"):
        capacity.check_room(7, kin=4, most_kin=10)


@linux_only
def test_what_this_machine_has_can_be_told() -> None:
    assert all(getattr(capacity, name)() > 0 for name in ("_files_left", "_processes_left", "_memory_left"))


@linux_only
@pytest.mark.asyncio(loop_scope="session")
async def test_nothing_is_half_made(room: pytest.MonkeyPatch, box: LocalSandbox) -> None:
    session = await box.open({"x": 1})
    await session.run("x")
    room.setattr(capacity, "_files_left", lambda: 50)
    before = descendants()
    with pytest.raises(SandboxError, match="ulimit -n"):
        await session.branch(1000)
    assert descendants() <= before
    (twin,) = await session.branch(1)
    assert (await twin.run("x")).value == "1"


@pytest.mark.slow
@linux_only
async def test_without_control_groups_a_family_has_a_limit() -> None:
    async with LocalSandbox(without=(Layer.CGROUP,)) as box:
        session = await box.open()
        with pytest.raises(SandboxError, match="at most 256 can be without control groups"):
            await session.branch(256)


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_branches_do_not_use_up_the_memory_of_their_origin() -> None:
    """Each fork is counted where it was made: without a loan the limit of the origin would be passed half-way."""
    limits = Limits(memory_bytes=64 * MIB, workspace_bytes=MIB, file_bytes=MIB)
    async with LocalSandbox(limits=limits) as box:
        session = await box.open({"x": 41})
        assert (await session.run("x += 1")).ok
        branches = await session.branch(150)
        assert [(await branch.run("x")).value for branch in (*branches, session)] == ["42"] * 151


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [1000, 5000])
async def test_branches_by_the_thousand_all_answer_or_are_refused(count: int) -> None:
    async with LocalSandbox() as box:
        session = await box.open({"x": 41})
        await session.run("x += 1")
        try:
            branches = await session.branch(count)
        except SandboxError as error:
            assert "and there is room for" in str(error)  # noqa: PT017 - a machine may lack the room
            return
        assert len(branches) == count
        for branch in branches:
            assert (await branch.run("x")).value == "42"
