"""VISTA's whole way on a tiny random checkpoint: an expert's typed calls, cloned, then RL in which tools are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.content import ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory


def as_options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def scores(trajectory: Trajectory) -> dict[str, float | None]:
    return {score.name: score.value for score in trajectory.scores}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_cloned_calls_of_tools_are_executed_and_rewarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "random")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("System Prompt:\nTools:\n{tools}\n\nUser Prompt:\n{query}\n")
    spoken = ["--tools", "contours", *as_options(f"prompt_file={prompt}")]
    styles = "expert.styles={crop=0, compute=0, consult=1, mistake=0, direct=0}"
    expert = ["--dialect", "vista", "--n", "1", *as_options(styles, "expert.verbosity=short"), *spoken]
    assert main(["synth", "touching-circles", "--out", str(tmp_path / "bc"), *expert]) == 0

    cloning = ["steps=30", "batch.trajectories=1", "optimizer.learning_rate=1e-2", "optimizer.weight_decay=0"]
    cloning += ["model.vision=full", "model.shard=false", "model.gradient_checkpointing=false", "threads=1"]
    cloning += ["keep.tensorboard=false", "validation.every=0", "validation.fraction=0"]
    data = ["--data", str(tmp_path / "bc"), "--model", str(tmp_path / "random"), "--out", str(tmp_path / "sft")]
    assert main(["sft", "vista", *data, *as_options(*cloning)]) == 0

    rl = ["steps=2", "tasks.most=1", "rounds.tasks=1", "rollout.group_size=4", "rollout.sampling.temperature=0.4"]
    rl += ["rollout.sampling.max_tokens=120", "validation.every=0", "keep.tensorboard=false", "rollouts.every=1"]
    run = ["--model", str(tmp_path / "sft" / "model"), "--tasks", "touching-circles", "--out", str(tmp_path / "rl")]
    assert main(["rl", "vista-r1", "--profile", "tiny", *run, *spoken, *as_options(*rl)]) == 0

    lines = [json.loads(line) for line in (tmp_path / "rl" / "metrics.jsonl").read_text().splitlines()]
    assert [line["rollouts"] for line in lines] == [4, 4]
    assert sum(line["tool_calls"] for line in lines) > 0
    played = list(read_lines(tmp_path / "rl" / "rollouts" / "trajectories.jsonl", Trajectory))
    assert {item.provenance.tools for item in played} == {("contours",)}
    right = [item for item in played if scores(item)["reward.format"] == 1 and scores(item)["reward.correct"] == 1]
    assert right, [[turn.text for turn in item.turns] for item in played]
    for item in right:
        call, execution = item.turns[0].action, item.turns[0].execution
        assert isinstance(call, ToolCall)
        assert execution is not None
        assert (call.name, execution.status, len(execution.pictures)) == ("contours", Status.OK, 1)
        assert '"count"' in execution.stdout + (execution.value or "")
