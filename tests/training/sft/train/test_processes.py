"""Runs in processes of their own: killed at any moment, and spread over two."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.training.sft.train.support import settings

from saccade.core.settings import save_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def recipe(tiny: Path, run: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    save_settings(settings(tiny, run, steps=12, keep={"every": 3}, threads=2), path)
    return path


def command(recipe: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "saccade", "sft", str(recipe), "--out", str(out), *more]


def steps(out: Path) -> int:
    path = out / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_killed_at_any_step_and_resumed_equals_never_killed(recipe: Path, tmp_path: Path) -> None:
    subprocess.run(command(recipe, tmp_path / "whole"), check=True, capture_output=True)
    for number, kill_at in enumerate((1, 5, 9)):
        out = tmp_path / f"killed{number}"
        process = subprocess.Popen(command(recipe, out), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while steps(out) < kill_at and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        subprocess.run(command(recipe, out, "--resume"), check=True, capture_output=True)
        for name in ("model/model.safetensors", "checkpoints/step-00000012/optimiser.safetensors"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert steps(out) == 12


@pytest.mark.parametrize("more", [(), ("--shard-model",)])
def test_two_processes_learn_what_one_does(recipe: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    subprocess.run(command(recipe, tmp_path / "one"), check=True, capture_output=True)
    spread = command(recipe, tmp_path / "two", "--processes", "2", *more)
    done = subprocess.run(spread, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

    def losses(out: Path) -> list[float]:
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-3)
    one, two = (load_file(tmp_path / name / "model/model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    parts = tmp_path.glob("two/checkpoints/step-00000012/weights*.safetensors")
    assert len(list(parts)) == (2 if more else 1)
