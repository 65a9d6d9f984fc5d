"""`saccade rl --on verl` over two `saccade sandbox serve`, one of which is killed while episodes run on it."""

from __future__ import annotations

import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.plugins.verl.real.begun import begun, command
from tests.plugins.verl.real.test_run import recipe
from tests.training.rl.train.support import metrics

from saccade.record.codec import read_lines
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]


@contextmanager
def served(program: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A host, and its address."""
    words = [str(program), "sandbox", "serve", "--port", "0", "--no-token", "--max-sessions", "12"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            yield host, host.stdout.readline().split()[2]
        finally:
            host.kill()


@contextmanager
def dying(host: subprocess.Popen[str], address: str, ready: Callable[[], bool]) -> Iterator[str]:
    """Another address of a host, which is killed by the first program that it gets there once it is `ready`."""
    upstream = urlsplit(address)

    def passed(source: socket.socket, target: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if watched and b"/runs/" in data and ready():
                    host.send_signal(signal.SIGKILL)
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), socket.create_connection((upstream.hostname, upstream.port)) as there:
                back = threading.Thread(target=passed, args=(there, self.request, False), daemon=True)
                back.start()
                passed(self.request, there, True)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_a_sandbox_host_that_is_killed_costs_no_rollout(
    program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    kept = out / "rollouts" / "trajectories.jsonl"
    with (
        served(program) as (dies, hidden),
        dying(dies, hidden, kept.exists) as first,  # it exists once a step was made
        served(program) as (_, second),
    ):
        path = recipe(tmp_path, steps=3, groups=1, selection='rule = "none"')
        arguments = command(program, path, out, "--tasks", "touching-circles", "--gpus", "2")
        arguments += ["--set", "validation.every=0", "--set", f"sandbox={first},{second}"]
        started.append(begun(arguments, log))
        assert started[0].wait(1500) == 0, log.read_text()
        assert dies.poll() == -signal.SIGKILL
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert steps[0]["replayed"] == 0
    assert sum(line["replayed"] for line in steps) > 0
    assert all(line["lost"] == 0 and line["rollouts"] == line["trained_rollouts"] == 8 for line in steps)
    played = list(read_lines(kept, Trajectory))
    assert len({trajectory.id for trajectory in played}) == len(played) == 24
    calls = [turn.execution for trajectory in played for turn in trajectory.turns if turn.execution is not None]
    assert len(calls) > 0
    assert all(call.status is not Status.LOST for call in calls)
    assert f"sandbox server at {first} cannot be used" in log.read_text()  # a warning of a worker, said by the command
