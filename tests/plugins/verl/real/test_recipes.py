"""The bundled recipes on verl, each for two steps: dialects, rewards, selections, advantages and losses are theirs.

The small model is never right in the dialects of PyVision-RL, so there its selection keeps nothing. Where it speaks its
own, some groups are kept, and trained on.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.plugins.verl.real.begun import begun, command
from tests.training.rl.train.support import metrics

from saccade.record.codec import append_lines
from saccade.training.rl.curriculum import TaskPassRate

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]
SMALL = (
    "steps=2", "rollout.group_size=2", "rollout.sampling.max_tokens=32", "rollout.limits.turns=2",
    "rollout.limits.context_tokens=2048", "rounds.tasks=2", "rounds.rounds=1", "validation.every=0", "tasks.most=4",
)  # fmt: skip
ONE_GROUP = ["rounds.groups=1", "selection.groups=1"]
RECIPES = {
    "pyvision-image": ("visual-search", ONE_GROUP),
    "pyvision-video": ("video-events", ONE_GROUP),
    "codedance": ("visual-search", []),
    "vista-r1": ("visual-search", []),
    "codev": ("visual-search", []),
}
OWN_DIALECT = (
    "steps=2",
    "rollout.group_size=4",
    "rollout.sampling.max_tokens=200",
    "rollout.limits.turns=4",
    "rollout.limits.context_tokens=2048",
    "rounds.tasks=2",
    "rounds.rounds=3",
    "validation.every=0",
    *ONE_GROUP,
)
SELECTED = {
    "pyvision-image": ("touching-circles", "tiny:look", 2.0),
    "pyvision-video": ("video-events", "tiny:video", 1.5),
}
"""Tasks, dialect, and a temperature at which the small model is right now and then; at 2.0 its programs for videos are
no Python."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_bundled_recipe(name: str, program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    source, more = RECIPES[name]
    out, log = tmp_path / "run", tmp_path / "log"
    if name == "codev":  # its curriculum takes the rates of a run on our own trainer
        rates = [TaskPassRate(id=f"visual-search@1/train/{number}", rate=0.5, usable=8) for number in range(4)]
        append_lines(tmp_path / "rates.jsonl", rates)
        more = [*more, f"trainer.pass_rates={tmp_path / 'rates.jsonl'}", "curriculum.fewest=1"]
    steps = trained(started, name, (program, source, out, log), [*SMALL, *more])
    assert all(line["rollouts"] == 4 for line in steps)
    if not name.startswith("pyvision"):
        assert all(line["updates"] == 1 and line["gradient_norm"] > 0 for line in steps)


@pytest.mark.parametrize("name", SELECTED)
def test_selected_groups_are_trained_on(
    name: str, program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    (source, dialect, heat), out, log = SELECTED[name], tmp_path / "run", tmp_path / "log"
    own = [*OWN_DIALECT, f"dialect={dialect}", f"rollout.sampling.temperature={heat}"]
    steps = trained(started, name, (program, source, out, log), own)
    assert any(line["updates"] == 1 and line["gradient_norm"] > 0 for line in steps)
    assert all(line["trained_rollouts"] <= 4 <= line["rollouts"] for line in steps)


def trained(
    started: list[subprocess.Popen[str]], name: str, run: tuple[Path, str, Path, Path], settings: list[str]
) -> list[dict[str, float]]:
    """What the steps of a run of two tell."""
    program, source, out, log = run
    options = [word for setting in settings for word in ("--set", setting)]
    started.append(
        begun(command(program, name, out, "--profile", "tiny", "--tasks", source, "--gpus", "2", *options), log)
    )
    assert started[0].wait(1500) == 0, log.read_text()
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert [line["step"] for line in steps] == [1, 2]
    assert all("loss" in line and line["lost"] == 0 and line["logprob_gap"] < 0.1 for line in steps)
    assert (out / "model" / "config.json").exists()
    return steps
