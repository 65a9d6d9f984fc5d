"""`saccade protocols`: tables on the screen, findings beside the run, a judge whose replies are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evals.support import write_tasks

from saccade.cli.main import main

NAMES = {"confidence", "errors", "faithfulness", "tokens", "tool_use"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    script = folder / "script.json"
    script.write_text(json.dumps(["<answer>0</answer>", "<answer>9</answer>"]))
    tasks = write_tasks(folder / "tasks", 2)
    out = folder / "run"
    given = ["--model", f"scripted:{script}", "--dialect", "direct", "--out", str(out), "--workers", "1"]
    assert main(["eval", str(tasks), *given]) == 0
    return out


def test_all_protocols_without_a_key(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "## run: Errors E1 to E6 (VISTA)" in printed
    assert "| run (gold boxes) | 0.0 (0.0–65.8) |" in printed
    assert {file.stem for file in (run / "protocols").glob("*.json")} == NAMES
    stored = json.loads((run / "protocols" / "faithfulness.json").read_text())
    assert stored["judges"][0]["any_crop"]["of_all"]["no_tool"]["count"] == 2


def test_one_protocol_elsewhere_with_a_judge(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = tmp_path / "replies.json"
    replies.write_text("[]")
    more = ["--only", "faithfulness", "--judge", f"scripted:{replies}", "--out", str(tmp_path / "found")]
    assert main(["protocols", str(run), *more]) == 0
    assert [file.name for file in (tmp_path / "found").glob("*.json")] == ["faithfulness.json"]
    assert "run (model): scripted" in capsys.readouterr().out


def test_wrong_names(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        (["--only", "tokns"], "tokens"),
        (["--budget", "qwen"], "no pixel budget"),
        ([str(run), "--out", str(tmp_path)], "name one run"),
    ):
        assert main(["protocols", str(run), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["protocols", str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err
