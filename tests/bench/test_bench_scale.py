"""The benchmark of many episodes at once does its work and says so; no figure is judged here but what must be whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.bench import scale as measured
from saccade.bench.scale import ScaleSizes
from saccade.bench.timed_engine import TimedAnswers
from saccade.cli.main import main

SMALL = ScaleSizes((8,), (1,), looks=1, seconds=0.1, picture_episodes=8, picture_looks=2, many=16, step=8)
WAVE = [
    "turns",
    "lost or broken episodes",
    "time waiting for sandboxes",
    "CPU of the host",
    "memory of the host",
    "sent to the engine",
]


@linux_only
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    monkeypatch.setattr(measured, "QUICK_SCALE", SMALL)
    file = tmp_path / "scale.json"
    assert main(["bench", "scale", "--quick", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())["figures"]
    for where, rows in (("local", figures[:6]), ("remote", figures[6:12])):
        turns, failed, waiting, cpu, memory, sent = rows
        assert [row["name"].startswith(f"8 {where}: {name}") for row, name in zip(rows, WAVE, strict=True)] == [
            True
        ] * 6
        assert 0 < turns["value"] < turns["other"]
        assert failed["value"] == 0
        assert 0 < waiting["value"] < 100
        assert cpu["value"] > 0
        assert cpu["other"] > 0
        assert memory["other"] > 1
        assert sent["value"] > 0.3  # a picture, and in the second turn two
    pictures, flat = figures[12:]
    assert pictures["other"] > 8  # 8 x 2 pictures and the one of their group
    assert flat["other"] > 0
    assert not any(figure["met"] for figure in figures)  # a small run judges nothing


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_episode_of_a_thousand_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from saccade.bench.scale_wave import WaveSize, measure_wave
    from saccade.bench.scale_work import make_policy

    policy = make_policy(tmp_path / "policy")
    for hosts in (0, 2):
        wave = measure_wave(policy, tmp_path / f"run{hosts}", WaveSize(1024, looks=2, seconds=2.0, hosts=hosts))
        assert (wave.failed, wave.turns) == (0, 3 * 1024)


def test_the_same_seed_draws_the_same_seconds_around_the_mean() -> None:
    answers = TimedAnswers((1,), (2,), 1, 0, seconds=2.0, sigma=0.5)
    drawn = [answers.drawn(seed) for seed in range(4000)]
    assert drawn == [answers.drawn(seed) for seed in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(2.0, rel=0.05)
    assert max(drawn) > 4.0
