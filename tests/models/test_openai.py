from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_responses import function_call, message, reasoning, responded
from tests.models.wire_server import WireServer, chat, delta, status, stream

from saccade.core.retry import RetryPolicy
from saccade.dialects.base import load_dialect
from saccade.errors import (
    ModelDeniedError,
    ModelLostError,
    ModelRefusedError,
    RegistryError,
    SettingsError,
    UnavailableError,
)
from saccade.models.base import Request, ToolSpec
from saccade.models.endpoint import Endpoint
from saccade.models.providers.openai import OpenAIModel
from saccade.models.providers.responses import ResponsesModel
from saccade.record.content import Message, TextPart, ToolCall, VideoPart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Sampling

Maker = Callable[..., OpenAIModel]
CODE = ("</code>",)


@pytest.fixture
async def make(server: WireServer) -> AsyncIterator[Maker]:
    made: list[OpenAIModel] = []

    def maker(kind: str = "openai", **fields: Any) -> OpenAIModel:
        made.append(OpenAIModel(endpoint(server.url + "/v1", **fields), server=kind, api_key="k-1"))
        return made[-1]

    yield maker
    for model in made:
        await model.close()
        await model.close()


async def test_whole_and_streamed_are_the_same(server: WireServer, make: Maker) -> None:
    server.will(chat("hi there"))
    heard: list[str] = []
    plain = await make().complete(ask(), Media())
    streamed = await make().complete(ask(), Media(), on_text=heard.append)
    assert plain == streamed
    assert (plain.text, plain.finish, plain.model) == ("hi there", FinishReason.STOP, "served-1")
    assert (plain.usage.prompt_tokens, plain.usage.cached_tokens, plain.usage.sampled_tokens) == (
        1000,
        400,
        10,
    )
    assert plain.usage.dollars == pytest.approx((600 * 2.0 + 400 * 0.5 + 10 * 8.0) / 1e6)
    assert len(heard) > 3
    assert "".join(heard) == plain.text
    assert [body.get("stream") for body in server.bodies] == [None, True]


async def test_pictures_go_as_data_urls_of_their_true_type(server: WireServer, make: Maker) -> None:
    server.will(chat())
    media = Media()
    picture = media.put(Image.new("RGB", (4, 3)), "JPEG", mime="image/png")
    await make().complete(ask("Look: ", picture, " well"), media)
    system, user = server.bodies[0]["messages"]
    assert system == {"role": "system", "content": "Look."}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]
    assert user["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


async def test_sampling_has_the_names_of_each_server(server: WireServer, make: Maker) -> None:
    server.will(chat())
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=3)
    await make().complete(ask(sampling=sampling), Media())
    await make("vllm").complete(ask(sampling=sampling.model_copy(update={"top_k": 20})), Media())
    openai, vllm = server.bodies
    assert (openai["max_completion_tokens"], openai["temperature"], openai["top_p"], openai["seed"]) == (7, 0.5, 0.9, 3)
    assert "logprobs" not in openai
    assert (vllm["max_tokens"], vllm["top_k"], vllm["return_token_ids"]) == (7, 20, True)
    with pytest.raises(ModelRefusedError, match="top_k"):
        await make().complete(ask(sampling=Sampling(top_k=5)), Media())


@pytest.mark.parametrize("listen", [False, True])
@pytest.mark.parametrize(
    ("kind", "text", "fields"),
    [
        ("openai", "<code>1", {}),
        ("vllm", "<code>1</code>", {"stop_reason": "</code>"}),
        ("vllm", "<code>1", {"stop_reason": "</code>"}),
        ("sglang", "<code>1", {"matched_stop": "</code>"}),
        ("compatible", "<code>1</code>", {}),
        ("compatible", "<code>1</code> and beyond", {}),
    ],
)
async def test_stops_are_the_same_on_every_server(
    server: WireServer, make: Maker, kind: str, text: str, fields: dict[str, Any], listen: bool
) -> None:
    server.will(chat(text, **fields))
    heard: list[str] = []
    answer = await make(kind).complete(ask(stop=CODE), Media(), on_text=heard.append if listen else None)
    assert (answer.text, answer.finish) == ("<code>1</code>", FinishReason.STOP_STRING)
    assert server.bodies[0]["stop"] == ["</code>"]
    assert not listen or "".join(heard) == answer.text


