"""The provider's sandbox as an arm: the same questions with theirs and with ours, in one comparison and one report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response
from tests.models.wire_responses import message, responded
from tests.models.wire_sandbox import image, interpreted, logs, png, sandbox_running

from saccade.errors import SettingsError
from saccade.evals.api import Evaluation, evaluate
from saccade.models.replay import ReplayModel
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.report.write import make_report

CALL = interpreted("print(crop)", logs("TRACE-7"), image(png()))
FAILED = interpreted("boom()", logs("no"), status="failed", at=2)


async def _looks_in_ours(body: dict[str, Any]) -> Response:
    """Code for our sandbox, and the answer once its output is there."""
    code = "<code>\n```python\nprint('OURS' + '-7')\n```\n</code>"
    said = "<answer>\n\\boxed{A}\n</answer>" if "OURS-7" in json.dumps(body["input"]) else code
    return await responded(message(said))(body)


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")
def test_theirs_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-77")
    with sandbox_running() as server:
        server.will(responded(message("Closer. "), CALL, FAILED, message("<answer>A</answer>")))
        name = f"responses:gpt-5.4@{server.url}/v1"
        theirs = evaluate("circled-letter", model=name, dialect="hosted", n=2, out=tmp_path / "theirs")
        server.will(_looks_in_ours)
        ours = evaluate("circled-letter", model=name, dialect="pyvision", n=2, out=tmp_path / "ours")
    assert [row.calls for row in theirs.rows] == [2, 2]
    assert [row.calls for row in ours.rows] == [1, 1]
    for played in read_lines(ours.path / "trajectories.jsonl", Trajectory):
        assert [done.stdout for turn in played.turns for done in turn.executions] == ["OURS-7\n"]
    assert len(theirs.compare(ours).pairs) == 2
    make_report([theirs, ours], tmp_path / "report.html")
    assert "theirs against ours" in (tmp_path / "report.html").read_text(encoding="utf-8")
    _check_pages(theirs, tmp_path)
    _check_again(theirs)


def _check_pages(run: Evaluation, folder: Path) -> None:
    from typer.testing import CliRunner

    from saccade.cli.runs import show_verb

    done = CliRunner().invoke(show_verb, [str(run.path), "--no-open", "--out", str(folder / "page.html")])
    assert done.exit_code == 0, done.output
    page = (folder / "page.html").read_text(encoding="utf-8")
    for words in ("the provider's sandbox", "code_interpreter", "TRACE-7", "answered after 2 calls", "failed"):
        assert words in page.replace("&#39;", "'"), words
    assert page.index("Closer.") < page.index("TRACE-7")


def _check_again(run: Evaluation) -> None:
    """What is stored can be played again, calls included."""
    from saccade.models.replay import completion_of

    [first, _] = read_lines(run.path / "trajectories.jsonl", Trajectory)
    [turn] = first.turns
    assert completion_of(turn).hosted == turn.hosted
    assert ReplayModel(first).name == f"replay:{first.id}"
    picture = turn.hosted[0].execution.pictures[0].image
    assert picture in first.media()


def test_a_model_without_a_sandbox_is_refused_before_the_first_sample(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="vllm has none"):
        evaluate("circled-letter", model="vllm:m@http://127.0.0.1:9/v1", dialect="hosted", n=1, out=tmp_path / "run")
