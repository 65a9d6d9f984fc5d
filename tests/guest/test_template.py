"""The two sides of the template: what an order and its answer are, and what becomes of descriptors and refusals."""

from __future__ import annotations

import array
import errno
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.guest.children import fork

from saccade.guest import template
from saccade.guest.fork import CLONE_PARENT
from saccade.guest.template import FORK, Template

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


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


class Forks:
    """Gives what it is told to, and raises what is an error."""

    def __init__(self, *answers: int | OSError) -> None:
        self._answers = iter(answers)

    def fork(self, flags: int) -> int:
        assert flags == CLONE_PARENT
        answer = next(self._answers)
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_it_forks_at_each_word_and_keeps_no_descriptor(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            ours.close()
            os.close(writer)
            forks: Any = Forks(77, OSError(errno.ENOMEM, "no"), OSError(), 0)
            template.serve(theirs, forks, lambda fds: os._exit(len(fds) if _is_alone(theirs) else 9))
        finally:
            os._exit(8)
    asked = Template(pid, ours)
    assert asked.fork([writer]) == 77
    os.close(writer)
    assert os.read(reader, 1) == b"", "the template has closed it"
    os.close(reader)
    for number in (errno.ENOMEM, errno.EPERM):
        with pytest.raises(OSError, match="could not be forked") as refused:
            asked.fork([])
        assert refused.value.errno == number
    memfd = os.memfd_create("x")
    ours.sendmsg([FORK], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memfd, memfd, memfd]))])
    os.close(memfd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3, "a child has the descriptors, and not the socket"


def _is_alone(theirs: socket.socket) -> bool:
    """Whether the template's socket is closed, and no signal comes through."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return theirs.fileno() == -1 and {signal.SIGTERM, signal.SIGUSR1, signal.SIGINT} <= blocked


@pytest.mark.parametrize("word", [b"", b"spoon"])
def test_without_its_zygote_or_with_another_word_it_ends(
    word: bytes, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ends
    pid = fork()
    if pid == 0:
        try:
            ours.close()
            forks: Any = Forks()
            template.serve(theirs, forks, lambda fds: os._exit(7))
        finally:
            os._exit(8)
    theirs.close()
    if word:
        ours.send(word)
    else:
        ours.shutdown(socket.SHUT_WR)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
