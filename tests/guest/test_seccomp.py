from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.bpf import ALLOW, ARCH, ERRNO, KILL, decide
from tests.guest.children import in_child, outcome

from saccade.guest import privileges, seccomp
from saccade.guest.seccomp import ALLOWED, ARGUMENT_RULES, FORK_FLAGS, NOT_IMPLEMENTED, PRETENDED
from saccade.guest.syscalls import MACHINES, NUMBERS, machine, number, syscall

EPERM, ENOSYS, NOTHING = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS, ERRNO
REFUSED = sorted(set(NUMBERS) - set(ALLOWED) - set(ARGUMENT_RULES) - set(NOT_IMPLEMENTED) - set(PRETENDED))
# Written out once more, so that none of them can slip into the list unseen.
NEVER_NAMES = (
    "accept accept4 acct add_key bind bpf capget capset chown chroot clock_settime connect delete_module execve "
    "execveat fanotify_init fchown fchownat finit_module fork fsconfig fsmount fsopen init_module "
    "inotify_add_watch inotify_init inotify_init1 io_setup io_uring_enter io_uring_register io_uring_setup ioperm "
    "iopl kcmp kexec_load keyctl landlock_restrict_self lchown listen listmount memfd_create memfd_secret "
    "mknod mknodat mlock mlockall mount mount_setattr move_mount mq_open msgget name_to_handle_at "
    "open_by_handle_at open_tree perf_event_open personality pidfd_getfd pidfd_open pidfd_send_signal pivot_root "
    "process_madvise process_vm_readv process_vm_writev ptrace quotactl reboot request_key rt_sigqueueinfo "
    "rt_tgsigqueueinfo sched_setaffinity sched_setattr sched_setscheduler seccomp semget setgid setgroups "
    "sethostname setns setpgid setpriority setresgid setresuid setrlimit setsid setsockopt setuid setxattr shmat "
    "shmget socket statmount swapon syslog tgkill timer_create timer_settime tkill umount2 unshare userfaultfd "
    "vfork vmsplice"
)
NEVER = NEVER_NAMES.split()
CHILD_TIDS = 0x1200000
GLIBC_THREAD, MUSL_THREAD = 0x3D0F00, 0x7D0F00


OTHERS = "getpgid getsid sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval"
CLOCKS_OF_OTHERS = [((~pid << 3) | kind,) for pid in (1, 2, 4000) for kind in (0, 1, 2, 4, 6)]
"""The id of a process's clock is made of its id."""
WIDE = (1, 1 << 32, (1 << 64) - 1, (1 << 32) - 1, 4711)
ARGUMENTS: list[tuple[str, list[tuple[int, ...]], list[tuple[int, ...]]]] = [
    # Anonymous memory is never shared: it would outlast a rollback.
    ("mmap", [(0, 1, 3, 0x22), (0, 1, 3, 0x01)], [(0, 1, 3, 0x21), (0, 1, 3, 0x23), (0, 1, 3, 0x40021)]),
    (
        "prctl",
        [(15, 1), (40, 1), (1, signal.SIGKILL)],
        [(1, 0), (1, signal.SIGTERM), (4, 1), (22, 2), (8, 1), (24, 0), (36, 1)],
    ),
    # The one signal stops the caller's own group.
    (
        "kill",
        [(0, signal.SIGSTOP)],
        [*((pid, signal.SIGSTOP) for pid in WIDE), *((0, sent) for sent in range(65) if sent != signal.SIGSTOP)],
    ),
    # Limits can be read only.
    ("prlimit64", [(0, 7, 0, 1 << 40)], [(0, 7, 0x1000, 0), (0, 7, 1 << 40, 0), (1, 7, 0, 1 << 40)]),
    ("fcntl", [(3, 3), (3, 1030), (3, 5), (3, 36)], [(3, 8), (3, 10), (3, 15), (3, 1026)]),
    # Pushing characters into a terminal, and taking one over.
    ("ioctl", [(0, 0x5401), (0, 0x541B)], [(0, 0x5412), (0, 0x540E)]),
    *((call, [(0,), (11,), (15,)], [(16,), *CLOCKS_OF_OTHERS]) for call in ("clock_gettime", "clock_nanosleep")),
    *((call, [(0,)], [(1,)]) for call in OTHERS.split()),
    ("getpriority", [(0, 0)], [(0, 7), (1, 0)]),
    # Who holds the other end of a socket.
    (
        "getsockopt",
        [(5, 1, option) for option in (3, 4, 38, 39)],
        [(5, 0, 3), *((5, 1, option) for option in (16, 17, 18, 31, 59, 76, 77))],
    ),
    ("socketpair", [(1, 1), (1, 5 | 0x80800)], [(1, 2), (1, 3), (2, 1), (16, 1)]),
    # Memory that the next process would not have, or not whole, and such as is merged with that of others.
    ("madvise", [(1 << 40, 4096, advice) for advice in (3, 4, 8, 14, 25)], [(0, 9, advice) for advice in (10, 12, 18)]),
    # The one kind of fork, and threads.
    (
        "clone",
        [
            *((FORK_FLAGS | bits,) for bits in (0, CHILD_TIDS, 0x200000)),
            *((flags,) for flags in (GLIBC_THREAD, MUSL_THREAD, GLIBC_THREAD & ~0x40000)),
        ],
        [
            *((17,), (17 | CHILD_TIDS,), (0x4111,)),  # fork and vfork
            *((0x8000,), (0x8000 | 12,)),  # no signal at the end, or another: nobody would notice
            *((FORK_FLAGS | bit,) for bit in (0x100, 0x400, 0x20000, *(1 << at for at in range(25, 31)))),
            *((GLIBC_THREAD | bit,) for bit in (0x20000, 1 << 28, 1 << 30, 0x2000, 0x8000, 0x1000, 0x80, 17)),
            *((GLIBC_THREAD & ~bit,) for bit in (0x10000, 0x100)),
        ],
    ),
]
"""Call, arguments that are allowed, and that are refused."""


