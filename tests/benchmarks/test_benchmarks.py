"""The benchmarks of evaluations, the loop, a server and sources do their work and say so; no figure is judged here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.plugins.serve.agents import serving
from tests.sandbox.providers import linux_only

from benchmarks import evaluation, loop, tasks
from benchmarks import serve as measured
from benchmarks.__main__ import app
from benchmarks.evaluation import EvalScale
from benchmarks.loop import LoopScale, measure_loop
from benchmarks.serve import ServeScale
from benchmarks.tasks import TasksScale
from saccade.cli.main import run
from saccade.dialects.base import load_dialect
from saccade.episode.flow import Plan
from saccade.errors import DataError, SandboxError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer
from saccade.record.execution import Status
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox


@linux_only
@pytest.mark.slow
def test_every_figure_of_an_evaluation_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "QUICK_EVAL", EvalScale(at_once=4, samples=4, rounds=2, bare_samples=16, stored=50))
    file = tmp_path / "eval.json"
    assert run(app, ["eval", "--quick", "--out", str(file)], "benchmarks") == 0
    code, straight, served, bare, growth, again = json.loads(file.read_text())["figures"]
    assert code["value"] > 0
    assert code["other"] == straight["value"]
    assert 0 < bare["value"] <= bare["other"] == 80
    assert served["value"] > 0
    assert growth["other"] > 0
    assert 0 < again["value"] < 60


def test_samples_that_do_not_do_their_work_are_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "Answer", lambda text: Answer(text="3"))
    with pytest.raises(SandboxError, match="did not do their work"):
        evaluation._play(tmp_path / "a", evaluation.WITHOUT, 2, 2)


SMALL = LoopScale(concurrent=2, episodes=4, bare_episodes=5, memory_episodes=8, starts=1)


@linux_only
@pytest.mark.slow
def test_every_figure_of_the_loop_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    figures = measure_loop(SMALL, heard.append)
    assert len(figures) == 5
    assert len(heard) == 4
    turns, bare, growth, package, help_ = figures
    assert turns.value > 0
    assert turns.ratio is not None
    assert bare.value > 0
    assert growth.met is None  # a small run does not judge it
    assert package.other is not None
    assert help_.value > 0
    monkeypatch.setattr(loop, "QUICK_LOOP", SMALL)
    file = tmp_path / "loop.json"
    assert run(app, ["loop", "--quick", "--out", str(file)], "benchmarks") == 0
    assert len(json.loads(file.read_text())["figures"]) == 5


def test_an_episode_that_did_not_do_its_work_is_no_figure(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    plan = Plan(loop._task(store), load_dialect("pyvision"))
    box = ScriptedSandbox(lambda code: RunResult(status=Status.ERROR, traceback="NameError: no"))
    with pytest.raises(SandboxError, match="did not do its work"):
        asyncio.run(loop._episodes(plan, box, store, loop.TRIVIAL, 1, 1))


@linux_only
@pytest.mark.slow
def test_every_figure_of_a_server_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "QUICK_SERVE", ServeScale(at_once=4, requests=8, code_requests=8, memory_requests=16))
    file = tmp_path / "serve.json"
    assert run(app, ["serve", "--quick", "--out", str(file)], "benchmarks") == 0
    bare, waiting, busy, memory, code = json.loads(file.read_text())["figures"]
    assert 0 < bare["value"] <= bare["other"] == 80
    assert 0 < waiting["value"] <= waiting["other"] == 80
    assert busy["value"] >= 0
    assert round(busy["other"], 2) == 13.89  # one core for 90 % of 80 a second
    assert memory["other"] > 0
    assert 0 < code["value"] <= 40
    assert 0 < code["other"] <= 40


async def test_a_refused_request_is_no_figure() -> None:
    model = ScriptedModel(lambda messages: "<answer>2</answer>", name="bench")
    async with serving({"bench": model}, sandbox=ScriptedSandbox([])) as url:
        with pytest.raises(SandboxError, match="refused"):  # no token is shown
            await measured._load(url.removesuffix("/v1") + measured.ASK, {}, 1, 1, 0.0)


async def test_another_answer_and_a_server_that_goes_are_no_figure() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"choices": [{"message": {"content": "3"}}]}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:9])
        await writer.drain()
        writer.write(body[9:])
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(SandboxError, match="answered with"):
            await measured._load(url, {}, 1, 1, 0.0)
        with pytest.raises(SandboxError, match="closed a connection"):
            await measured._load(url, {}, 2, 1, 0.0)


@pytest.mark.slow
def test_every_figure_of_sources_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "QUICK_TASKS", TasksScale(tasks=40, pictures=4))
    file = tmp_path / "tasks.json"
    assert run(app, ["tasks", "--quick", "--out", str(file)], "benchmarks") == 0
    figures = json.loads(file.read_text())["figures"]
    assert [figure["unit"] for figure in figures] == ["s", "MiB"] * 3
    assert all(figure["value"] > 0 and figure["met"] is None for figure in figures)
    assert all("40 tasks" in figure["name"] for figure in figures[::2])


def test_a_source_that_gives_fewer_tasks_is_no_figure(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "?"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="gave 1 tasks of 2"):
        tasks._opened(tmp_path / "rows.jsonl", 2)
