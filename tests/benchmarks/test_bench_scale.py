"""The benchmark of many episodes at once does its work and says so; no figure is judged here but what must be whole."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from benchmarks.__main__ import app
from saccade.cli.main import run

RUN = [
    "turns",
    "turns that the processors allow",
    "lost or broken episodes",
    "time waiting for sandboxes",
    "CPU of the host",
    "memory of the host",
    "sent to the engine",
]


def check_run(rows: list[dict[str, Any]], name: str) -> None:
    """`rows` are those of a run of two turns, and say that its work was done."""
    assert [row["name"].partition(",")[0] for row in rows] == [f"{name}: {what}" for what in RUN]
    turns, most, failed, waiting, cpu, memory, sent = rows
    assert 0 < turns["value"] < turns["other"]
    assert most["value"] > 0
    assert most["other"] == turns["other"]
    assert failed["value"] == 0
    assert 0 < waiting["value"] < 100
    assert cpu["value"] > 0
    assert cpu["other"] > 0
    assert memory["other"] > 1
    assert sent["value"] > sent["other"]  # a picture is sent, and in the second turn once more with another


@linux_only
@pytest.mark.slow
def test_a_quick_run_plays_real_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    from benchmarks import scale

    small = scale.ScaleSizes((16,), (0,), looks=1, seconds=0.1, picture_episodes=0, many=8, judged=False)
    monkeypatch.setattr(scale, "QUICK_SCALE", small)
    file = tmp_path / "scale.json"
    options = ["--episodes", "8", "--many", "0"]  # in place of those sizes
    assert run(app, ["scale", "--quick", *options, "--out", str(file)], "benchmarks") == 0
    figures = json.loads(file.read_text())["figures"]
    check_run(figures, "8 local")
    assert not any(figure["met"] for figure in figures)  # a small run judges nothing


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_episode_of_a_thousand_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from benchmarks.scale import ScaleRunSize, make_policy, measure_run

    policy = make_policy(tmp_path / "policy")
    size = ScaleRunSize(1024, looks=2, seconds=2.0)
    for hosts in (0, 2):
        run = measure_run(policy, tmp_path / f"run{hosts}", replace(size, hosts=hosts))
        assert (run.failed, run.turns) == (0, 3 * 1024)


ENGINE = """
import time
from benchmarks.scale import engine_process
from benchmarks.servers import TimedAnswers
with engine_process(TimedAnswers((1,), (2,), 1, 3, 0.1, 0.5)) as (_, process):
    print(process, flush=True)
    time.sleep(600)
"""


@linux_only
@pytest.mark.slow
def test_a_benchmark_that_is_killed_leaves_no_engine() -> None:
    pytest.importorskip("accelerate")
    with subprocess.Popen([sys.executable, "-c", ENGINE], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        engine = os.pidfd_open(int(program.stdout.readline()))
        program.kill()
        ended, _, _ = select.select([engine], [], [], 60)
        os.close(engine)
    assert ended


def test_groups_must_be_whole(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("accelerate")
    assert run(app, ["scale", "--episodes", "8", "--episodes", "12"], "benchmarks") == 2
    assert "so 12 cannot be" in capsys.readouterr().err
