from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import NOBODY, fork, in_child, outcome

from saccade.guest import privileges
from saccade.guest.syscalls import syscall

MIB = 1024 * 1024
WIDE = {"cpu_seconds": 1000, "memory_bytes": 1 << 40, "processes": 1 << 20, "open_files": 1024, "file_bytes": 1 << 40}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def status(field: str) -> str:
    with open("/proc/self/status") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(field + ":"))


def test_memory_is_limited_beyond_what_is_held() -> None:
    def run() -> list[bool]:
        import numpy as np

        gc.collect()  # what other tests have left is not to be freed, and counted, later
        held = np.ones(20 * MIB, np.uint8)
        privileges.set_limits(WIDE | {"memory_bytes": 64 * MIB})
        fits = np.ones(40 * MIB, np.uint8)
        refused = []
        # Untouched memory counts as well: the program is told at once. 100 MiB are asked of the kernel itself, since
        # malloc may have as much left from other tests.
        for ask in (
            lambda: np.empty(2048 * MIB, np.uint8),
            lambda: mmap.mmap(-1, 100 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
        ):
            try:
                ask()
            except (MemoryError, OSError):
                refused.append(len(held) + len(fits) == 60 * MIB)
        return refused

    assert in_child(run) == [True, True]


@pytest.mark.parametrize("protection", [mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ])
def test_reserved_address_space_is_limited(protection: int) -> None:
    def run() -> str:
        privileges.set_limits(WIDE | {"memory_bytes": 64 * MIB})
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return outcome(lambda: mmap.mmap(-1, 8192 * MIB, flags=flags, prot=protection))

    assert in_child(run) == "ENOMEM"


def test_cpu_time_ends_the_process() -> None:
    pid = fork()
    if pid == 0:
        try:
            privileges.set_limits(WIDE | {"cpu_seconds": 1})
            # Ignoring the warning does not help.
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
            while True:
                pass
        finally:
            os._exit(0)
    _, code = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(code) == -signal.SIGKILL


def test_files_and_descriptors_are_limited(tmp_path: object) -> None:
    def run() -> list[str]:
        privileges.set_limits(WIDE | {"file_bytes": 1000, "open_files": 200})
        with open(f"{tmp_path}/file", "wb", buffering=0) as file:
            written = file.write(bytes(2000))
            more = outcome(lambda: file.write(b"more"))
        kept: list[int] = []

        def flood() -> None:
            while True:
                kept.append(os.open("/dev/null", os.O_RDONLY))

        many = outcome(flood)
        return [str(written), more, many]

    assert in_child(run) == ["1000", "EFBIG", "EMFILE"]


@needs_root
def test_processes_and_threads_are_limited() -> None:
    def run() -> int:
        privileges.set_limits(WIDE | {"processes": 6})
        started = 0
        stop = threading.Event()
        try:
            for _ in range(20):
                threading.Thread(target=stop.wait, daemon=True).start()
                started += 1
        except RuntimeError:
            pass
        stop.set()
        return started

    assert in_child(run, user=31234) == 5


def test_limits_that_are_always_set() -> None:
    def run() -> list[Any]:
        privileges.set_limits(WIDE)
        core, stack = resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_STACK)
        locked = outcome(lambda: syscall("mlock", 0x1000, 4096)) if os.geteuid() else "EPERM"
        return [core, stack[0], resource.getrlimit(resource.RLIMIT_MEMLOCK), locked]

    core, stack, locked, _ = in_child(run)
    assert core == locked == [0, 0]
    assert stack <= 8 * MIB


def test_a_lower_limit_of_the_host_is_kept() -> None:
    most = os.dup(0) + 50  # some must be free below the limit

    def run() -> tuple[int, int]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most - 10, most))
        privileges.set_limits(WIDE | {"open_files": 1000})
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    assert in_child(run) == [most, most]
    os.close(most - 50)


