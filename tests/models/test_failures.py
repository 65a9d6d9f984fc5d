"""A canary key is looked for wherever a program could leave it."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import os
import pickle
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.models.helpers import Media, ask, endpoint
from tests.models.wire_server import (
    Behaviour,
    WireServer,
    chat,
    delta,
    message_events,
    messages,
    raw,
    stalled,
    status,
    stream,
    then_slow,
    torn,
)

from saccade.core.retry import RetryPolicy
from saccade.dialects.native import NativeDialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.errors import ModelError, ModelRefusedError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.failures import ApiKey, find_key
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel
from saccade.record.codec import dumps
from saccade.record.task import Task
from saccade.record.trajectory import StopReason

KINDS = ["openai", "anthropic"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def model(server: WireServer, kind: str) -> AsyncIterator[Model]:
    made: Model
    if kind == "openai":
        made = OpenAIModel(endpoint(server.url + "/v1"), api_key="k")
    else:
        made = AnthropicModel(endpoint(server.url, model="claude-opus-4-8"), api_key="k")
    yield made
    await made.close()


def right(kind: str) -> Behaviour:
    return chat() if kind == "openai" else messages()


def begun(kind: str, server: WireServer) -> Behaviour:
    """Says `he` and never goes on."""
    if kind == "openai":
        return then_slow(server, delta("h"), delta("e"))
    return stalled(server, *message_events("hello")[:4])


def open_files() -> int:
    """Of this process: connections of the client and of the server, among others."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


async def until(holds: Callable[[], bool]) -> bool:
    """Whether `holds` comes to hold within ten seconds."""
    for _ in range(500):
        if holds():
            return True
        await asyncio.sleep(0.02)
    return False


async def broken_off(model: Model, end: Callable[[asyncio.Task[object]], Awaitable[None]]) -> list[str]:
    """The pieces that were heard before `end` ended the task."""
    heard: list[str] = []
    task = asyncio.ensure_future(model.complete(ask(), Media(), on_text=heard.append))
    assert await until(lambda: "".join(heard) == "he")
    await end(task)
    return heard


async def cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def time_out(task: asyncio.Task[object]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 0.01)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files as Linux shows them")
@pytest.mark.parametrize("end", [cancel, time_out])
async def test_a_stream_that_is_cancelled_leaves_nothing_behind(
    server: WireServer, model: Model, kind: str, end: Callable[[asyncio.Task[object]], Awaitable[None]]
) -> None:
    server.will(right(kind), begun(kind, server), right(kind))
    await model.complete(ask(), Media(), on_text=lambda _: None)
    tasks, files = asyncio.all_tasks(), open_files()

    heard = await broken_off(model, end)

    assert await asyncio.to_thread(server.aborted.wait, 10), "the server still answers"
    assert asyncio.all_tasks() <= tasks
    assert await until(lambda: open_files() <= files), "a connection is still open"
    assert "".join(heard) == "he"
    assert len(server.bodies) == 2, "it was tried again"
    assert (await model.complete(ask(), Media())).text == "hello"


@pytest.mark.parametrize("content", ["", '{"id": "c", "choices": [', "event: message_start\ndata: {"])
async def test_a_body_that_is_torn_is_tried_again(server: WireServer, model: Model, kind: str, content: str) -> None:
    server.will(torn(content), torn(content), right(kind))
    assert (await model.complete(ask(), Media())).text == "hello"
    assert len(server.bodies) == 3


CANARY = "sk-canary-5f2b9c41"
ONCE = RetryPolicy(tries=2)


def test_keys_come_from_the_argument_then_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = ("AZURE_OPENAI_API_KEY",)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "usual")
    assert find_key("azure", usual=azure).reveal() == "usual"
    monkeypatch.setenv("SACCADE_AZURE_API_KEY", "own")
    assert find_key("azure", usual=azure).reveal() == "own"
    assert find_key("azure", "given", usual=azure).reveal() == "given"
    assert find_key("vllm", needed=False).reveal() == ""
    monkeypatch.setenv("SACCADE_VLLM_API_KEY", "local")
    assert find_key("vllm", needed=False).reveal() == "local"
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY"):
        find_key("openai", usual=("OPENAI_API_KEY",))


def test_a_key_has_no_readable_form() -> None:
    key = ApiKey(CANARY)
    assert CANARY not in f"{key} {key!r} {[key]} {key.hide('got ' + CANARY)}"
    assert ApiKey("").hide("text") == "text"
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="never"):
            leak(key)


def clients(url: str) -> list[tuple[Model, Behaviour]]:
    openai, claude = endpoint(url + "/v1", retry=ONCE), endpoint(url, retry=ONCE, model="claude-opus-4-8")
    return [(OpenAIModel(openai), chat()), (AnthropicModel(claude), messages())]


async def test_the_canary_is_nowhere(
    server: WireServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {CANARY}"
    seen: list[str] = []
    for model, right in clients(server.url):
        server.will(right)
        answer = await model.complete(ask(), Media())
        assert CANARY in json.dumps(server.headers), "the key must reach the server"
        seen += [repr(answer), repr(model), str(model), model.name, json.dumps(server.bodies)]
        bad = (status(401, echo), status(500, echo), raw(echo), raw(echo, "text/html"), stream('{"error": "' + echo))
        for behaviour in bad:
            server.will(behaviour)
            with pytest.raises(ModelError) as caught:
                await model.complete(ask(), Media(), on_text=seen.append)
            seen += traceback.format_exception(caught.value)
            seen.append(repr(caught.value) + repr(caught.value.__dict__) + repr(caught.value.__context__))
        await model.close()
    seen += [record.getMessage() + repr(record.args) for record in caplog.records]
    seen += [*capfd.readouterr(), *(path.name for path in tmp_path.iterdir())]
    assert len(seen) > 20
    assert not [text for text in seen if CANARY in text]


@pytest.mark.parametrize(("code", "reason"), [(401, StopReason.MODEL_REFUSED), (500, StopReason.MODEL_LOST)])
async def test_no_record_of_an_episode_holds_the_canary(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, reason: StopReason
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    plan = Plan(Task(id="t", question="What?"), NativeDialect())
    for model, _ in clients(server.url):
        server.will(status(code, f"Your key is {CANARY}"))
        trajectory = await run_episode(plan, model, None, MediaStore(tmp_path))
        await model.close()
        assert trajectory.stop is reason
        assert "Your key is [key]" in trajectory.stop_detail
        assert CANARY not in dumps(trajectory)
