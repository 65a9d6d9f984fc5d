"""Answers that are broken off in the middle: by the server, by whoever asked, and what is left of them."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.models.helpers import Media, ask, endpoint
from tests.models.wire_server import (
    Behaviour,
    WireServer,
    chat,
    delta,
    message_events,
    messages,
    stalled,
    then_slow,
    torn,
)

from saccade.models.base import Model
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel

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
