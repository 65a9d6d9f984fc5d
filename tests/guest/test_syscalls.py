from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import signal
import socket
import termios
from pathlib import Path

import pytest

from saccade.guest import seccomp
from saccade.guest.syscalls import NUMBERS, machine, number, syscall

INCLUDE = Path("/usr/include")
NEWEST = {
    **{"cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455},
    **{"futex_requeue": 456, "statmount": 457, "listmount": 458, "mseal": 462},
}
"""Of Linux 6.5 and later, which the headers of many machines do not have."""


def test_a_call_by_name_and_by_number() -> None:
    nr = number("getpid")
    assert nr is not None
    assert syscall("getpid") == syscall(nr) == os.getpid()


def test_bytes_and_full_words_are_passed(tmp_path: object) -> None:
    path = f"{tmp_path}/new".encode()
    syscall("mkdirat", -100, path, 0o700)
    assert os.path.isdir(path)
    # An offset beyond 32 bits.
    with open(f"{tmp_path}/file", "wb") as file:
        assert syscall("lseek", file.fileno(), 1 << 40, 0) == 1 << 40


def test_an_error_becomes_an_exception() -> None:
    with pytest.raises(OSError, match="close") as caught:
        syscall("close", -1)
    assert caught.value.errno == errno.EBADF


def test_a_call_that_a_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert number("open", "aarch64") is None
    monkeypatch.setattr("saccade.guest.syscalls.machine", lambda: "aarch64")
    with pytest.raises(OSError, match="open") as caught:
        syscall("open")
    assert caught.value.errno == errno.ENOSYS


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    try:
        with pytest.raises(OSError, match="riscv64"):
            machine()
    finally:
        monkeypatch.undo()
        machine.cache_clear()


def test_an_unknown_name_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        number("no_such_call")


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


def test_values_of_arguments_are_those_of_the_c_library() -> None:
    assert (
        *(fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL, fcntl.F_GETLK),
        *(fcntl.F_OFD_GETLK, 1027, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETPIPE_SZ, fcntl.F_GET_SEALS),  # F_DUPFD_QUERY
    ) == seccomp._FCNTL
    assert seccomp._LOCKS == (fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW)
    assert (
        *(termios.TCGETS, 0x802C542A),  # TCGETS2, of which Python knows nothing
        *(termios.FIONREAD, termios.FIONBIO, termios.FIONCLEX, termios.FIOCLEX),
    ) == seccomp._IOCTL
    names = ["TYPE", "ERROR", "SNDBUF", "RCVBUF", "RCVTIMEO", "SNDTIMEO", "ACCEPTCONN", "PROTOCOL", "DOMAIN"]
    options = {"RCVTIMEO": 20, "SNDTIMEO": 21, **vars(socket)}
    assert tuple(options.get(f"SO_{name}", options.get(name)) for name in names) == seccomp._GETSOCKOPT
    for name in ("SOL_SOCKET", "AF_UNIX", "SOCK_STREAM", "SOCK_SEQPACKET", "SOCK_NONBLOCK", "SOCK_CLOEXEC"):
        assert vars(seccomp)[f"_{name}"] == vars(socket)[name], name
    assert seccomp._RWF_NOWAIT == os.RWF_NOWAIT
    assert seccomp._MAP_SHARED_ANONYMOUS == mmap.MAP_SHARED | mmap.MAP_ANONYMOUS


def test_what_prctl_may_be_asked_is_named_in_the_kernels_headers() -> None:
    header = declared("PR_", "linux/prctl.h")
    names = (
        "SET_PDEATHSIG GET_PDEATHSIG GET_DUMPABLE SET_NAME GET_NAME GET_SECCOMP CAPBSET_READ GET_SECUREBITS "
        "GET_TIMERSLACK GET_NO_NEW_PRIVS GET_TID_ADDRESS GET_THP_DISABLE SET_VMA"
    )
    assert tuple(header[name] for name in names.split()) == seccomp._PRCTL
