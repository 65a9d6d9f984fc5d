"""Evaluations from Python: the documented example as it stands, data frames, mistakes, a running event loop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Response
from tests.models.wire_batches import BatchServer, batch_server
from tests.models.wire_responses import message, responded
from tests.models.wire_sandbox import image, interpreted, logs, png, sandbox_running

import saccade
from saccade.errors import SettingsError, UnavailableError
from saccade.evals.api import Evaluation
from saccade.evals.api import evaluate as run_evaluation
from saccade.evals.grades import EvalProgress
from saccade.evals.run import continuing, evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.batches import BatchTimes
from saccade.models.replay import ReplayModel
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.trajectory import StopReason, Trajectory
from saccade.report.write import make_report

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_documented_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python runnable\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "runs/report.html" in printed
    assert (tmp_path / "runs/report.html").stat().st_size > 50_000
    assert "paired permutation test" in printed
    run = names["run"]
    assert isinstance(run, Evaluation)
    assert len(run.rows) == len(run.records()) == 12
    assert run.summary.k == 2
    assert run.records()[0]["id"] == run.rows[0].id


def test_what_was_chosen_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "script.json").write_text('["<answer>\\\\boxed{A}</answer>"]')
    model = f"scripted:{tmp_path / 'script.json'}"
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", n=1, workers=1)
    assert run.settings.dialect == "pyvision"
    assert f"{model} is asked in the dialect pyvision: the default" in caplog.text


async def test_it_works_inside_an_event_loop_and_continues(tmp_path: Path) -> None:
    def evaluate(n: int) -> Evaluation:
        model = ScriptedModel(["<answer>A</answer>"], name="one")
        return saccade.evaluate(["circled-letter"], model=model, out=tmp_path / "run", dialect="direct", n=n, workers=1)

    assert len(evaluate(1).rows) == 1
    assert len(evaluate(2).rows) == 2, "the first is there already"


def test_mistakes_are_named(tmp_path: Path) -> None:
    model = ScriptedModel([])
    with pytest.raises(
        SettingsError, match=r"(?s)2 mistake.*dialekt: no such setting\. Did you mean 'dialect'"
    ) as seen:
        saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialekt="direct", k=0)
    assert "k: " in str(seen.value)
    with pytest.raises(SettingsError, match="no run"):
        saccade.open_evaluation(tmp_path)


def test_a_data_frame_has_the_samples_as_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(lambda messages: "<answer>A</answer>", name="a")
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialect="direct", n=3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        run.frame()
    # What pandas is called with, where it is not installed; with it the next lines are its own.
    seen = SimpleNamespace(from_records=lambda records, index: (index, [record[index] for record in records]))
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=seen))
    assert run.frame() == ("id", [row.id for row in run.rows])


def test_pandas_is_loaded_for_a_data_frame_alone() -> None:
    code = "import sys; import saccade.evals.api; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pandas" not in run.stdout.split()


def test_a_real_data_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    model = ScriptedModel(lambda messages: "<answer>A</answer>", name="a")
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialect="direct", n=3)
    frame = run.frame()
    assert list(frame.index) == [row.id for row in run.rows]
    assert frame.correct.mean() == run.summary.total.avg


QUICK = BatchTimes(quiet=2.0, poll=0.05)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    with batch_server() as running:
        yield running


def settings(out: Path, model: str, **more: Any) -> EvalSettings:
    given = {"sources": ["nested-squares"], "model": model, "n": 3, **more}
    return continuing(EvalSettings.model_validate(given), out)[0]


def says(text: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}


def turns(body: dict[str, Any]) -> Any:
    """A call, and after its result an answer."""
    if any(message["role"] == "tool" for message in body["messages"]):
        return says("<answer>3</answer>")
    call = {"id": "c1", "type": "function", "function": {"name": "python", "arguments": json.dumps({"code": "1 + 1"})}}
    return says("", tool_calls=[call])


async def test_each_round_of_turns_is_a_batch_and_no_answer_is_asked_for_again(
    server: BatchServer, tmp_path: Path
) -> None:
    server.answer = turns
    chosen = settings(tmp_path / "run", f"openai:gpt-4.1@{server.url}/v1")
    heard: list[tuple[int, list[str]]] = []

    def watch(progress: EvalProgress) -> None:
        heard.append((len(server.batches), list(progress.notices)))

    made = await evaluate(chosen, tmp_path / "run", batch=QUICK, watch=watch)
    assert (made.progress.played, made.progress.failed) == (3, 0)
    assert [len(requests) for requests in server.batches.values()] == [3, 3]
    [before] = [notices for sent, notices in heard if notices and sent == 0][:1]
    assert "3 samples cost about" in before[-1]
    assert "by single requests" in before[-1]
    assert "by batches" in before[-1]
    stored = list(read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory))
    assert {item.stop for item in stored} == {StopReason.ANSWERED}
    assert stored[0].turns[0].dollars == pytest.approx((1000 * 2.0 + 10 * 8.0) / 2e6)
    again = await evaluate(chosen, tmp_path / "run", batch=QUICK)
    assert (again.progress.played, len(server.batches)) == (0, 2)
    (tmp_path / "run" / "trajectories.jsonl").unlink()  # as if the process had ended before the samples did
    made = await evaluate(chosen, tmp_path / "run", batch=QUICK)
    assert (made.progress.played, len(server.batches)) == (3, 2)


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("vllm:m@http://127.0.0.1:9/v1", {"dialect": "direct"}, "no batch API"),
        ("openai:gpt-4.1@http://127.0.0.1:9/v1", {"limits": {"wall_seconds": 60}}, r"limits\.wall_seconds"),
        ("openai:gpt-4.1", {"sampling": {"extra_headers": {"X-A": "1"}}}, "extra_headers"),
        ("solver", {"dialect": "codedance"}, "sends no requests"),
    ],
)
async def test_what_cannot_be_batched(
    server: BatchServer, tmp_path: Path, model: str, more: dict[str, Any], words: str
) -> None:
    chosen = settings(tmp_path / "run", model, **more)
    with pytest.raises(SettingsError, match=words):
        await evaluate(chosen, tmp_path / "run", batch=QUICK)


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
        theirs = run_evaluation("circled-letter", model=name, dialect="hosted", n=2, out=tmp_path / "theirs")
        server.will(_looks_in_ours)
        ours = run_evaluation("circled-letter", model=name, dialect="pyvision", n=2, out=tmp_path / "ours")
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
        run_evaluation(
            "circled-letter", model="vllm:m@http://127.0.0.1:9/v1", dialect="hosted", n=1, out=tmp_path / "run"
        )
