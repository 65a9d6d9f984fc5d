"""Whatever process is killed at whatever moment: nothing is left behind, and a host that lives goes on."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.plugins.audit.attacks.runner import descendants
from saccade.record.execution import Status
from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).with_name("host_program.py")
PATIENCE = 60.0
PR_SET_CHILD_SUBREAPER = 36


def seeds(count: int) -> list[Any]:
    """The first moment of a kill in the suite, the others in `make test-slow`."""
    return [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, count))]


@pytest.fixture
def _subreaper() -> Iterator[None]:
    """Orphans become our children instead of being lost from sight."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Host:
    """A running host program, with a temporary folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cgroups = cgroup_folders()
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder)},
            text=True,
        )
        self.wait_for("ready")
        self.family = {self.process.pid, *descendants(self.process.pid)}

    def events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def wait_for(self, name: str) -> dict[str, Any]:
        """The next event of that name; fails if the host raised or ended before it."""
        for event in self.events():
            assert event["event"] != "raised", event
            if event["event"] == name:
                return event
        raise AssertionError(f"the host ended before it said {name!r}")

    def levels(self) -> dict[str, list[int]]:
        """Process ids by their part: launcher, zygote, sessions (keepers and leaves)."""
        launchers = children(self.process.pid)
        zygotes = [pid for launcher in launchers for pid in children(launcher)]
        sessions = [pid for zygote in zygotes for pid in children(zygote)]
        return {"launcher": launchers, "zygote": zygotes, "session": sessions}

    def end(self) -> None:
        """Let it close its sandbox and wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.wait_for("closed")
        assert self.process.wait(PATIENCE) == 0

    def leftovers(self) -> list[str]:
        """What is left of the host and its sandbox."""
        # Zombies that we inherited are ours to bury, and count as gone.
        living = sorted(self.family & descendants())
        left = [f"process {pid}: {command(pid)}" for pid in living]
        left += [f"file {path}" for path in self.folder.rglob("*")]
        left += [f"cgroup {path}" for path in cgroup_folders() - self.cgroups if f"-{self.process.pid}-" in path]
        # A folder there belongs to servers of models, which may run beside this.
        shared = [entry.name for entry in os.scandir("/dev/shm") if not entry.is_dir()]
        left += [f"shared memory {name}" for name in shared if "saccade" in name]
        return left + [f"SysV segment of {pid}" for pid in sysv_creators() & self.family]

    def assert_nothing_left(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while left := self.leftovers():
            assert time.monotonic() < deadline, "\n".join(left)
            time.sleep(0.05)
        bury()


def children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        return [int(c) for task in tasks for c in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except OSError:
        return []


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80]
    except OSError:
        return "?"


def inner_pid(pid: int) -> str:
    """The number that the process knows itself by, in its own namespace; empty if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))


def cgroup_folders() -> set[str]:
    return {root for root, _folders, _files in os.walk("/sys/fs/cgroup") if "/saccade-" in root}


def sysv_creators() -> set[int]:
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return set()
    return {int(line.split()[4]) for line in lines}


def bury() -> None:
    """Collect the zombies that came to us."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


@pytest.fixture
def host(tmp_path: Path, _subreaper: None) -> Iterator[Host]:
    started = Host(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.wait()
    for pipe in (started.process.stdin, started.process.stdout):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
    bury()


@pytest.mark.slow  # an orderly end is also how the hosts end whose parts were killed
def test_an_orderly_end_leaves_nothing(host: Host) -> None:
    host.family |= descendants(host.process.pid)
    host.end()
    host.assert_nothing_left()


@pytest.mark.parametrize("seed", seeds(3))
def test_killed_host_leaves_nothing(host: Host, seed: int) -> None:
    time.sleep(random.Random(seed).uniform(0, 0.4))
    host.family |= descendants(host.process.pid)
    host.process.kill()
    host.process.wait()
    host.assert_nothing_left()


@pytest.mark.slow
def test_interrupted_host_leaves_nothing(host: Host) -> None:
    host.process.send_signal(signal.SIGINT)
    host.process.stdin.close()  # type: ignore[union-attr]
    host.process.wait(PATIENCE)
    host.assert_nothing_left()


@pytest.mark.parametrize("part", [pytest.param("launcher", marks=pytest.mark.slow), "zygote"])
@pytest.mark.parametrize("seed", seeds(2))
def test_killed_part_is_lost_and_replaced(host: Host, part: str, seed: int) -> None:
    time.sleep(random.Random(seed).uniform(0, 0.3))
    [pid] = host.levels()[part]
    os.kill(pid, signal.SIGKILL)
    assert host.wait_for("ended")["status"] == "lost"
    again = host.wait_for("again")
    assert (again["status"], again["stdout"]) == ("ok", "works again")
    host.family |= descendants(host.process.pid)
    host.end()
    host.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_killed_session_processes_never_raise(host: Host, seed: int) -> None:
    """Keepers and leaves die at random; the host's calls end with a status, and it can go on and close."""
    chance = random.Random(seed)
    for _ in range(5):
        sessions = host.levels()["session"]
        if sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(sessions), signal.SIGKILL)
        time.sleep(chance.uniform(0, 0.1))
    host.family |= descendants(host.process.pid)
    host.end()
    host.assert_nothing_left()


@pytest.mark.parametrize("during", [False, True], ids=["idle", "running"])
@pytest.mark.parametrize("victims", [(0,), (1,), (0, 1)], ids=["keeper", "leaf", "both"])
@pytest.mark.asyncio(loop_scope="session")
async def test_session_after_its_processes_were_killed(
    victims: tuple[int, ...], during: bool, box: LocalSandbox
) -> None:
    """Calls end with a status; the session works again (with its state, or from its start) or says it is lost."""
    await box.open()  # starts the processes that all sessions share
    before = descendants()
    session = await box.open({"x": 1})
    await session.run("y = 1")
    await session._link.ready()
    async with asyncio.timeout(PATIENCE):
        while len(own := descendants() - before) != 2:  # the keeper before the call is on its way out
            await asyncio.sleep(0.01)
    processes = sorted(own, key=lambda pid: inner_pid(pid) == str(session._link._leaf.pid))  # keeper, leaf
    running = asyncio.create_task(session.run("import time\ntime.sleep(0.5)")) if during else None
    await asyncio.sleep(0.1)
    # Held before the first of them dies: the zygote kills what is left of a session without a keeper.
    held = [os.pidfd_open(processes[index]) for index in victims]
    for victim in held:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(victim, signal.SIGKILL)
        os.close(victim)
    if running is not None:
        await asyncio.wait_for(running, PATIENCE)
    results = [await asyncio.wait_for(session.run("print(x)"), PATIENCE) for _ in range(3)]
    assert results[-1].status in (Status.OK, Status.LOST), results
    assert results[-1].status is Status.LOST or results[-1].stdout == "1\n"
    async with asyncio.timeout(PATIENCE):
        other = await box.open()
        assert (await other.run("1")).status is Status.OK
        await session.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_session_whose_keeper_dies_just_after_a_call_is_lost_and_does_not_start_again(
    box: LocalSandbox,
) -> None:
    """No wait in between: the next call meets a keeper whose death nobody has reported yet."""
    await box.open()  # starts the processes that all sessions share
    for _ in range(5):
        before = descendants()
        session = await box.open({"x": 1})
        called = await session.run("import os\nos.getpid()")
        # The process of a call that is kept is the keeper from then on.
        os.kill(next(pid for pid in descendants() - before if inner_pid(pid) == called.value), signal.SIGKILL)
        results = [await asyncio.wait_for(session.run("print(x)"), PATIENCE) for _ in range(2)]
        assert [result.status for result in results] == [Status.LOST] * 2
        await session.close()


@pytest.mark.slow
def test_killed_together(host: Host) -> None:
    """Host, launcher and zygote at once."""
    levels = host.levels()
    host.family |= descendants(host.process.pid)
    for pid in (*levels["zygote"], host.process.pid, *levels["launcher"]):
        os.kill(pid, signal.SIGKILL)
    host.process.wait()
    deadline = time.monotonic() + PATIENCE
    while living := [pid for pid in host.family if pid in descendants()]:
        assert time.monotonic() < deadline, [command(pid) for pid in living]
        time.sleep(0.05)
