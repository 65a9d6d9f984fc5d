"""Forks by the raw system call: what a child inherits, and whose child it is."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from saccade.guest.compact import _anonymous_memory, _free_blocks, fill_gaps, give_back_memory, use_large_pages
from saccade.guest.fork import CLONE_PARENT, FORK, Forker, Template

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def reported_by(work: object) -> str:
    """What `work`, a function of a Forker, returns in a fresh process with a single thread."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(work(Forker())).encode())  # type: ignore[operator]
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def test_memory_and_exit_status() -> None:
    def work(forker: Forker) -> object:
        value = [1]
        pid = forker.fork()
        if pid == 0:
            value.append(2)
            os._exit(len(value))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), value

    assert reported_by(work) == "(2, [1])"


def test_a_sibling_is_a_child_of_the_parent() -> None:
    def work(forker: Forker) -> object:
        own = os.getpid()
        child = forker.fork()
        if child == 0:
            if forker.fork(CLONE_PARENT) == 0:
                os._exit(7 if os.getppid() == own else 1)
            os._exit(5)
        ends = sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2))
        return ends

    assert reported_by(work) == "[5, 7]"


def test_random_numbers_go_on_as_if_there_had_been_no_fork() -> None:
    def work(forker: Forker) -> object:
        random.seed(3)
        expected = random.Random(3).random()
        pid = forker.fork()
        if pid == 0:
            os._exit(0 if random.random() == expected else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert reported_by(work) == "0"


def test_threads_locks_and_signals_work_in_a_child_of_a_child() -> None:
    def work(forker: Forker) -> object:
        for _ in range(3):
            pid = forker.fork()
            if pid:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        results: list[int] = []
        threads = [threading.Thread(target=results.append, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(len(results))

    # Each generation tells how its child has ended, the innermost with the number of its threads.
    assert reported_by(work) == "800"


def test_the_kernel_refuses_in_words() -> None:
    def work(forker: Forker) -> object:
        try:
            # CLONE_THREAD without CLONE_SIGHAND is never allowed.
            forker.fork(0x10000)
        except OSError as error:
            return error.strerror
        return "allowed"

    assert reported_by(work) == "clone refused"


def test_filling_gaps_leaves_fewer_free_blocks() -> None:
    def work(_forker: Forker) -> object:
        import numpy as np

        junk = [bytes(size) for size in range(1, 400) for _ in range(50)]
        del junk[::2]
        before = sum(_free_blocks().values())
        fill_gaps()
        after = sum(_free_blocks().values())
        give_back_memory()
        return before > 1000 and after < before / 2 and np.ones(3).sum() == 3

    assert reported_by(work) == "True"


@pytest.mark.slow
def test_large_pages_change_nothing_but_the_number_of_pages() -> None:
    def work(forker: Forker) -> object:
        import numpy as np

        data = np.arange(6 << 20, dtype=np.uint8)
        places = len(list(_anonymous_memory()))
        large = use_large_pages()
        pid = forker.fork()
        if pid == 0:
            data[:] = 0
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return places > 0 and 0 <= large <= places and ended == 0 and int(data[:1000:7].sum()) == 17823

    assert reported_by(work) == "True"


MERGING = """
import gc, numpy, cv2
from saccade.guest.compact import merge_mappings

def mappings():
    with open("/proc/self/maps") as file:
        return len(file.readlines())

before = mappings()
merge_mappings()
print(mappings() < 0.8 * before)
import sqlite3  # a library that is loaded later is relocated as always
print(cv2.resize(numpy.eye(8), (4, 4)).shape, sqlite3.connect(":memory:").execute("select 7").fetchone())
gc.collect()
"""


def test_merged_mappings_are_fewer_and_libraries_work() -> None:
    done = subprocess.run([sys.executable, "-c", MERGING], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n(4, 4) (7,)\n"


GIVING_BACK = """
from saccade.guest.compact import give_back_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

give_back_memory()
# Smaller than what libc maps by itself, and the last one keeps the others from being at the end.
blocks = [b"x" * 100_000 for _ in range(200)]
keep = bytes(100_000)
full = resident()
blocks.clear()
give_back_memory()
print(full - resident() > 4000)
"""


def test_memory_is_given_back_when_much_of_it_was_freed() -> None:
    # A process of its own: where much is free already, 20 MB come from there and are no more free afterwards.
    done = subprocess.run([sys.executable, "-c", GIVING_BACK], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The zygote's and the template's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(30)
    with ours, theirs:
        yield ours, theirs


def test_the_zygote_sends_descriptors_and_gets_a_process_id(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    memfd = os.memfd_create("mine")
    theirs.send((1234567).to_bytes(8, "little", signed=True))
    asked = Template(5, ours)
    assert (asked.pid, asked.fork([memfd, memfd])) == (5, 1234567)
    word, fds, _flags, _address = socket.recv_fds(theirs, 99, 9)
    assert (word, [os.fstat(fd).st_ino for fd in fds]) == (FORK, [os.fstat(memfd).st_ino] * 2)
    for fd in (memfd, *fds):
        os.close(fd)


def test_a_fork_that_is_refused_or_has_nobody_to_do_it(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.send((-errno.EAGAIN).to_bytes(8, "little", signed=True))
    with pytest.raises(OSError, match="a session's process could not be forked: Resource temp") as refused:
        Template(5, ours).fork([])
    assert refused.value.errno == errno.EAGAIN
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(OSError, match="the template of the sessions has died"):
        Template(5, ours).fork([])
