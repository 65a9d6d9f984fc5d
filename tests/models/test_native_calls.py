"""Calls and their results as both protocols have them; the server checks their rules on every request."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_server import WireServer, chat, messages, status, stream

from saccade.errors import ModelRefusedError, UnavailableError
from saccade.models.base import Request, ToolSpec
from saccade.models.endpoint import Endpoint
from saccade.models.providers.anthropic import DEFAULT_MAX_TOKENS, AnthropicModel, picture_rules
from saccade.models.providers.openai import OpenAIModel, paired
from saccade.record.content import ImagePart, Message, ToolCall, VideoPart
from saccade.record.trajectory import FinishReason, Sampling

Maker = Callable[..., AnthropicModel]
CODE = ("</code>",)


@pytest.fixture
async def make(server: WireServer) -> AsyncIterator[Maker]:
    made: list[AnthropicModel] = []

    def maker(model: str = "claude-opus-4-8") -> AnthropicModel:
        made.append(AnthropicModel(endpoint(server.url, model=model), api_key="k-1"))
        return made[-1]

    yield maker
    for model in made:
        await model.close()
        await model.close()


async def test_text_usage_and_money(server: WireServer, make: Maker) -> None:
    server.will(messages(text="hi there"))
    heard: list[str] = []
    answer = await make().complete(ask(), Media(), on_text=heard.append)
    assert (answer.text, answer.finish, answer.model) == ("hi there", FinishReason.STOP, "served-2")
    assert "".join(heard) == answer.text
    assert len(heard) == len("hi there")
    usage = answer.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.sampled_tokens) == (1000, 400, 10)
    assert usage.dollars == pytest.approx((500 * 5.0 + 400 * 0.5 + 100 * 6.25 + 10 * 25.0) / 1e6)
    body = server.bodies[0]
    assert (body["system"], body["max_tokens"], body["stream"]) == ("Look.", DEFAULT_MAX_TOKENS, True)
    assert [message["role"] for message in body["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("text", "reason", "stop", "expected", "finish"),
    [
        ("<code>1", "stop_sequence", "</code>", "<code>1</code>", FinishReason.STOP_STRING),
        ("<code>1", "max_tokens", None, "<code>1", FinishReason.LENGTH),
        ("<code>1", "model_context_window_exceeded", None, "<code>1", FinishReason.LENGTH),
        ("<code>1", "end_turn", None, "<code>1", FinishReason.STOP),
        ("no", "refusal", None, "no", FinishReason.DECLINED),
    ],
)
async def test_how_an_answer_ends(
    server: WireServer, make: Maker, text: str, reason: str, stop: str | None, expected: str, finish: FinishReason
) -> None:
    server.will(messages(text=text, reason=reason, stop=stop))
    heard: list[str] = []
    answer = await make().complete(ask(stop=CODE), Media(), on_text=heard.append)
    assert (answer.text, answer.finish) == (expected, finish)
    assert "".join(heard) == expected
    assert server.bodies[0]["stop_sequences"] == ["</code>"]


async def test_a_stop_of_white_space_is_cut_off_here(server: WireServer, make: Maker) -> None:
    server.will(messages(text="one\n\ntwo"))
    answer = await make().complete(ask(stop=("\n\n",)), Media())
    assert (answer.text, answer.finish) == ("one\n\n", FinishReason.STOP_STRING)
    assert "stop_sequences" not in server.bodies[0]
    assert (answer.usage.sampled_tokens, answer.usage.dollars) == (None, None)


async def test_native_calls(server: WireServer, make: Maker) -> None:
    server.will(messages(text="I crop.", reason="tool_use", tool={"name": "crop", "json": '{"x": 1}'}))
    tool = ToolSpec("crop", "Cut out.", {"type": "object"})
    answer = await make().complete(ask(tools=(tool,)), Media())
    assert answer.tool_calls == (ToolCall(name="crop", arguments={"x": 1}, call_id="t1"),)
    assert (answer.text, answer.finish) == ("I crop.", FinishReason.TOOL_CALL)
    assert server.bodies[0]["tools"] == [{"name": "crop", "description": "Cut out.", "input_schema": tool.parameters}]


async def test_a_call_cut_by_the_limit_is_text_and_length(server: WireServer, make: Maker) -> None:
    server.will(messages(text="", reason="max_tokens", tool={"name": "crop", "json": '{"x": '}))
    answer = await make().complete(ask(), Media())
    assert (answer.text, answer.tool_calls, answer.finish) == ('crop({"x": )', (), FinishReason.LENGTH)


async def test_blank_texts_are_left_out_and_neighbours_of_a_role_are_one_message(
    server: WireServer, make: Maker
) -> None:
    server.will(messages())
    request = ask()
    picture = (media := Media()).put(Image.new("RGB", (2, 2)))
    more = (said("assistant", ""), said("tool", " \n", picture), said("assistant", "ok"), said("user", "go"))
    await make().complete(type(request)((*request.messages, *more)), media)
    sent = server.bodies[0]["messages"]
    assert [(m["role"], [block["type"] for block in m["content"]]) for m in sent] == [
        ("user", ["text", "image"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]


async def test_pictures_are_scaled_as_the_provider_would(server: WireServer, make: Maker) -> None:
    server.will(messages())
    media = Media()
    big = media.put(Image.new("RGB", (3000, 1500)))
    await make("claude-opus-4-6").complete(ask(big), media)
    source = server.bodies[0]["messages"][0]["content"][0]["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/png")
    size = _decoded_size(source["data"])
    assert max(size) <= 1568
    assert size[0] * size[1] <= 1_150_000
    assert size[0] / size[1] == pytest.approx(2, rel=0.01)


def _decoded_size(data: str) -> tuple[int, int]:
    return Image.open(BytesIO(base64.b64decode(data))).size


def test_rules_by_model_and_number_of_pictures() -> None:
    standard = ("claude-3-5-sonnet-20241022", "claude-sonnet-4-5", "claude-opus-4-20250514", "claude-opus-4-6")
    assert {picture_rules(name, 1).side for name in standard} == {1568}
    assert {picture_rules(name, 1).side for name in ("claude-opus-4-7", "claude-opus-5", "claude-new")} == {2576}
    assert picture_rules("claude-opus-5", 21).side == 2000
    assert picture_rules("claude-opus-5", 20).side == 2576


async def test_what_it_does_not_know_is_refused(make: Maker) -> None:
    video = VideoPart(sha256="a" * 64, width=2, height=2, frames=1, fps=1, seconds=1)
    picture = (media := Media()).put(Image.new("RGB", (2, 2)))
    for request, word in (
        (ask(sampling=Sampling(seed=1)), "seed"),
        (ask(video), "videos"),
        (type(ask())((said("system", picture),)), "system"),
    ):
        with pytest.raises(ModelRefusedError, match=word):
            await make().complete(request, media)


async def test_sampling_is_sent(server: WireServer, make: Maker) -> None:
    server.will(messages())
    await make().complete(ask(room=7), Media())
    await make().complete(ask(room=DEFAULT_MAX_TOKENS + 1), Media())
    assert [body["max_tokens"] for body in server.bodies] == [7, DEFAULT_MAX_TOKENS]
    server.bodies.clear()
    long = Sampling(max_tokens=4 * DEFAULT_MAX_TOKENS)
    await make().complete(ask(sampling=long), Media())
    await make().complete(ask(sampling=long, room=3 * DEFAULT_MAX_TOKENS), Media())
    assert [body["max_tokens"] for body in server.bodies] == [4 * DEFAULT_MAX_TOKENS, 3 * DEFAULT_MAX_TOKENS]
    server.bodies.clear()
    await make().complete(ask(sampling=Sampling(temperature=0.5, top_p=0.5, top_k=4, max_tokens=9)), Media())
    body: dict[str, Any] = server.bodies[0]
    assert (body["temperature"], body["top_p"], body["top_k"], body["max_tokens"]) == (0.5, 0.5, 4, 9)


def test_what_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelRefusedError, match="ANTHROPIC_API_KEY"):
        AnthropicModel(Endpoint("m"))
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[models\]"):
        AnthropicModel(Endpoint("m"), api_key="k")


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