async def test_an_end_of_its_own_is_no_stop_string(server: WireServer, make: Maker) -> None:
    server.will(chat("<answer>2</answer>", stop_reason=None))
    for kind in ("openai", "vllm"):
        answer = await make(kind).complete(ask(stop=CODE), Media())
        assert (answer.text, answer.finish) == ("<answer>2</answer>", FinishReason.STOP)


async def test_a_stop_that_cannot_be_inferred_is_cut_off_here(server: WireServer, make: Maker) -> None:
    server.will(chat("Thought\nObservation: made up"))
    answer = await make().complete(ask(stop=("\nObservation:",)), Media())
    assert (answer.text, answer.finish) == ("Thought\nObservation:", FinishReason.STOP_STRING)
    assert "stop" not in server.bodies[0]
    assert answer.usage.dollars is None


async def test_a_model_that_refuses_stops_is_cut_off_here_from_then_on(server: WireServer, make: Maker) -> None:
    refusal = status(400, "Unsupported parameter: 'stop' is not supported with this model.", param="stop")
    server.will(refusal, chat("<code>1</code> more"))
    model = make()
    for _ in range(2):
        answer = await model.complete(ask(stop=CODE), Media())
        assert (answer.text, answer.finish) == ("<code>1</code>", FinishReason.STOP_STRING)
    assert ["stop" in body for body in server.bodies] == [True, False, False]


async def test_the_room_that_limits_leave_bounds_an_answer(server: WireServer, make: Maker) -> None:
    server.will(chat())
    for sampling in (Sampling(), Sampling(max_tokens=9), Sampling(max_tokens=99)):
        await make("vllm").complete(ask(sampling=sampling, room=30, context_tokens=100), Media())
    assert [body["max_tokens"] for body in server.bodies] == [30, 9, 30]


@pytest.mark.parametrize("param", [None, "max_tokens"])
async def test_a_room_that_is_more_than_the_server_gives_is_left_out(
    server: WireServer, make: Maker, param: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    refused = status(400, "max_tokens is too large: 30000.", param=param)
    server.will(refused, chat("hi"), refused, chat("ho"))
    model = make("vllm")
    assert [(await model.complete(ask(room=30_000), Media())).text for _ in range(2)] == ["hi", "ho"]
    assert [body.get("max_tokens") for body in server.bodies] == [30_000, None, 30_000, None]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "saccade.models.providers.openai"]
    assert "at most 30000 tokens, which is what the limits leave" in said
    assert "too large" in said


async def test_a_refusal_for_another_reason_stays_one(server: WireServer, make: Maker) -> None:
    server.will(status(400, "no such model"))
    with pytest.raises(ModelRefusedError, match="no such model"):
        await make("vllm").complete(ask(room=30), Media())
    # What the user asked for is never left out.
    with pytest.raises(ModelRefusedError):
        await make("vllm").complete(ask(sampling=Sampling(max_tokens=9), room=30), Media())
    assert [body.get("max_tokens") for body in server.bodies] == [30, None, 9]


async def test_an_answer_cut_in_its_code_is_passed_on_as_cut(server: WireServer, make: Maker) -> None:
    server.will(chat("<code>\nprint(", finish="length"))
    for kind in ("openai", "vllm"):
        answer = await make(kind).complete(ask(stop=CODE), Media())
        assert (answer.text, answer.finish) == ("<code>\nprint(", FinishReason.LENGTH)