@pytest.mark.parametrize("name", MACHINES)
class TestDecisions:
    def decide(self, name: str, call: str, *args: int) -> int | None:
        nr = number(call, name)
        return None if nr is None else decide(seccomp.build_filter(name), ARCH[name], nr, args)

    def test_every_call_of_the_table_is_decided_as_listed(self, name: str) -> None:
        program = seccomp.build_filter(name)
        for call in NUMBERS:
            nr = number(call, name)
            if nr is None or call in ARGUMENT_RULES:
                continue
            kinds = ((ALLOWED, ALLOW), (NOT_IMPLEMENTED, ENOSYS), (PRETENDED, NOTHING))
            expected = next((action for calls, action in kinds if call in calls), EPERM)
            assert decide(program, ARCH[name], nr) == expected, call

    def test_what_is_never_allowed(self, name: str) -> None:
        for call in NEVER:
            assert self.decide(name, call) in (EPERM, None), call

    def test_numbers_without_a_name_are_refused(self, name: str) -> None:
        program = seccomp.build_filter(name)
        known = {number(call, name) for call in NUMBERS}
        for nr in range(463):
            if nr not in known:
                assert decide(program, ARCH[name], nr) == EPERM

    def test_numbers_of_the_future_are_unknown(self, name: str) -> None:
        for nr in (463, 500, 5000):
            assert decide(seccomp.build_filter(name), ARCH[name], nr) == ENOSYS

    @pytest.mark.parametrize("arch", [0x40000003, 0x40000028, 0xC0000016, 0])
    def test_another_architecture_kills(self, name: str, arch: int) -> None:
        assert decide(seccomp.build_filter(name), arch, 0) == KILL

    @pytest.mark.parametrize(("call", "allowed", "refused"), ARGUMENTS, ids=[call for call, *_ in ARGUMENTS])
    def test_arguments(self, name: str, call: str, allowed: list[Any], refused: list[Any]) -> None:
        for action, cases in ((ALLOW, allowed), (EPERM, refused)):
            for arguments in cases:
                assert self.decide(name, call, *arguments) == action, arguments

    def test_locks_are_taken_by_nobody(self, name: str) -> None:
        assert self.decide(name, "flock", 3, 2) == NOTHING
        for command in (6, 7, 37, 38):
            assert self.decide(name, "fcntl", 3, command) == NOTHING, command


def test_the_other_abi_of_x86_64_kills_and_an_unknown_machine_has_no_filter() -> None:
    assert decide(seccomp.build_filter("x86_64"), ARCH["x86_64"], 0x40000000 | 39) == KILL
    with pytest.raises(KeyError):
        seccomp.build_filter("riscv64")


def filtered(function: Callable[[], Any]) -> Any:
    """Run `function` in a child under the filter."""
    program = seccomp.build_filter(machine())

    def run() -> Any:
        privileges.no_new_privs()
        seccomp.install(program)
        return function()

    return in_child(run)