@needs_root
def test_capabilities_are_gone_and_stay_gone() -> None:
    def run() -> list[str]:
        privileges.drop_capabilities()
        privileges.drop_capabilities()
        fields = [status(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
        return [*fields, outcome(lambda: os.setgroups([])), outcome(lambda: os.chown("/dev/null", 1, 1))]

    *sets, groups, chown = in_child(run)
    assert {int(text, 16) for text in sets} == {0}
    assert groups == chown == "EPERM"


@pytest.mark.parametrize(
    ("step", "file", "line"),
    [
        (privileges.drop_capabilities, "status", "CapEff:\t0000000000000000"),
        (privileges.no_new_privs, "status", "NoNewPrivs:\t1"),
        (privileges.oom_first, "oom_score_adj", "1000"),
    ],
    ids=["capabilities", "no new ones", "first when memory is short"],
)
def test_what_the_kernel_says_of_a_plain_user(step: Callable[[], None], file: str, line: str) -> None:
    def run() -> list[str]:
        step()
        return Path("/proc/self", file).read_text().splitlines()

    assert line in in_child(run, user=NOBODY)


@needs_root
def test_bounding_set_is_emptied_while_capabilities_are_in_use() -> None:
    def run() -> list[Any]:
        done = privileges.limit_capabilities()
        bound, effective = int(status("CapBnd"), 16), int(status("CapEff"), 16)
        privileges.become_user(NOBODY, NOBODY)
        return [done, bound, effective, int(status("CapPrm"), 16)]

    done, bound, effective, after = in_child(run)
    assert done
    assert bound == after == 0
    assert effective != 0
    assert in_child(privileges.limit_capabilities, user=NOBODY) is False


@needs_root
def test_another_user_for_good() -> None:
    def run() -> list[Any]:
        os.setgroups([5, 6])  # as those of a login, which must not stay
        privileges.become_user(NOBODY, NOBODY)
        again = outcome(lambda: privileges.become_user(1, 1))
        return [os.getresuid(), os.getresgid(), os.getgroups(), outcome(lambda: os.setuid(0)), again]

    assert in_child(run) == [[NOBODY] * 3, [NOBODY] * 3, [], "EPERM", "EPERM"]


@pytest.mark.parametrize("dumpable", [1, 0])
def test_a_user_namespace_of_ones_own(dumpable: int) -> None:
    def run() -> list[Any] | str:
        privileges.set_dumpable(dumpable)
        before = (os.getuid(), os.getgid(), os.readlink("/proc/self/ns/user") if dumpable else "")
        try:
            privileges.own_user_namespace()
        except PermissionError:
            return "none"
        after = (os.getuid(), os.getgid(), os.readlink("/proc/self/ns/user") if dumpable else "other")
        full = int(status("CapEff"), 16)
        privileges.drop_capabilities()
        return [before, after, full, int(status("CapEff"), 16), syscall("prctl", 3)]

    found = in_child(run, user=NOBODY)
    if found == "none":
        pytest.skip("no user namespaces for plain users on this machine")
    before, after, full, dropped, now_dumpable = found
    assert before[:2] == after[:2]
    assert before[2] != after[2]
    assert full != 0
    assert dropped == 0
    assert now_dumpable == dumpable


@pytest.mark.parametrize("own", [True, False])
def test_a_namespace_counts_processes_by_itself(own: bool) -> None:
    def run() -> str:
        if own:
            try:
                privileges.own_user_namespace()
            except PermissionError:
                return "none"
        privileges.drop_capabilities()
        privileges.set_limits(WIDE | {"processes": 2})

        def start() -> None:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

        return outcome(start)

    # Two other processes of the same user, outside.
    others = []
    for _ in range(2):
        ready_read, ready_write = os.pipe()
        pid = fork()
        if pid == 0:
            if os.geteuid() == 0:
                os.setresuid(31235, 31235, 31235)
            os.write(ready_write, b"r")
            signal.pause()
        os.close(ready_write)
        assert os.read(ready_read, 1), "the other process has died"
        os.close(ready_read)
        others.append(pid)
    try:
        found = in_child(run, user=31235)
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if found == "none":
        pytest.skip("no user namespaces for plain users on this machine")
    assert found == ("ok" if own else "EAGAIN")


def test_a_process_that_is_not_dumpable_hides_its_memory() -> None:
    def run() -> list[str]:
        def read_memory() -> None:
            os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY))

        before = in_child(lambda: outcome(read_memory))
        privileges.set_dumpable(0)
        return [before, in_child(lambda: outcome(read_memory))]

    assert in_child(run, user=NOBODY) == ["ok", "EACCES"]


def test_a_process_dies_with_its_parent() -> None:
    def run() -> int:
        ready_read, ready_write = os.pipe()
        alive_read, alive_write = os.pipe()
        parent = os.fork()
        if parent == 0:
            if os.fork() == 0:
                privileges.die_with_parent(os.getppid())
                os.write(ready_write, b"r")
                signal.pause()
            os.read(ready_read, 1)
            os._exit(0)
        os.close(alive_write)
        os.waitpid(parent, 0)
        # End of file comes when the grandchild, the last holder of the other end, is dead.
        return len(os.read(alive_read, 1))

    assert in_child(run) == 0


def test_a_process_whose_parent_is_gone_already_ends() -> None:
    def run() -> int:
        child = os.fork()
        if child == 0:
            privileges.die_with_parent(1 << 22)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert in_child(run) == 1
