from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saccade.cli.arms import ArmRow, read_arms, table
from saccade.cli.main import main
from saccade.errors import SettingsError


def told(*words: str) -> list[str]:
    return ["arms", *words, "--model", "tiny", "--eval", "touching-circles --n 2"]


def test_arms_are_profiles_with_the_common_one_below_and_models_of_their_own() -> None:
    found = read_arms(
        "codev", "start,full,accuracy-only,zero-rl,base=start@Qwen/Q,big=full@runs/big", "tiny", "runs/sft"
    )
    assert [(arm.name, arm.profiles, arm.model, arm.trained) for arm in found] == [
        ("start", "tiny", "runs/sft", False),
        ("full", "tiny", "runs/sft", True),
        ("accuracy-only", "tiny,accuracy-only", "runs/sft", True),
        ("zero-rl", "tiny,zero-rl", "Qwen/Qwen2.5-VL-7B-Instruct", True),
        ("base", "tiny", "Qwen/Q", False),
        ("big", "tiny", "runs/big", True),
    ]
    assert read_arms("vista-r1", "no-tools+dapo", "", "m")[0].profiles == "no-tools,dapo"


@pytest.mark.parametrize(
    ("listed", "match"),
    [
        ("full,no-tern", "no-turn"),
        ("full,full@other", "two arms are called full"),
        ("a b", "is no arm"),
        (",", "no arm is named"),
        ("full=", "is no arm"),
    ],
)
def test_an_arm_that_is_none_is_refused_before_anything_is_trained(listed: str, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        read_arms("codedance", listed, "", "tiny")


def test_settings_of_all_arms_are_read_before_anything_is_trained() -> None:
    with pytest.raises(SettingsError, match="steps"):
        read_arms("codedance", "full", "", "tiny", ["--set", "stepps=3"])
    few = ["--set", "rounds.tasks=4", "--set", "rounds.groups=4", "--processes", "2"]
    assert read_arms("vista-r1", "dapo", "tiny", "tiny", few)[0].profiles == "tiny,dapo"


@pytest.mark.parametrize("steps", ["a", "1,", "0", "5;6"])
def test_steps_that_are_none(steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*told("codedance", "--arms", "full", "--at", steps), "--out", str(tmp_path)]) == 2
    assert "write steps with commas" in capsys.readouterr().err


def test_the_table_has_the_papers_rows_and_what_failed() -> None:
    rows = [
        ArmRow("start", {"vstar@1": 0.5, "pixmo-count@1": 0.25}, {"vstar@1": 2, "pixmo-count@1": 1}, {"vstar@1": 1}, 0),
        ArmRow("full, step 300", {"vstar@1": 1.0}, {"vstar@1": 3.0}, {}, 2),
    ]
    lines = table(rows, ["no-turn: saccade rl ended with exit code 2"], "CodeDance, table 3")
    text = "\n".join(lines)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert cells[0] == ["arm", "V* Bench", "PixMo-Count", "mean", "calls"]
    assert cells[2] == ["start", "50.0 / 2.00", "25.0 / 1.00", "37.5 / 1.50", "1.00"]
    assert cells[3] == ["full, step 300", "100.0 / 3.00", "– / –", "– / –", "–"]
    assert ["CodeDance-7B, SFT alone (CodeDance, table 3)", "82.7", "66.9", "74.8", "–"] in cells
    assert "2 samples failed" in text
    assert "Failed: no-turn: saccade rl ended with exit code 2." in text
    assert "No card of these benchmarks quotes scores of 'CodeV, table 9'" in "\n".join(
        table(rows, [], "CodeV, table 9")
    )


def test_every_arm_is_trained_by_its_profile_and_a_failure_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[list[str]] = []
    common = ["--model", "tiny", "--set", "seed=3", "--tasks", "a"]

    def run(words: list[str], **_: Any) -> SimpleNamespace:
        called.append(words[3:])
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(subprocess, "run", run)
    out = tmp_path / "arms"
    code = main([*told("codedance", "--arms", "no-turn,full", "--train", "--set seed=3 --tasks a"), "--out", str(out)])
    assert code == 1
    assert called == [
        ["rl", "codedance", *profile, *common, "--out", str(out / arm / "rl"), "--resume"]
        for arm, profile in (("no-turn", ["--profile", "no-turn"]), ("full", []))
    ]
    failed = json.loads((out / "arms.json").read_text())["failed"]
    assert failed == [f"{name}: saccade rl ended with exit code 2" for name in ("no-turn", "full")]
    assert "Failed: full: saccade rl" in capsys.readouterr().out


def test_json_is_alone_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=3))
    assert main([*told("codedance", "--arms", "full", "--json"), "--out", str(tmp_path)]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value == {"arms": [], "failed": ["full: saccade rl ended with exit code 3"], "out": str(tmp_path)}


def test_what_is_stopped_stays_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=130))
    assert main([*told("codedance", "--arms", "full,no-turn"), "--out", str(tmp_path)]) == 130
