"""A run of `saccade rl --on verl` as a process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import saccade

TINY = Path(saccade.__file__).parent / "plugins/worlds/weights/tiny"
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def command(program: Path, recipe: Path | str, out: Path, *more: str) -> list[str]:
    return [
        *(str(program), "rl", str(recipe), "--model", str(TINY), "--out", str(out), "--on", "verl"),
        *("--set", "trainer.device=cpu", "--set", "trainer.workers=1", "--set", "trainer.step_seconds=1500"),
        *(
            "--set",
            "keep.tensorboard=false",
            "--set",
            "rollouts.every=1",
            "--set",
            "validation.tasks=2",
            "--set",
            "tasks.most=16",
            *more,
        ),
    ]


def begun(arguments: list[str], log: Path, folder: Path | None = None) -> subprocess.Popen[str]:
    with log.open("w") as written:
        environment = {**os.environ, **QUIET}
        return subprocess.Popen(
            arguments, stdout=written, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder
        )


def until(true: Callable[[], bool], run: subprocess.Popen[str] | None, log: Path) -> None:
    end = time.monotonic() + 1700
    while not true():
        assert time.monotonic() < end, log.read_text()
        assert run is None or run.poll() is None, log.read_text()
        time.sleep(0.5)