@pytest.mark.parametrize(
    "fields",
    [
        {"token_ids": [7, 8], "logprobs": {"content": [{"token": "a", "logprob": -1}, {"token": "b", "logprob": -2}]}},
        {
            "logprobs": {
                "content": [{"token": "token_id:7", "logprob": -1}, {"token": "token_id:8", "logprob": -2}],
            }
        },
        {"meta_info": {"output_token_logprobs": [[-1, 7, "a"], [-2, 8, "b"]]}},
    ],
)
async def test_token_ids_and_logprobs_are_kept(server: WireServer, make: Maker, fields: dict[str, Any]) -> None:
    server.will(chat("ab", **fields))
    for kind in ("vllm", "sglang"):
        answer = await make(kind).complete(ask(), Media())
        assert (answer.token_ids, answer.logprobs) == ((7, 8), (-1.0, -2.0))
        answer = await make(kind).complete(ask(), Media(), on_text=lambda _: None)
        assert answer.token_ids == (7, 8)


async def test_ids_of_text_that_was_cut_off_are_not_kept(server: WireServer, make: Maker) -> None:
    server.will(chat("a</code>b", token_ids=[1, 2, 3]))
    assert (await make("vllm").complete(ask(stop=CODE), Media())).token_ids is None


async def test_names_of_tokens_alone_are_no_ids(server: WireServer, make: Maker) -> None:
    server.will(chat("ab", logprobs={"content": [{"token": "ab", "logprob": -1}]}))
    answer = await make("compatible").complete(ask(), Media())
    assert (answer.token_ids, answer.logprobs) == (None, None)


def call(arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "crop", "arguments": arguments}}


async def test_native_calls(server: WireServer, make: Maker) -> None:
    server.will(chat(None, finish="tool_calls", tool_calls=[call('{"x": 1}')]))
    tool = ToolSpec("crop", "Cut out.", {"type": "object"})
    for listener in (None, lambda _: None):
        answer = await make().complete(ask(tools=(tool,)), Media(), on_text=listener)
        assert answer.tool_calls == (ToolCall(name="crop", arguments={"x": 1}, call_id="c1"),)
        assert (answer.text, answer.finish) == ("", FinishReason.TOOL_CALL)
    assert server.bodies[0]["tools"][0]["function"]["name"] == "crop"


async def test_a_message_of_a_tool_goes_as_the_users(server: WireServer, make: Maker) -> None:
    server.will(chat())
    request = ask()
    await make().complete(type(request)((*request.messages, said("tool", "2"))), Media())
    assert server.bodies[0]["messages"][-1] == {"role": "user", "content": "2"}


async def test_videos_go_only_where_they_are_taken(server: WireServer, make: Maker) -> None:
    server.will(chat())
    media = Media()
    media.stored["a" * 64] = b"video"
    video = VideoPart(sha256="a" * 64, width=2, height=2, frames=1, fps=1, seconds=1)
    task = Task(id="v", question="What is it?", media=(NamedMedia(name="clip", part=video),))
    await make("vllm").complete(Request(load_dialect("direct:video").open(task).messages), media)
    sent = server.bodies[0]["messages"][0]["content"]
    assert sent[0]["video_url"]["url"] == "data:video/mp4;base64,dmlkZW8="
    assert "What is it?" in sent[1]["text"]
    with pytest.raises(ModelRefusedError, match="no videos"):
        await make().complete(ask(video), media)


async def test_a_text_that_json_cannot_hold_is_mended(server: WireServer, make: Maker) -> None:
    server.will(stream(delta("a") + "", json.dumps({"choices": [{"delta": {"content": "\ud800"}}]}),
                       json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})))  # fmt: skip
    assert (await make().complete(ask(), Media(), on_text=lambda _: None)).text == "a�"


async def test_an_unknown_model_costs_none(server: WireServer, make: Maker) -> None:
    server.will(chat())
    assert (await make(model="gpt-99").complete(ask(), Media())).usage.dollars is None
    assert (await make("vllm").complete(ask(), Media())).usage.dollars is None