@pytest.fixture(scope="module")
def refusals() -> dict[str, str]:
    """What the kernel says to every refused call under the filter."""

    def try_all() -> dict[str, str]:
        return {call: outcome(lambda call=call: syscall(call, -1, -1, -1, -1, -1, -1)) for call in tried}  # type: ignore[misc]

    # Left to the interpreter of the filter: calls that would do harm if they were let through.
    tried = [
        call
        for call in (*REFUSED, "clone3", "mseal")
        if call not in ("fork", "vfork", "sync", "vhangup") and number(call) is not None
    ]
    return dict(filtered(try_all))


@pytest.mark.parametrize("call", REFUSED)
def test_a_refused_call_fails(refusals: dict[str, str], call: str) -> None:
    if number(call) is None or call not in refusals:
        assert decide(seccomp.build_filter("x86_64"), ARCH["x86_64"], number(call, "x86_64") or 0) == EPERM
        return
    assert refusals[call] == "EPERM"


def test_probed_calls_are_unknown(refusals: dict[str, str]) -> None:
    assert refusals["clone3"] == "ENOSYS"
    assert refusals["mseal"] == "ENOSYS"


def test_fork_exec_and_signals_by_the_standard_library() -> None:
    def attempts() -> dict[str, str]:
        return {
            "fork": outcome(os.fork),
            "run": outcome(lambda: subprocess.run(["/bin/true"], check=False)),
            "exec": outcome(lambda: os.execv("/bin/true", ["true"])),
            "kill": outcome(lambda: os.kill(os.getppid(), 0)),
            "all": outcome(lambda: os.kill(-1, 0)),
            "own": outcome(lambda: os.kill(0, 0)),
            "stop": outcome(lambda: os.kill(os.getpid(), signal.SIGSTOP)),
            "continue": outcome(lambda: os.kill(0, signal.SIGCONT)),
            "group": outcome(lambda: os.setpgid(0, 0)),
            "session": outcome(os.setsid),
            "socket": outcome(lambda: socket.socket(socket.AF_INET)),
            "unix": outcome(lambda: socket.socket(socket.AF_UNIX)),
            "nice": outcome(lambda: os.nice(1)),
            "memfd": outcome(lambda: os.memfd_create("x")),
        }

    assert set(filtered(attempts).values()) == {"EPERM"}


