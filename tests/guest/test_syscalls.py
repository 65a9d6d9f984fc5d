from __future__ import annotations

import errno
import os

import pytest

from saccade.guest.syscalls import machine, number, syscall


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
