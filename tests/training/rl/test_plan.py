"""What a run asks for besides GPU memory, against numbers worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saccade.cli.main import main
from saccade.errors import SettingsError
from saccade.training.memory import PlannedWeights
from saccade.training.rl.plan import MeasuredRun, RunPlan, throughput_of
from saccade.training.rl.settings import RlSettings, load_rl_settings

RECIPE: dict[str, Any] = {
    "dialect": "pyvision-rl-image@1",  # at most 32 pictures, and as many of a call
    "steps": 700,
    "rollout": {
        "group_size": 8,
        "sampling": {"max_tokens": 1000},
        "limits": {"turns": 5, "context_tokens": 32_768, "images": 32},
    },
    "reward": {"preset": "pyvision-rl@1:paper"},
    "rounds": {"tasks": 32, "groups": 16, "rounds": 4},
}


def plan(processes: int = 8, recipe: dict[str, Any] | None = None, **more: Any) -> RunPlan:
    fields = {name: more.pop(name) for name in ("weights", "measured", "tokens_per_second") if name in more}
    return RunPlan(RlSettings.model_validate({"recipe": {**RECIPE, **(recipe or {})}, **more}), processes, **fields)


def test_a_step_by_hand() -> None:
    made = plan(keep={"every": 100, "checkpoints": 2})
    assert made.rollouts == (256, 1024)  # 32 x 8, and 4 rounds of it
    assert made.tokens == 5_000  # 5 turns of 1,000
    assert made.calls == 4
    assert made.pictures == 32  # 4 calls of 32 would be 128
    assert made.episodes == 256  # 8 x 128 could be played, and a round has 256
    assert made.sessions == 256 + 32  # and one of each group
    assert made.requests(4) == {}
    said = "\n".join(made.lines())
    assert "1,024  32 tasks x 8 x 4 rounds; 256 in one" in said
    assert "5,120,000  5,000 of each rollout" in said
    assert "179,200 to 716,800  700 steps" in said
    assert "hours                                        not known" in said
    assert "25,231.4 GB" in said  # 716,800 rollouts x 32 pictures x 1.1 MB


@pytest.mark.parametrize(
    ("limits", "sampled", "tokens", "pictures"),
    [
        ({"turns": 5, "context_tokens": 900, "images": 64}, 1000, 900, 64),
        ({"turns": 2, "response_tokens": 1500, "images": 999}, 1000, 1500, 32),
        ({"turns": 1}, 1000, 1000, 0),
        ({"images": 3}, None, 32_768, 3),
    ],
)
def test_the_smallest_limit_counts(limits: dict[str, int], sampled: int | None, tokens: int, pictures: int) -> None:
    rollout = {"limits": limits, "sampling": {"max_tokens": sampled}}
    made = plan(recipe={"rollout": rollout})
    assert (made.tokens, made.pictures) == (tokens, pictures)


def test_requests_go_to_each_judge() -> None:
    judge = "vllm:j@http://localhost:8000/v1"
    tools = {"preset": "codev@1:paper", "judge": "model", "judge_model": judge}
    assert plan(recipe={"reward": tools}).requests(4) == {judge: 4}
    both = {**tools, "answer_judge": judge}
    assert plan(recipe={"reward": both}).requests(4) == {judge: 5}
    other = {**tools, "answer_judge": "openai:gpt-4.1"}
    assert plan(recipe={"reward": other}).requests(4) == {judge: 4, "openai:gpt-4.1": 1}
    boxes = {"preset": "codev@1:paper", "judge": "boxes"}
    assert plan(recipe={"reward": boxes}).requests(4) == {}
    thyme = {"preset": "thyme@1:repo", "consistency_judge": judge}
    assert plan(recipe={"reward": thyme}).requests(4) == {judge: 1}


@pytest.mark.parametrize(
    ("keep", "number"),
    [
        ({"every": 100, "checkpoints": 2}, 3),  # two, and one that is being written
        ({"every": 100, "checkpoints": 2, "milestones": 100}, 10),  # 700 / 100 more
        ({"every": 50, "checkpoints": 1, "milestones": 200}, 5),  # 200, 400, 600
        ({"every": 300, "checkpoints": 9}, 4),  # 300, 600 and the last step
        ({"every": 30, "checkpoints": 1, "milestones": 100}, 4),  # both divide 300 and 600 only
    ],
)
def test_checkpoints_by_hand(keep: dict[str, int], number: int) -> None:
    weights = PlannedWeights(8_000_000_000, 7_000_000_000, 2)
    assert plan(keep=keep, weights=weights).checkpoint_bytes() == (84_000_000_000, number)  # 4 + 8 bytes each
    said = "\n".join(plan(keep=keep, weights=weights).lines())
    assert f"{84 * number:,.1f} GB  {number} of 84.0 GB" in said
    assert "16.0 GB  the trained one" in said


def test_hours_from_a_throughput_that_is_given() -> None:
    one, every = plan(tokens_per_second=10_000.0).hours() or (0, 0)
    assert one == pytest.approx(700 * 256 * 5_000 / 10_000 / 3600)  # 24.9
    assert every == pytest.approx(4 * one)


def test_hours_from_a_run(tmp_path: Path) -> None:
    lines = [
        {"step": 0, "validation/accuracy": 0.1},
        {
            "step": 1,
            "rollouts": 100,
            "response_length": 400,
            "turns": 3,
            "pictures": 2,
            "tool_calls": 2,
            "seconds/decoding": 60.0,
            "seconds/update": 40.0,
        },
        {
            "step": 2,
            "rollouts": 300,
            "response_length": 800,
            "turns": 4,
            "pictures": 4,
            "tool_calls": 3,
            "seconds/decoding": 500.0,
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "rollouts" / "media" / "ab").mkdir(parents=True)
    for number, size in enumerate((1_000_000, 3_000_000)):
        (tmp_path / "rollouts" / "media" / "ab" / str(number)).write_bytes(b"x" * size)
    run = MeasuredRun.read(tmp_path)
    assert run == MeasuredRun(1.5, 700.0, 3.75, 3.5, 2.75, 2_000_000)  # 600 s of 400 rollouts, weighed by rollouts
    judge = {"preset": "codev@1:paper", "judge": "model", "judge_model": "j"}
    made = plan(measured=run, recipe={"reward": judge})
    assert made.hours() == pytest.approx((700 * 256 * 1.5 / 3600, 700 * 1024 * 1.5 / 3600))  # 74.7 and 298.7
    said = "\n".join(made.lines())
    assert "179,200  700 of each rollout" in said
    assert "896  3.5 of each" in said
    assert "704  j" in said  # 256 x 2.75
    assert "6.4  1.50 s of each rollout" in said  # 384 s
    assert "0.5  3.8 turns of each" in said  # 3.75 / 1.5 x 0.138 / 0.7
    assert "1,254.4 GB to 5,017.6 GB  2.00 MB each" in said


def test_a_throughput_is_a_number_or_a_run(tmp_path: Path) -> None:
    assert throughput_of("9e3") == {"tokens_per_second": 9000.0}
    for said in ("0", "-1", "nan", "inf"):
        with pytest.raises(SettingsError, match="--throughput"):
            throughput_of(said)
    with pytest.raises(SettingsError, match="holds no step"):
        throughput_of(str(tmp_path))


def test_what_has_no_limit_and_what_comes_before_is_said() -> None:
    made = plan(recipe={"dialect": "direct@1", "rollout": {"sampling": {}}, "curriculum": {"highest": 0.9}})
    assert (made.tokens, made.calls, made.pictures) == (None, 0, 0)
    lines = [" ".join(line.split()) for line in made.lines()]
    assert "sampled tokens no limit rollout.limits sets one" in lines
    assert "before the first step 8 of each task to choose the tasks (curriculum)" in lines


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["rl", "pyvision-image", "--model", "m", "--tasks", "maze", "--on", "verl", "--gpus", "4"]
    assert main([*given, "--plan", "--throughput", "5000"]) == 0
    said = capsys.readouterr().out
    assert "#   rollouts                                         1,024  32 tasks x 8 x 4 rounds" in said
    assert "#   hours" in said
    assert main([*given, "--throughput", "5000"]) == 2
    assert "--throughput is for --plan" in capsys.readouterr().err


def test_the_recipe_of_pyvision_keeps_what_its_table_needs() -> None:
    settings = load_rl_settings("pyvision-image")
    kept = RunPlan(settings, 8, PlannedWeights(8_000_000_000, 8_000_000_000, 2)).checkpoint_bytes()
    assert settings.keep.milestones == 100
    assert kept == (96_000_000_000, 10)  # 100, ..., 700, the newest two and one that is being written