def test_a_sibling_can_be_forked() -> None:
    def clone() -> int:
        pid = syscall("clone", FORK_FLAGS, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return pid

    assert filtered(clone) > 0


def test_threads_run_under_the_filter() -> None:
    def threads() -> list[int]:
        results: list[int] = []
        workers = [threading.Thread(target=results.append, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sorted(results)

    assert filtered(threads) == [0, 1, 2, 3]


def test_install_needs_no_new_privs_or_privileges() -> None:
    def install() -> str:
        return outcome(lambda: seccomp.install(seccomp.build_filter(machine())))

    if os.geteuid() == 0:
        assert in_child(install, user=65534) == "EACCES"
    else:
        assert in_child(install) == "EACCES"


LIBRARIES = """
import io, json, os, random, shutil, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
import cv2, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from saccade.guest import privileges, seccomp, syscalls

privileges.no_new_privs()
seccomp.install(seccomp.build_filter(syscalls.machine()))

folder = tempfile.mkdtemp()
os.chdir(folder)
pixels = np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8)
picture = Image.fromarray(pixels)
ImageDraw.Draw(picture).ellipse((10, 10, 90, 90), fill="red")
for name in ("a.png", "a.jpg", "a.webp", "a.gif", "a.tiff"):
    picture.save(name)
    Image.open(name).convert("RGB").resize((64, 64)).filter(ImageFilter.GaussianBlur(2)).load()
figure, axes = plt.subplots(2)
axes[0].plot([1, 2, 3])
axes[0].set_title("a title, $x^2$")
axes[1].imshow(pixels)
figure.savefig("f.png")
figure.savefig("f.svg")
read = cv2.imread("a.jpg")
edges = cv2.Canny(cv2.cvtColor(cv2.GaussianBlur(read, (5, 5), 0), cv2.COLOR_BGR2GRAY), 50, 150)
contours, _ = cv2.findContours(edges, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
cv2.imwrite("e.png", cv2.resize(read, None, fx=2, fy=2))
writer = cv2.VideoWriter("v.avi", cv2.VideoWriter_fourcc(*"MJPG"), 5, (300, 200))
for _ in range(3):
    writer.write(pixels)
writer.release()
video = cv2.VideoCapture("v.avi")
frame_read, _ = video.read()
assert frame_read
matrix = np.random.default_rng(1).normal(size=(200, 200))
np.linalg.svd(matrix @ matrix.T)
np.save("m.npy", matrix)
np.load("m.npy", mmap_mode="r").sum()
with ThreadPoolExecutor(4) as pool:
    total = sum(pool.map(lambda n: n * n, range(10)))
with tempfile.NamedTemporaryFile("w") as file:
    json.dump({"a": random.random(), "t": time.time()}, file)
os.mkdir("inner")
shutil.copy2("a.png", "inner/b.png")
shutil.move("inner/b.png", "b.png")
time.sleep(0.001)
os.cpu_count(); os.urandom(8); os.listdir("."); os.path.expanduser("~"); sys.stdout.isatty()
shutil.rmtree(folder)
print("done", total)
"""


def test_the_libraries_of_a_session_work_under_the_filter(tmp_path: Path) -> None:
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done 285\n"


INCLUDE = Path("/usr/include")
NEWEST = {
    **{"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455},
    **{"futex_requeue": 456, "statmount": 457, "listmount": 458, "mseal": 462},
}
"""Of Linux 6.5 and later, which the headers of many machines do not have."""


def test_calls_by_name_and_by_number_with_bytes_and_full_words(tmp_path: Path) -> None:
    nr = number("getpid")
    assert nr is not None
    assert syscall("getpid") == syscall(nr) == os.getpid()
    syscall("mkdirat", -100, os.fsencode(tmp_path / "new"), 0o700)
    assert (tmp_path / "new").is_dir()
    with (tmp_path / "file").open("wb") as file:  # an offset beyond 32 bits
        assert syscall("lseek", file.fileno(), 1 << 40, 0) == 1 << 40


def test_errors_are_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="close") as caught:
        syscall("close", -1)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(KeyError):
        number("no_such_call")
    assert number("open", "aarch64") is None
    monkeypatch.setattr("saccade.guest.syscalls.machine", lambda: "aarch64")
    with pytest.raises(OSError, match="open") as caught:
        syscall("open")
    assert caught.value.errno == errno.ENOSYS


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        machine()
    monkeypatch.undo()
    machine.cache_clear()


def declared(prefix: str, *places: str) -> dict[str, int]:
    """Constants without their prefix, of the first of these headers that is there; skips the test where none is."""
    found = [INCLUDE / place for place in places if (INCLUDE / place).is_file()]
    if not found:
        pytest.skip(f"the kernel's headers are not installed here ({places[0]})")
    pattern = rf"^#define\s+{prefix}(\w+)\s+(0x[0-9a-f]+|\d+)\b"
    return {line[1]: int(line[2], 0) for line in re.finditer(pattern, found[0].read_text(), re.MULTILINE)}


@pytest.mark.parametrize(
    ("place", "headers"),
    [(0, ("x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h")), (1, ("asm-generic/unistd.h",))],
    ids=["x86_64", "aarch64"],  # which has the generic numbers
)
def test_the_numbers_are_those_of_the_kernels_headers(place: int, headers: tuple[str, ...]) -> None:
    known = declared("__NR(?:3264)?_", *headers)
    known.pop("syscalls", None)  # how many there are
    known.setdefault("newfstatat", known.get("fstatat", 0))
    newest = max(known.values())
    for name, numbers in NUMBERS.items():
        theirs = known.get(name)
        assert numbers[place] == theirs or (theirs is None and NEWEST.get(name, 0) > newest), name


def test_newer_calls_have_one_number_on_all_machines() -> None:
    newer = {name: numbers for name, numbers in NUMBERS.items() if max(filter(None, numbers), default=0) >= 424}
    assert all(x86 == arm for x86, arm in newer.values())
    assert {name: numbers[0] for name, numbers in newer.items() if numbers[0] and numbers[0] > 450} == NEWEST


def test_flags_of_clone_are_those_of_the_kernels_headers() -> None:
    header = declared("CLONE_", "linux/sched.h")
    ours = {name[6:]: value for name, value in vars(seccomp).items() if name.startswith("CLONE_")}
    assert ours == {name: header[name] for name in ours}
    assert (seccomp.SIGKILL, seccomp.SIGCHLD) == (signal.SIGKILL, signal.SIGCHLD)
