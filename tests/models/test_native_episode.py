"""Whole episodes through the loop and the real clients, against a server that checks every request."""

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import endpoint
from tests.models.wire_gemini import called, generated
from tests.models.wire_responses import function_call, message, reasoning, responded
from tests.models.wire_server import Behaviour, WireServer, chat, messages

from saccade.dialects.base import Dialect
from saccade.dialects.native import PRESETS, NativeDialect
from saccade.dialects.thyme import ThymeDialect
from saccade.episode.drive import equipped, run_episode
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.models.base import Completion, Model
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.providers.responses import ResponsesModel
from saccade.models.replay import ReplayModel
from saccade.models.scripted import ScriptedModel
from saccade.record.content import ToolCall
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, FinishReason, StopReason, Trajectory
from saccade.sandbox.result import Picture, RunResult
from saccade.sandbox.scripted import ScriptedSandbox

NATIVE, TOOLS = equipped(PRESETS[""], ["crop"])
BOX = {"box": [0, 0, 8, 8], "image": "image_0"}
CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("I run code.", "python", {"code": "show(image_0)"}),
    ("", "crop", BOX),
    ("Again.", "crop", {"box": "nonsense"}),
    ("", "python", {"cod": "1"}),
)
"""What the model writes: text, function, arguments. The last call is one that the dialect cannot read."""
ANSWER = "I see it. <answer>red</answer>"


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path)


def plan(store: MediaStore, dialect: Dialect = NATIVE, **limits: int) -> Plan:
    picture = store.put_image(Image.new("RGB", (16, 16), "red"))
    task = Task(id="t", question="Which colour?", media=(NamedMedia(name="photo", part=picture),))
    return Plan(task, dialect, given_limits=EpisodeLimits(**limits) if limits else None)


def sandbox() -> ScriptedSandbox:
    shown = Picture("display", "RGB", 4, 4, b"\x10" * 48)
    return ScriptedSandbox(lambda _: RunResult(Status.OK, stdout="4 x 4\n", pictures=(shown,), committed=True))


def play(plan: Plan, model: Model, store: MediaStore) -> Any:
    return run_episode(plan, model, sandbox(), store, tools=TOOLS)


def said_by_openai(number: int, text: str, name: str, arguments: dict[str, Any]) -> Behaviour:
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return chat(text or None, finish="tool_calls", tool_calls=[call])


def said_by_claude(number: int, text: str, name: str, arguments: dict[str, Any]) -> Behaviour:
    tool = {"name": name, "json": json.dumps(arguments), "id": f"c{number}"}
    return messages(text=text, reason="tool_use", tool=tool)


def said_by_gemini(number: int, text: str, name: str, arguments: dict[str, Any]) -> Behaviour:
    return generated(*([text] if text else []), called(name, arguments, call_id=f"c{number}"))


def said_by_responses(number: int, text: str, name: str, arguments: dict[str, Any]) -> Behaviour:
    call = {**function_call(name, json.dumps(arguments)), "call_id": f"c{number}"}
    return responded(*([message(text)] if text else []), reasoning("sealed"), call)


def asked_with(body: dict[str, Any]) -> Any:
    """The conversation of a request, wherever the protocol has it."""
    return next(body[name] for name in ("messages", "contents", "input") if name in body)


def scripted() -> ScriptedModel:
    replies = [
        Completion(text, FinishReason.TOOL_CALL, (ToolCall(name=name, arguments=arguments, call_id=f"c{number}"),))
        for number, (text, name, arguments) in enumerate(CALLS)
    ]
    return ScriptedModel([*replies, Completion(ANSWER, FinishReason.STOP)])


Speaker = tuple[Callable[[str], Model], Callable[..., Behaviour], Behaviour]
SPEAKERS: dict[str, Speaker] = {
    "openai": (lambda url: OpenAIModel(endpoint(url + "/v1"), api_key="k"), said_by_openai, chat(ANSWER)),
    "vllm": (lambda url: OpenAIModel(endpoint(url + "/v1"), server="vllm"), said_by_openai, chat(ANSWER)),
    "anthropic": (
        lambda url: AnthropicModel(endpoint(url, model="claude-opus-4-8"), api_key="k"),
        said_by_claude,
        messages(text=ANSWER),
    ),
    "gemini": (
        lambda url: GeminiModel(endpoint(url, model="gemini-3-flash"), api_key="k"),
        said_by_gemini,
        generated(ANSWER),
    ),
    "responses": (
        lambda url: ResponsesModel(endpoint(url + "/v1", model="gpt-5.4"), api_key="k"),
        said_by_responses,
        responded(message(ANSWER)),
    ),
}


@pytest.fixture(params=list(SPEAKERS))
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return SPEAKERS[request.param]


def spoken(trajectory: Trajectory) -> list[Any]:
    """What must not depend on the backend."""
    return [
        (turn.text, *unsealed(turn.calls), *unsealed([turn.action]), turn.observation, turn.request)
        for turn in trajectory.turns
    ]


def unsealed(said: Iterable[Any]) -> list[Any]:
    """Without what only one backend can read."""
    return [call.model_copy(update={"sealed": None}) if isinstance(call, ToolCall) else call for call in said]


