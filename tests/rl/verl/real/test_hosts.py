"""`saccade rl --on verl` over two `saccade sandbox serve`, one of which is killed while episodes run on it."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.rl.train.support import metrics
from tests.rl.verl.real.begun import begun, command, until
from tests.rl.verl.real.test_run import recipe

from saccade.record.codec import read_lines
from saccade.record.status import Status
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


def sessions(address: str) -> int:
    with urllib.request.urlopen(f"{address}/v1/about", timeout=10) as answer:
        return int(json.load(answer)["sessions"])


def test_a_sandbox_host_that_is_killed_costs_no_rollout(
    program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    with served(program) as (dies, first), served(program) as (_, second):
        path = recipe(tmp_path, steps=3, groups=1, selection='rule = "none"')
        arguments = command(program, path, out, "--tasks", "touching-circles", "--gpus", "2")
        arguments += ["--set", "validation.every=0", "--set", f"sandbox={first},{second}"]
        started.append(begun(arguments, log))
        kept = out / "rollouts" / "trajectories.jsonl"
        until(lambda: kept.exists(), started[0], log)  # a step was made
        until(lambda: sessions(first) > 0, started[0], log)
        dies.send_signal(signal.SIGKILL)
        assert started[0].wait(1500) == 0, log.read_text()
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
