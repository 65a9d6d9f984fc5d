"""A run that is killed at random and started again ends as one that never stopped."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saccade.record.codec import read_ids
from saccade.record.trajectory import Trajectory

from . import killed
from .support import results, stored, write_tasks

PROGRAM = Path(__file__).with_name("killed.py")


def lines(run: Path) -> int:
    path = run / "trajectories.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(command: list[str], run: Path, wanted: int) -> None:
    """Start the run and kill it with SIGKILL soon after it holds `wanted` trajectories."""
    process = subprocess.Popen(command)
    while lines(run) < wanted and process.poll() is None:
        time.sleep(0.002)
    time.sleep(random.random() * 0.02)
    process.kill()
    assert process.wait(20) == -signal.SIGKILL


def compare_with_uninterrupted(tmp_path: Path, count: int, dialect: str, kills: int) -> None:
    tasks = str(write_tasks(tmp_path / "tasks", count))
    run, uninterrupted = tmp_path / "run", tmp_path / "whole"
    command = [sys.executable, str(PROGRAM), tasks, str(run), dialect]
    for number in range(kills):
        kill_after(command, run, wanted=round(2 * count * (number + 0.5) / (kills + 1)))
        # What a kill in the middle of a write leaves.
        with (run / "trajectories.jsonl").open("ab") as file:
            file.write(b'{"schema_version":1,"id":"t0#0","ta')
    assert 0 < lines(run) < 2 * count
    subprocess.run(command, check=True, timeout=60)
    killed.main(tasks, str(uninterrupted), dialect)
    for name in ("results.jsonl", "summary.json"):
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes()
    ids = list(read_ids(run / "trajectories.jsonl", Trajectory))
    assert len(ids) == len(set(ids)) == 2 * count
    assert stored(run) == stored(uninterrupted)
    assert {row["correct"] for row in results(run)} == {0.0, 1.0}


@pytest.mark.slow
def test_killed_at_random_and_continued(tmp_path: Path) -> None:
    compare_with_uninterrupted(tmp_path, 30, "direct", kills=2)


@pytest.mark.slow
def test_killed_at_random_with_code_in_sandboxes(tmp_path: Path) -> None:
    compare_with_uninterrupted(tmp_path, 20, "pyvision", kills=4)
