"""The bundled recipes on verl, each for two steps: dialects, rewards, selections, advantages and losses are theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.rl.train.support import metrics
from tests.rl.verl.real.begun import begun, command

from saccade.record.codec import append_lines
from saccade.rl.train.curriculum import TaskPassRate

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]
SMALL = (
    "steps=2",
    "rollout.group_size=2",
    "rollout.sampling.max_tokens=32",
    "rollout.limits.turns=2",
    "rollout.limits.context_tokens=2048",
    "rounds.tasks=2",
    "rounds.rounds=1",
    "validation.every=0",
    "tasks.most=4",
)
RECIPES = {
    "pyvision-image": ("visual-search", ["rounds.groups=1", "selection.groups=1"]),
    "pyvision-video": ("video-events", ["rounds.groups=1", "selection.groups=1"]),
    "codedance": ("visual-search", []),
    "vista-r1": ("visual-search", []),
    "codev": ("visual-search", []),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_bundled_recipe(name: str, program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    source, more = RECIPES[name]
    out, log = tmp_path / "run", tmp_path / "log"
    if name == "codev":  # its curriculum takes the rates of a run on our own trainer
        rates = [TaskPassRate(id=f"visual-search@1/train/{number}", rate=0.5, usable=8) for number in range(4)]
        append_lines(tmp_path / "rates.jsonl", rates)
        more = [*more, f"verl.pass_rates={tmp_path / 'rates.jsonl'}", "curriculum.fewest=1"]
    options = [word for option in (*SMALL, *more) for word in ("--set", option)]
    started.append(
        begun(command(program, name, out, "--profile", "tiny", "--tasks", source, "--gpus", "2", *options), log)
    )
    assert started[0].wait(1500) == 0, log.read_text()
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert [line["step"] for line in steps] == [1, 2]
    assert all(line["rollouts"] == 4 and line["lost"] == 0 for line in steps)
    assert all("loss" in line and line["logprob_gap"] < 0.1 for line in steps)
    assert (out / "model" / "config.json").exists()
