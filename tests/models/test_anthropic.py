import base64
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_server import WireServer, messages

from saccade.errors import ModelRefusedError, UnavailableError
from saccade.models.base import ToolSpec
from saccade.models.endpoint import Endpoint
from saccade.models.providers.anthropic import DEFAULT_MAX_TOKENS, AnthropicModel, picture_rules
from saccade.record.content import ToolCall, VideoPart
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
