"""Calls of endpoint tools at once: how many a server sees in the same moment, in process and behind a server of tools.

The server answers nobody before as many as expected are there, so nothing depends on the speed of this machine.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from PIL import Image
from tests.episode.support import stored_task
from tests.models.listening import listening
from tests.plugins.serve.tool_server import TOKEN, tool_server

from saccade.dialects.base import load_dialect
from saccade.episode.drive import equipped, run_episode
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.execution import Status
from saccade.tools.context import ToolContext, ToolResult
from saccade.tools.serving import ToolServeSettings
from saccade.tools.setup import VARIABLE, ToolCallSettings
from saccade.tools.toolbox import Toolbox, named_tools, served_tools

CONTEXT = ToolContext({"chart": Image.new("RGB", (60, 40), "white")}, question="Find x.")


class Gathering:
    """A model's server that answers once `wanted` requests wait; `most` says how many waited in one moment."""

    closed = threading.Event()

    def __init__(self) -> None:
        self.url = ""
        self.expects(1)

    def expects(self, wanted: int) -> None:
        self.wanted, self.inside, self.most = wanted, 0, 0
        self.all_here = threading.Event()

    async def answer(self, request: Request) -> JSONResponse:
        await request.json()
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside >= self.wanted:
            self.all_here.set()
        mine = self.all_here
        while not mine.is_set() and not self.closed.is_set():
            await asyncio.sleep(0.01)
        self.inside -= mine is self.all_here
        message = {"role": "assistant", "content": "x = 4.\nAnswer: 4"}
        return JSONResponse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.fixture(scope="module")
def gathering() -> Iterator[Gathering]:
    app, server = FastAPI(), Gathering()
    app.post("/v1/chat/completions")(server.answer)
    app.get("/v1/models")(lambda: {"data": []})
    with listening(app) as server.url:
        yield server
        server.closed.set()


@pytest.fixture(autouse=True)
def _setup(gathering: Gathering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.toml").write_text(f"[multimath]\nmodel = 'compatible:it@{gathering.url}/v1'\n", "utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    monkeypatch.setenv("SACCADE_TOOLS_TOKEN", TOKEN)


def begun(calls: int, **settings: Any) -> list[Future[ToolResult]]:
    (tool,) = named_tools("multimath", ToolCallSettings.model_validate(settings))
    return [tool.submit({"task": "solve"}, CONTEXT) for _ in range(calls)]  # type: ignore[attr-defined]


def test_64_calls_wait_side_by_side_in_process(gathering: Gathering) -> None:
    gathering.expects(64)
    assert all(future.result(60).ok for future in begun(64))
    assert gathering.most == 64


def test_no_more_wait_than_the_setting_says_and_the_others_get_their_turn(gathering: Gathering) -> None:
    gathering.expects(5)
    assert all(future.result(60).ok for future in begun(20, in_flight=5))
    assert gathering.most == 5


def test_a_server_that_does_not_answer_in_time_is_an_outage_and_frees_its_place(gathering: Gathering) -> None:
    gathering.expects(2)
    late = begun(1, in_flight=1, seconds=0.3)[0].result(60)
    assert (late.status, late.text) == (Status.LOST, "")
    assert "did not answer within 0.3 s" in late.problem.detail
    gathering.expects(1)
    assert begun(1, in_flight=1, seconds=60)[0].result(60).ok


def test_a_call_that_is_cancelled_frees_its_place(gathering: Gathering) -> None:
    gathering.expects(2)
    first, second = begun(2, in_flight=1)
    first.cancel()
    gathering.expects(1)
    assert second.result(60).ok


async def test_a_toolbox_awaits_many_without_holding_up_the_loop(gathering: Gathering) -> None:
    gathering.expects(24)
    box = Toolbox.of("multimath")
    results = await asyncio.gather(*(box.call_async("multimath_server", {}, CONTEXT) for _ in range(24)))
    assert [result.status for result in results] == [Status.OK] * 24
    assert gathering.most == 24


def test_a_server_of_tools_waits_for_as_many_and_says_when_it_is_ready(gathering: Gathering) -> None:
    settings = ToolServeSettings.model_validate({"groups": {"math": {"tools": ("multimath",), "in_flight": 6}}})
    with tool_server(settings) as (url, _, _):
        ready = httpx.get(f"{url}/v1/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        gathering.expects(6)
        (tool,) = served_tools(url, ToolCallSettings())
        results = [future.result(60) for future in [tool.submit({}, CONTEXT) for _ in range(18)]]
        assert all(result.ok for result in results)
        assert gathering.most == 6
        assert [repair.name for repair in results[0].repairs] == ["question_filled"], "the question travels too"


def test_an_endpoint_that_is_not_there_keeps_a_server_of_tools_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.toml").write_text("[multimath]\nmodel = 'compatible:it@http://127.0.0.1:9/v1'\n", "utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other.toml"))
    settings = ToolServeSettings.model_validate({"groups": {"math": {"tools": ("multimath", "crop")}}})
    with tool_server(settings) as (url, _, _):
        assert httpx.get(f"{url}/v1/health").json() == {"status": "alive"}
        ready = httpx.get(f"{url}/v1/ready")
        assert ready.status_code == 503
        assert "cannot be reached" in ready.json()["waiting_for"]["multimath"]


async def test_the_record_of_an_episode_names_what_was_filled_in(gathering: Gathering, tmp_path: Path) -> None:
    gathering.expects(1)
    store = MediaStore(tmp_path / "media")
    dialect, tools = equipped(load_dialect("vista"), ["multimath"])
    turns = [
        '<think>a</think><tool_call>{"tool": "multimath", "task": "solve"}</tool_call>',
        "<think>b</think><answer>4</answer>",
    ]
    plan = Plan(stored_task(store), dialect)
    played = await run_episode(plan, ScriptedModel(turns), None, store, tools=tools)
    run = played.turns[0].execution
    assert [(repair.name, repair.note) for repair in run.repairs] == [
        ("question_filled", "question was left out: the question of the task")
    ]
    assert "Answer: 4" in (run.value or "")
