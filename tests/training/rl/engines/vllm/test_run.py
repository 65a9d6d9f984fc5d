"""`saccade rl` with real vLLM servers: real tasks, programs in a sandbox, updates."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.training.rl.engines.vllm.real import RealServer
from tests.training.rl.train.support import metrics

import saccade
from saccade.cli.main import main
from saccade.training.rl.engines.vllm_process import SHARED

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
TINY = Path(saccade.__file__).parent / "plugins/worlds/weights/tiny"
RECIPE = """
dialect = "tiny:look"
steps = 3

[rollout]
group_size = 4
sampling = { temperature = 1.3, max_tokens = 400 }
limits = { turns = 3, context_tokens = 2048 }

[reward]
preset = "pyvision-rl@1:paper"

[rounds]
tasks = 2
groups = 2
rounds = 1

[optimizer]
learning_rate = 1e-3
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "circles.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def starting(tmp_path: Path, vllm_program: Path) -> Path:
    """A recipe that says who samples."""
    path = tmp_path / "starting.toml"
    path.write_text(f'{RECIPE}\n[engine]\nsource = "vllm"\nprogram = "{vllm_program}"\n')
    return path


def arguments(recipe: Path, out: Path, *more: str) -> list[str]:
    return [
        *("rl", str(recipe), "--model", str(TINY), "--tasks", "touching-circles", "--out", str(out)),
        *("--set", "validation.tasks=2", "--set", "validation.every=2", "--set", "keep.tensorboard=false", *more),
    ]


def updated(out: Path) -> list[float]:
    """The gaps of the steps after the first update whose gradient was not zero."""
    steps = [line for line in metrics(out) if "updates" in line]
    moved = [number for number, line in enumerate(steps) if line["updates"] and line["gradient_norm"] > 0]
    return [line["logprob_gap"] for line in steps[moved[0] + 1 :]]


def test_two_servers_behind_one_run_read_every_update(recipe: Path, vllm_program: Path, tmp_path: Path) -> None:
    first, second = (RealServer(vllm_program, TINY, tmp_path / f"{number}.log") for number in range(2))
    try:
        asyncio.run(first.start())
        asyncio.run(second.start())
        both = ["--engine", f"{first.url},{second.url}"]
        out = tmp_path / "run"
        assert main(arguments(recipe, out, *both, "--set", "max_logprob_diff=1e-3")) == 0
        sampled = [server.sampled() for server in (first, second)]
    finally:
        first.stop()
        second.stop()
    gaps = updated(out)
    print(f"\ngaps after an update: {gaps} nats; turns at each server: {sampled}")
    assert gaps
    assert max(gaps) < 1e-4
    assert min(sampled) > 0.2 * max(sampled)


@pytest.mark.parametrize("weights", ["disk", "memory"])
def test_servers_that_the_run_starts_end_with_it(starting: Path, tmp_path: Path, weights: str) -> None:
    out = tmp_path / "run"
    assert main(arguments(starting, out, "--set", f"engine.weights={weights}")) == 0
    gaps = updated(out)
    print(f"\ngaps after an update: {gaps} nats")
    assert gaps
    assert max(gaps) < 1e-4
    assert not _children_of(out)
    log = (out / "servers" / "vllm-0.log").read_text()
    assert log.count("Reloading and processing weights took") == 4
    assert (out / "served").exists() == (weights == "disk")
    folder = Path(re.findall(r"'model_tag': '([^']+)'", log)[0])
    assert folder.is_relative_to(out if weights == "disk" else SHARED)
    assert folder.exists() == (weights == "disk")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_they_end_when_the_run_is_killed_or_interrupted(starting: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "saccade", *arguments(starting, out, "--set", "steps=1000")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _until(lambda: (out / "metrics.jsonl").exists() and len(metrics(out)) > 1)
    assert _children_of(out)
    run.send_signal(number)
    assert run.wait(120) == (130 if number is signal.SIGINT else -signal.SIGKILL)
    _until(lambda: not _children_of(out))


def _children_of(out: Path) -> list[int]:
    """Processes that have the log of the run's server open: the server, its workers, its guard."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            files = [os.readlink(file) for file in folder.iterdir()]
        except OSError:
            continue
        if str(out / "servers" / "vllm-0.log") in files:
            found.append(int(folder.parent.name))
    return found


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_server_without_the_mode_for_new_weights_is_refused_before_the_first_sample(
    recipe: Path, vllm_program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = RealServer(vllm_program, TINY, tmp_path / "plain.log", VLLM_SERVER_DEV_MODE="0")
    asyncio.run(plain.start())
    try:
        assert main(arguments(recipe, tmp_path / "run", "--engine", plain.url)) == 2
        assert "VLLM_SERVER_DEV_MODE" in capsys.readouterr().err
        assert plain.sampled() <= 1
    finally:
        plain.stop()
