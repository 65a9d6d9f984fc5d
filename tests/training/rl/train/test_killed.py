"""Runs in processes of their own, killed at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.training.rl.train.support import rl_settings

from saccade.core.settings import save_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
ROOT = Path(__file__).resolve().parents[4]


def command(settings: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "tests.training.rl.train.support", str(settings), str(out)]


STEPS = 6


def test_killed_at_random_moments_and_resumed_equals_never_killed(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save_settings(rl_settings(tiny, tasks, keep={"every": 2, "tensorboard": False}, recipe={"steps": STEPS}), path)
    subprocess.run(command(path, tmp_path / "whole"), check=True, capture_output=True, cwd=ROOT)
    chance = random.Random(0)
    out = tmp_path / "killed"
    kills = 0
    while not (out / "model").exists() and kills < 30:
        process = subprocess.Popen(command(path, out), stderr=subprocess.DEVNULL, cwd=ROOT)
        done_steps(process, out / "metrics.jsonl", chance.randint(1, STEPS - 2))
        try:
            assert process.wait(chance.uniform(0, 0.3)) == 0
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills
    for name in ("model/model.safetensors", f"checkpoints/step-{STEPS:08}/optimiser.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def done_steps(process: subprocess.Popen[bytes], metrics: Path, count: int) -> None:
    """Return when `process` has written the lines of `count` steps, or has ended."""
    size = metrics.stat().st_size if metrics.exists() else 0
    while count and process.poll() is None:
        time.sleep(0.02)
        now = metrics.stat().st_size if metrics.exists() else 0
        count -= now > size
        size = now