async def test_the_loop_and_the_wire_agree(server: WireServer, store: MediaStore, speaker: Speaker) -> None:
    make, says, answers = speaker
    server.will(*(says(number, *call) for number, call in enumerate(CALLS)), answers)
    model = make(server.url)
    live = await play(plan(store), model, store)
    await model.close()

    assert (live.stop, live.answer, live.stop_detail) == (StopReason.ANSWERED, "red", "")
    assert len(server.bodies) == len(CALLS) + 1
    assert [turn.execution and turn.execution.status for turn in live.turns] == [
        Status.OK,
        Status.OK,
        Status.ERROR,
        None,
        None,
    ]
    assert [turn.observation and turn.observation.call_id for turn in live.turns] == ["c0", "c1", "c2", None, None]

    corrected = await play(plan(store), scripted(), store)
    again = await play(plan(store), ReplayModel(live), store)
    assert spoken(corrected) == spoken(live) == spoken(again)


async def test_each_request_begins_with_the_one_before(server: WireServer, store: MediaStore, speaker: Speaker) -> None:
    """Else a cache of the server, and training on what was seen, would break."""
    make, says, answers = speaker
    server.will(*(says(number, *call) for number, call in enumerate(CALLS[:3])), answers)
    model = make(server.url)
    await play(plan(store), model, store)
    await model.close()
    asked = [asked_with(body) for body in server.bodies]
    assert len(asked) == 4
    for before, after in pairwise(asked):
        assert after[: len(before)] == before
        assert len(after) > len(before)


async def test_of_several_calls_the_first_is_made_and_goes_back(server: WireServer, store: MediaStore) -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": "crop", "arguments": json.dumps(BOX)}} for name in "ab"
    ]
    server.will(chat(None, finish="tool_calls", tool_calls=calls), chat(ANSWER))
    model = OpenAIModel(endpoint(server.url + "/v1"), api_key="k")
    live = await play(plan(store), model, store)
    await model.close()
    assert live.answer == "red"
    assert [call["id"] for message in server.bodies[1]["messages"] for call in message.get("tool_calls", ())] == ["a"]


async def test_servers_without_ids_of_calls(server: WireServer, store: MediaStore) -> None:
    nameless = [{"type": "function", "function": {"name": "crop", "arguments": json.dumps(BOX)}}]
    server.will(chat(None, finish="tool_calls", tool_calls=nameless), chat(ANSWER))
    model = OpenAIModel(endpoint(server.url + "/v1"), server="compatible")
    live = await play(plan(store), model, store)
    await model.close()
    assert (live.answer, live.stop_detail) == ("red", "")
    assert live.turns[0].calls[0].call_id is None


async def test_the_last_request_follows_the_results(server: WireServer, store: MediaStore, speaker: Speaker) -> None:
    make, says, answers = speaker
    server.will(says(0, *CALLS[0]), says(1, *CALLS[1]), answers)
    model = make(server.url)
    live = await play(plan(store, turns=3), model, store)
    await model.close()
    assert (live.answer, live.stop) == ("red", StopReason.ANSWERED)
    assert live.turns[1].request is not None
    last = asked_with(server.bodies[-1])[-1]
    assert live.turns[1].request.text in json.dumps(last, ensure_ascii=False)


async def test_a_continued_message_grows_on_the_wire(server: WireServer, store: MediaStore) -> None:
    server.will(
        chat("<think>a<code>\n```python\n1\n```\n</code>", stop_reason="</code>"),
        chat("</think>\n<answer>red</answer>", stop_reason="</answer>"),
    )
    model = OpenAIModel(endpoint(server.url + "/v1"), server="vllm")
    live = await play(plan(store, ThymeDialect()), model, store)
    await model.close()
    assert (live.answer, live.stop_detail) == ("red", "")
    first, second = (body["messages"] for body in server.bodies)
    assert second[: len(first)] == first
    assert [message["role"] for message in second[len(first) :]] == ["assistant"]
    assert [part["type"] for part in second[-1]["content"]] == ["text", "text", "image_url", "text"]


async def test_a_dialect_that_the_server_cannot_speak_ends_the_episode(server: WireServer, store: MediaStore) -> None:
    server.will(chat("<think>a<code>\n```python\n1\n```"))
    model = OpenAIModel(endpoint(server.url + "/v1"), api_key="k")
    live = await play(plan(store, ThymeDialect()), model, store)
    await model.close()
    assert live.stop is StopReason.MODEL_REFUSED
    assert "vllm or sglang" in live.stop_detail
    assert len(live.turns) == 1


async def test_episodes_side_by_side_do_not_mix(server: WireServer, store: MediaStore, speaker: Speaker) -> None:
    make, says, _ = speaker
    server.will(says(0, *CALLS[1]))
    model = make(server.url)
    runs = await asyncio.gather(*(play(plan(store, NativeDialect(tools=()), turns=2), model, store) for _ in range(4)))
    await model.close()
    assert [len(live.turns) for live in runs] == [2] * 4
    assert all(spoken(live) == spoken(runs[0]) for live in runs)
