"""OpenAI's Responses API through the official client, against a local server in the documented forms."""

from collections.abc import AsyncIterator

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_responses import function_call, message, reasoning, responded
from tests.models.wire_server import WireServer, status

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelDeniedError, ModelLostError, ModelRefusedError
from saccade.models.base import Request, ToolSpec
from saccade.models.providers.responses import ResponsesModel
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import FinishReason, Sampling

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