async def test_what_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY"):
        OpenAIModel(Endpoint("m"))
    with pytest.raises(SettingsError, match="address"):
        OpenAIModel(Endpoint("m"), server="vllm")
    for name, says in (("vlm", "vllm"), ("local", "no server of chat completions")):
        with pytest.raises(RegistryError, match=says):
            OpenAIModel(Endpoint("m"), server=name)
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[models\]"):
        OpenAIModel(Endpoint("m"), api_key="k")


TOOL = ToolSpec("crop", "Cut out.", {"type": "object"})


@pytest.fixture
async def model(server: WireServer) -> AsyncIterator[ResponsesModel]:
    made = ResponsesModel(
        endpoint(server.url + "/v1", model="gpt-5.4", retry=RetryPolicy(tries=2)), api_key="sk-canary"
    )
    yield made
    await made.close()


@pytest.mark.parametrize("streamed", [False, True])
async def test_text_usage_and_money(server: WireServer, model: ResponsesModel, streamed: bool) -> None:
    server.will(responded(reasoning("x", "Hm."), message("hi there")))
    heard: list[str] = []
    sampling = Sampling(temperature=0.5, top_p=0.5, max_tokens=99)
    answer = await model.complete(ask(sampling=sampling), Media(), on_text=heard.append if streamed else None)
    assert (answer.text, answer.finish, answer.model) == (
        "<think>Hm.</think>hi there",
        FinishReason.STOP,
        "served-4",
    )
    assert "".join(heard) == (answer.text if streamed else "")
    usage = answer.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.sampled_tokens) == (1000, 400, 40)
    assert usage.dollars == pytest.approx((600 * 2.5 + 400 * 0.25 + 40 * 15) / 1e6)
    body = server.bodies[0]
    assert (body["store"], body["temperature"], body["top_p"], body["max_output_tokens"]) == (False, 0.5, 0.5, 99)
    assert [item["role"] for item in body["input"]] == ["system", "user"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("item", "fields", "finish"),
    [
        (message("a"), {"incomplete_details": {"reason": "max_output_tokens"}}, FinishReason.LENGTH),
        (message("a"), {"incomplete_details": {"reason": "content_filter"}}, FinishReason.FILTERED),
        (message("a", "refusal"), {}, FinishReason.DECLINED),
    ],
)
async def test_how_an_answer_ends(
    server: WireServer, model: ResponsesModel, streamed: bool, item: dict, fields: dict, finish: FinishReason
) -> None:
    server.will(responded(item, status="incomplete" if fields else "completed", **fields))
    answer = await model.complete(ask(), Media(), on_text=[].append if streamed else None)
    assert (answer.text, answer.finish) == ("a", finish)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_goes_back_behind_its_reasoning(server: WireServer, model: ResponsesModel, streamed: bool) -> None:
    server.will(responded(reasoning("sealed"), message("I crop."), function_call("crop", '{"x": 1}')))
    media = Media()
    first = await model.complete(ask(tools=(TOOL,)), media, on_text=[].append if streamed else None)
    assert (first.text, first.finish) == ("I crop.", FinishReason.TOOL_CALL)
    [call] = first.tool_calls
    assert (call.name, call.arguments, call.call_id) == ("crop", {"x": 1}, "c1")
    sent = server.bodies[0]
    assert (sent["include"], sent["parallel_tool_calls"]) == (["reasoning.encrypted_content"], False)
    assert sent["tools"][0]["parameters"] == TOOL.parameters
    picture = media.put(Image.new("RGB", (2, 2)))
    wrote = Message(role="assistant", parts=(TextPart(text=first.text),), calls=(call,))
    result = Message(role="tool", parts=(TextPart(text="done"), picture), call_id="c1")
    await model.complete(Request((*ask().messages, wrote, result), tools=(TOOL,)), media)
    back = server.bodies[1]["input"][2:]
    assert [item["type"] for item in back] == ["reasoning", "message", "function_call", "function_call_output"]
    assert back[0]["encrypted_content"] == "sealed"
    assert [part["type"] for part in back[3]["output"]] == ["input_text", "input_image"]


