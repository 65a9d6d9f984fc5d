"""Calls and their results as both protocols have them; the server checks their rules on every request."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_server import WireServer, chat, messages, status, stream

from saccade.errors import ModelRefusedError
from saccade.models.base import Request, ToolSpec
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel, paired
from saccade.record.content import ImagePart, Message, ToolCall

TOOL = ToolSpec("crop", "Cut out.", {"type": "object"})
OPENING = (said("system", "Look."), said("user", "What?"))


def called(text: str, *calls: tuple[str, str | None]) -> Message:
    made = tuple(ToolCall(name=name, arguments={"größe": 1}, call_id=call_id) for name, call_id in calls)
    return said("assistant", *([text] if text else [])).model_copy(update={"calls": made})


def result(call_id: str | None, *parts: str | ImagePart) -> Message:
    return said("tool", *parts).model_copy(update={"call_id": call_id})


def after(*more: Message) -> Request:
    return Request((*OPENING, *more), tools=(TOOL,))


@pytest.fixture
def media() -> Media:
    return Media()


@pytest.fixture
def picture(media: Media) -> ImagePart:
    return media.put(Image.new("RGB", (2, 2)))


@pytest.fixture
async def openai(server: WireServer) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel(endpoint(server.url + "/v1"), api_key="k")
    server.will(chat())
    yield model
    await model.close()


@pytest.fixture
async def claude(server: WireServer) -> AsyncIterator[AnthropicModel]:
    model = AnthropicModel(endpoint(server.url, model="claude-opus-4-8"), api_key="k")
    server.will(messages())
    yield model
    await model.close()


# Pairs.


def test_paired_messages_stay_as_they_are(picture: ImagePart) -> None:
    history = (*OPENING, called("I crop.", ("crop", "a")), result("a", "done", picture), said("user", "Go on."))
    assert paired(history) == history


def test_calls_without_identifiers_get_one_that_is_their_own() -> None:
    pair = (called("", ("crop", None)), result(None, "done"))
    history = paired((*pair, *pair))
    names = [history[0].calls[0].call_id, history[2].calls[0].call_id]
    assert [message.call_id for message in history] == [None, names[0], None, names[1]]
    assert len(set(names)) == 2
    assert all(names)


def test_calls_without_results_are_left_out() -> None:
    unanswered = called("I crop.", ("crop", "a"), ("look", "b"))
    history = paired((unanswered, result("b", "done"), said("user", "x"), called("", ("crop", "c")), said("user", "y")))
    assert [call.call_id for message in history for call in message.calls] == ["b"]
    assert [message.role for message in history] == ["assistant", "tool", "user", "user"]


def test_results_without_calls_answer_nothing() -> None:
    history = paired((result("a", "lost"), called("", ("crop", "b")), result("a", "odd"), result("b", "done")))
    assert [(message.role, message.call_id, message.text) for message in history] == [
        ("tool", None, "lost"),
        ("assistant", None, ""),
        ("tool", "b", "done"),
        ("tool", None, "odd"),
    ]


# Chat completions.


async def test_chat_calls_and_results(server: WireServer, openai: OpenAIModel, media: Media) -> None:
    request = after(called("I crop.", ("crop", "a")), result("a", "done"), called("", ("crop", "b")), result("b", "2"))
    await openai.complete(request, media)
    body = server.bodies[0]
    first, answer, second, _ = body["messages"][2:]
    assert first["content"] == "I crop."
    (call,) = first["tool_calls"]
    assert (call["id"], call["type"], call["function"]["name"]) == ("a", "function", "crop")
    assert json.loads(call["function"]["arguments"]) == {"größe": 1}
    assert answer == {"role": "tool", "tool_call_id": "a", "content": "done"}
    assert second["content"] is None
    assert body["parallel_tool_calls"] is False


async def test_chat_pictures_follow_with_the_line_they_stand_in(
    server: WireServer, openai: OpenAIModel, media: Media, picture: ImagePart
) -> None:
    shown = result("a", "12 px\nimage_1: ", picture, "\nimage_2: ", picture, "\n")
    await openai.complete(after(called("", ("crop", "a")), shown, said("user", "Answer now.")), media)
    _, answer, pictures, request = server.bodies[0]["messages"][2:]
    assert answer == {"role": "tool", "tool_call_id": "a", "content": "12 px\n"}
    assert pictures["role"] == "user"
    kinds = [part["type"] for part in pictures["content"]]
    assert kinds == ["text", "text", "image_url", "text", "image_url", "text"]
    texts = [part["text"] for part in pictures["content"] if part["type"] == "text"]
    assert "call a" in texts[0]
    assert texts[1:] == ["image_1: ", "\nimage_2: ", "\n"]
    assert request == {"role": "user", "content": "Answer now."}


async def test_chat_pictures_wait_until_all_calls_are_answered(
    server: WireServer, openai: OpenAIModel, media: Media, picture: ImagePart
) -> None:
    request = after(called("", ("crop", "a"), ("crop", "b")), result("a", picture), result("b", "two"))
    await openai.complete(request, media)
    sent = server.bodies[0]["messages"][3:]
    assert [message["role"] for message in sent] == ["tool", "tool", "user"]
    assert sent[0]["content"]


@pytest.mark.parametrize(("kind", "sent"), [("azure", True), ("vllm", True), ("sglang", True), ("compatible", False)])
async def test_chat_one_call_at_a_time_where_it_is_known(
    server: WireServer, media: Media, kind: str, sent: bool
) -> None:
    server.will(chat())
    model = OpenAIModel(endpoint(server.url + "/v1"), server=kind, api_key="k")
    await model.complete(after(), media)
    await model.complete(ask(), media)
    await model.close()
    assert ["parallel_tool_calls" in body for body in server.bodies] == [sent, False]


async def test_transformers_is_asked_to_stream_where_it_may_call(server: WireServer, media: Media) -> None:
    answer = {"index": 0, "id": "c", "type": "function", "function": {"name": "python", "arguments": "{}"}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [answer]}, "finish_reason": "tool_calls"}]}
    server.will(stream(json.dumps(chunk)), chat())
    model = OpenAIModel(endpoint(server.url + "/v1"), server="transformers", api_key="k")
    [call] = (await model.complete(after(), media)).tool_calls
    assert (call.name, (await model.complete(ask(), media)).tool_calls) == ("python", ())
    await model.close()
    assert [body.get("stream") for body in server.bodies] == [True, None]


async def test_chat_a_model_that_cannot_be_told_so_is_asked_without(
    server: WireServer, openai: OpenAIModel, media: Media
) -> None:
    words = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
    server.will(status(400, words, param="parallel_tool_calls"), chat())
    for _ in range(2):
        assert (await openai.complete(after(), media)).text == "hello"
    assert ["parallel_tool_calls" in body for body in server.bodies] == [True, False, False]

    server.will(status(400, "no such tool", param="tools"))
    with pytest.raises(ModelRefusedError, match="no such tool"):
        await openai.complete(after(), media)
    assert len(server.bodies) == 1


# Messages.


async def test_claude_calls_and_results(
    server: WireServer, claude: AnthropicModel, media: Media, picture: ImagePart
) -> None:
    shown = result("functions.crop:0", "image_1: ", picture, "\n")
    request = after(called("\n", ("crop", "functions.crop:0")), shown, said("user", "Answer now."))
    await claude.complete(request, media)
    body = server.bodies[0]
    assistant, user = body["messages"][1:]
    (call,) = assistant["content"]
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "crop", {"größe": 1})
    answer, text = user["content"]
    assert (answer["type"], answer["tool_use_id"]) == ("tool_result", call["id"])
    assert [block["type"] for block in answer["content"]] == ["text", "image"]
    assert text == {"type": "text", "text": "Answer now."}
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


async def test_claude_results_of_several_calls_are_one_message(
    server: WireServer, claude: AnthropicModel, media: Media
) -> None:
    request = after(called("", ("crop", "a"), ("crop", "b")), result("b", "two"), result("a", ""))
    await claude.complete(request, media)
    results = server.bodies[0]["messages"][2]["content"]
    assert [(block["tool_use_id"], "content" in block) for block in results] == [("b", True), ("a", False)]


# Continued messages of the assistant.

THOUGHT = (said("assistant", "<think>a<code>b</code>", "<sandbox_output>1</sandbox_output>\n"),)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_message_is_continued(server: WireServer, media: Media, kind: str) -> None:
    server.will(chat("</think>"))
    model = OpenAIModel(endpoint(server.url + "/v1"), server=kind)
    answer = await model.complete(Request((*OPENING, *THOUGHT)), media)
    await model.complete(ask(), media)
    await model.close()
    first, second = server.bodies
    assert answer.text == "</think>"
    assert (first["continue_final_message"], first["add_generation_prompt"]) == (True, False)
    assert first["messages"][-1] == {"role": "assistant", "content": THOUGHT[0].text}
    assert "continue_final_message" not in second


async def test_pictures_are_continued_where_the_server_can(
    server: WireServer, media: Media, picture: ImagePart
) -> None:
    server.will(chat())
    seen = Request((*OPENING, said("assistant", "<code>b</code><sandbox_output>", picture, "</sandbox_output>")))
    cut = Request((*OPENING, said("assistant", "<code>b</code>", picture)))
    vllm, sglang = (OpenAIModel(endpoint(server.url + "/v1"), server=kind) for kind in ("vllm", "sglang"))
    await vllm.complete(seen, media)
    assert [part["type"] for part in server.bodies[0]["messages"][-1]["content"]] == ["text", "image_url", "text"]
    for model, request, words in ((vllm, cut, "ends with text"), (sglang, seen, "holds pictures.*vllm")):
        with pytest.raises(ModelRefusedError, match=words):
            await model.complete(request, media)
        await model.close()
    assert len(server.bodies) == 1


@pytest.mark.parametrize("kind", ["openai", "azure", "compatible"])
async def test_who_cannot_continue_says_so(server: WireServer, media: Media, kind: str) -> None:
    model = OpenAIModel(endpoint(server.url + "/v1"), server=kind, api_key="k")
    with pytest.raises(ModelRefusedError, match=r"cannot continue.*vllm or sglang.*another dialect"):
        await model.complete(Request((*OPENING, *THOUGHT)), media)
    await model.close()
    assert server.bodies == []


async def test_claude_continues_without_white_space_at_the_end(server: WireServer, media: Media) -> None:
    server.will(messages())
    known = ("claude-opus-4-5-20251101", "claude-opus-4-5", "claude-haiku-4-5-20251001")
    for name in known:
        model = AnthropicModel(endpoint(server.url, model=name), api_key="k")
        await model.complete(Request((*OPENING, *THOUGHT)), media)
        await model.close()
    assert len(server.bodies) == len(known)
    expected: list[dict[str, Any]] = [{"type": "text", "text": THOUGHT[0].text.rstrip()}]
    assert server.bodies[0]["messages"][-1] == {"role": "assistant", "content": expected}


@pytest.mark.parametrize("name", ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-sonnet-5"])
async def test_newer_claude_does_not_continue(server: WireServer, media: Media, name: str) -> None:
    model = AnthropicModel(endpoint(server.url, model=name), api_key="k")
    with pytest.raises(ModelRefusedError, match=r"from 4\.6 on.*another dialect"):
        await model.complete(Request((*OPENING, *THOUGHT)), media)
    await model.close()
    assert server.bodies == []


async def test_claude_takes_no_pictures_of_the_assistant(media: Media, picture: ImagePart) -> None:
    model = AnthropicModel(endpoint("http://127.0.0.1:1", model="claude-opus-4-5"), api_key="k")
    with pytest.raises(ModelRefusedError, match=r"no pictures in an assistant's message"):
        await model.complete(Request((*OPENING, said("assistant", "a", picture, "b"))), media)
    await model.close()
