"""Runs spread over two processes, whole and divided; and one of the two killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.training.rl.train.support import metrics, rl_settings, untimed

from saccade.core.settings import save_settings
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[4]


def written(checkpoint: Path, tasks: Path, path: Path, *, shard: bool, steps: int = 4) -> Path:
    """Settings under which a step takes several forward passes, of which one process has one more."""
    model = {"source": str(checkpoint), "shard": shard}
    keep = {"every": 2, "tensorboard": False}
    rounds = {"tasks": 3, "groups": 1, "rounds": 1}
    recipe = {"steps": steps, "rounds": rounds, "loss": {"kl_weight": 0.1}, "optimizer": {"learning_rate": 1e-3}}
    more = {"validation": {"every": 4, "source": str(tasks), "tasks": 3}, "max_tokens_per_batch": 230}
    save_settings(rl_settings(checkpoint, tasks, recipe=recipe, model=model, keep=keep, **more), path)
    return path


def start(settings: Path, out: Path, processes: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.training.rl.train.support", str(settings), str(out), str(processes)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, text=True)


def finish(process: "subprocess.Popen[str]") -> None:
    _, said = process.communicate()
    assert process.returncode == 0, said[-3000:]


def workers(process: "subprocess.Popen[str]") -> list[int]:
    """The processes of a run, in their order."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return sorted(int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes())


@pytest.fixture(scope="module")
def two(tiny: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Settings of a divided run, and its folder."""
    folder = tmp_path_factory.mktemp("two")
    settings = written(tiny, tasks, folder / "settings.toml", shard=True)
    finish(start(settings, folder / "run", 2))
    return settings, folder / "run"


@pytest.fixture(scope="module")
def one(tiny: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run in one process, its first steps."""
    folder = tmp_path_factory.mktemp("one")
    finish(start(written(tiny, tasks, folder / "settings.toml", shard=False, steps=2), folder / "run", 1))
    return folder / "run"


def learns_the_same(spread: Path, one: Path, first: Path) -> None:
    """Two steps: later on rounding may draw another token."""
    ours, theirs = untimed(spread)[:3], untimed(one)[:3]
    assert [line["step"] for line in theirs] == [0, 1, 2]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-4, abs=2e-6)
    loaded = load_checkpoint(str(first), LocalSettings(device="cpu")).model
    before = {name: value.detach() for name, value in loaded.named_parameters()}
    after, learned = weights(one), weights(spread)
    assert learned.keys() == after.keys()
    changed = sum(float((value - before[name]).abs().sum()) for name, value in after.items())
    differs = sum(float((value - learned[name]).abs().sum()) for name, value in after.items())
    assert changed > 0
    assert differs < 0.01 * changed  # Adam makes something of the sign of a gradient that is 0 but for rounding


def weights(out: Path) -> dict[str, Any]:
    """What a checkpoint holds after two steps, in however many files."""
    files = sorted(out.glob("checkpoints/step-00000002/weights*.safetensors"))
    return {name: value for file in files for name, value in load_file(file).items()}


def test_divided_among_two_processes_a_run_learns_what_one_process_does(
    two: tuple[Path, Path], one: Path, tiny: Path
) -> None:
    learns_the_same(two[1], one, tiny)


def test_two_processes_with_whole_weights_learn_what_one_does(
    one: Path, tiny: Path, tasks: Path, tmp_path: Path
) -> None:
    settings = written(tiny, tasks, tmp_path / "settings.toml", shard=False, steps=2)
    finish(start(settings, tmp_path / "run", 2))
    learns_the_same(tmp_path / "run", one, tiny)


def test_one_process_killed_ends_all_and_the_run_goes_on_exactly(two: tuple[Path, Path], tmp_path: Path) -> None:
    settings, undivided = two
    out = tmp_path / "killed"
    process = start(settings, out, 2)
    deadline = time.monotonic() + 200
    while not (out / "metrics.jsonl").exists() or len(metrics(out)) < 4:  # step 3 is told, its checkpoint is at 2
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    both = workers(process)
    os.kill(both[1], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert re.search(r"process 1 of 2 was killed \(SIGKILL\)|another process of this run ended", said)
    assert re.search(r"The same command [^\n]*--resume", said)
    assert not any(Path(f"/proc/{worker}").exists() for worker in both)
    assert not (out / "model").exists()
    finish(start(settings, out, 2))
    names = [path.relative_to(undivided) for path in sorted(undivided.glob("checkpoints/step-00000004/*"))]
    assert len(names) == 5
    for name in (*names, Path("model/model.safetensors")):
        assert (out / name).read_bytes() == (undivided / name).read_bytes()
    assert untimed(out) == untimed(undivided)