async def test_stop_strings_are_cut_here(server: WireServer, model: ResponsesModel) -> None:
    server.will(responded(message("<code>1</code>more")))
    answer = await model.complete(ask(stop=("</code>",)), Media())
    assert (answer.text, answer.finish) == ("<code>1</code>", FinishReason.STOP_STRING)
    assert answer.usage.sampled_tokens is None


async def test_outages_and_refusals(server: WireServer, model: ResponsesModel) -> None:
    failed = responded(status="failed", error={"code": "server_error", "message": "oops"})
    server.will(failed, responded(message("at last")))
    assert (await model.complete(ask(), Media())).text == "at last"
    server.will(failed)
    with pytest.raises(ModelLostError, match="oops"):
        await model.complete(ask(), Media(), on_text=print)
    server.will(status(429, "slow"))
    with pytest.raises(ModelLostError, match="pause"):
        await model.complete(ask(), Media())
    server.will(status(401, "bad key sk-canary"))
    with pytest.raises(ModelDeniedError, match=r"bad key \[key\]"):
        await model.complete(ask(), Media())
    for request, word in (
        (ask(sampling=Sampling(seed=1)), "seed"),
        (Request((*ask().messages, said("assistant", "I"))), "continue"),
    ):
        with pytest.raises(ModelRefusedError, match=word):
            await model.complete(request, Media())


def chunk(finish: str | None = None, **delta: Any) -> str:
    return json.dumps({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


@pytest.mark.parametrize(
    ("deltas", "finish", "text"),
    [
        ([{"reasoning_content": "a"}, {"reasoning_content": "b"}, {"content": "c"}], "stop", "<think>ab</think>c"),
        ([{"reasoning": "a", "reasoning_content": "a"}, {"content": "b"}], "stop", "<think>a</think>b"),
        ([{"reasoning_content": "a", "content": "b"}], "stop", "<think>a</think>b"),
        ([{"reasoning": None, "content": "b"}, {"reasoning": "", "content": "c"}], "stop", "bc"),
        ([{"reasoning": "cut"}], "length", "<think>cut"),
        ([{"reasoning": "a"}, {"content": "b"}, {"reasoning": "c"}], "stop", "<think>a</think>b<think>c"),
        ([{"reasoning": {"not": "text"}, "content": "b"}], "stop", "b"),
    ],
)
async def test_a_thought_goes_back_in_front(
    server: WireServer, deltas: list[dict[str, Any]], finish: str, text: str
) -> None:
    server.will(stream(*(chunk(**delta) for delta in deltas), chunk(finish), "[DONE]"))
    model = OpenAIModel(endpoint(server.url + "/v1"), server="compatible")
    heard: list[str] = []
    answer = await model.complete(ask(), Media(), on_text=heard.append)
    await model.close()
    assert (answer.text, answer.finish) == (text, FinishReason(finish))
    assert "".join(heard) == text


async def test_a_stop_string_in_a_thought_is_one(server: WireServer) -> None:
    server.will(stream(chunk(reasoning="one </code> two"), chunk(content="three"), chunk("stop"), "[DONE]"))
    model = OpenAIModel(endpoint(server.url + "/v1"), server="transformers")
    answer = await model.complete(ask(stop=("</code>",)), Media())
    await model.close()
    assert (answer.text, answer.finish) == ("<think>one </code>", FinishReason.STOP_STRING)
    assert "stop" not in server.bodies[0]


async def test_a_thought_is_whole_when_a_native_call_follows(server: WireServer) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "reasoning_content": "so", "tool_calls": [call]}
    server.will(chat(finish="tool_calls", message=message))
    model = OpenAIModel(endpoint(server.url + "/v1"), server="compatible")
    answer = await model.complete(ask(), Media())
    await model.close()
    assert (answer.text, answer.finish) == ("<think>so</think>", FinishReason.TOOL_CALL)
