"""`sampling.reasoning` in the words of each API, refused where a model cannot be told so; own fields and headers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_gemini import generated
from tests.models.wire_responses import message, responded
from tests.models.wire_server import WireServer, chat, raw

from saccade.errors import ModelLostError, ModelRefusedError, SettingsError
from saccade.models.base import Request, ToolSpec
from saccade.models.exchanges import KeptModel
from saccade.models.providers.anthropic import DEFAULT_MAX_TOKENS, AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.providers.responses import ResponsesModel
from saccade.models.registry import check_sampling, unheard_sampling
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import FinishReason, Sampling


class NoMedia:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("a scripted model reads no pictures")


async def test_a_kept_reply_answers_its_own_request_only(tmp_path: Path) -> None:
    model = KeptModel(ScriptedModel(["one", "two", "three", ModelLostError("down"), "five"]), tmp_path)

    async def ask(text: str, seed: int = 0) -> str:
        message = Message(role="user", parts=(TextPart(text=text),))
        request = Request((message,), sampling=Sampling(seed=seed))
        return (await model.complete(request, NoMedia())).text

    assert [await ask("a"), await ask("a"), await ask("a", 1), await ask("b")] == ["one", "one", "two", "three"]
    with pytest.raises(ModelLostError):
        await ask("c")
    assert await ask("c") == "five"
    for file in tmp_path.rglob("*.json"):
        file.write_text("{}")
    with pytest.raises(SettingsError, match="delete it"):
        await ask("a")
    await model.close()


async def test_a_kept_reply_is_heard_like_a_new_one(tmp_path: Path) -> None:
    request = Request((Message(role="user", parts=(TextPart(text="a"),)),))
    for model in (ScriptedModel(["well said"]), ScriptedModel([])):
        heard: list[str] = []
        reply = await KeptModel(model, tmp_path).complete(request, NoMedia(), on_text=heard.append)
        assert ("".join(heard), reply.text) == ("well said", "well said")


HERE = "@http://127.0.0.1:1/v1"


def model_of(kind: str, name: str, url: str) -> Any:
    if kind == "anthropic":
        return AnthropicModel(endpoint(url, model=name), api_key="k-1")
    if kind == "gemini":
        return GeminiModel(endpoint(url, model=name), api_key="k-1")
    if kind == "responses":
        return ResponsesModel(endpoint(url + "/v1", model=name), api_key="k-1")
    return OpenAIModel(endpoint(url + "/v1", model=name), server=kind, api_key="k-1")


def behaviour_of(kind: str) -> Any:
    from tests.models.wire_server import messages

    return {"anthropic": messages(), "gemini": generated("hello"), "responses": responded(message("hello"))}.get(
        kind, chat()
    )


async def sent(server: WireServer, spec: str, sampling: Sampling, **more: Any) -> dict[str, Any]:
    """What goes over the wire to that model."""
    kind, _, name = spec.partition(":")
    server.will(behaviour_of(kind))
    model = model_of(kind, name, server.url)
    answer = await model.complete(ask(sampling=sampling, **more), Media())
    await model.close()
    assert answer.text == "hello"
    return server.bodies[0]


def thinks(**switches: bool) -> dict[str, Any]:
    return {"chat_template_kwargs": switches}


@pytest.mark.parametrize(
    ("spec", "value", "fields"),
    [
        ("openai:gpt-5.4", "low", {"reasoning_effort": "low"}),
        ("openai:gpt-5.4", "off", {"reasoning_effort": "none"}),
        ("openai:o3", "high", {"reasoning_effort": "high"}),
        ("azure:mine", "off", {"reasoning_effort": "none"}),
        ("responses:gpt-5.4", "medium", {"reasoning": {"effort": "medium"}}),
        ("responses:gpt-5.4-mini", "off", {"reasoning": {"effort": "none"}}),
        ("compatible:m", "low", {"reasoning_effort": "low"}),
        ("vllm:Qwen/Qwen3.5-9B", "off", thinks(enable_thinking=False)),
        ("sglang:/models/Qwen3-8B", "high", thinks(enable_thinking=True)),
        ("vllm:zai-org/GLM-4.6V", "off", thinks(enable_thinking=False)),
        ("sglang:deepseek-ai/DeepSeek-V3.2", "low", thinks(thinking=True)),
        ("vllm:moonshotai/Kimi-K2.5", "off", thinks(thinking=False)),
        ("vllm:google/gemma-4-12b-it", "off", thinks(enable_thinking=False)),
        ("vllm:openai/gpt-oss-20b", "high", {"reasoning_effort": "high"}),
        ("vllm:mine", "off", thinks(enable_thinking=False, thinking=False)),
        ("anthropic:claude-opus-4-8", "low", {"thinking": {"type": "adaptive", "display": "summarized"},
                                              "output_config": {"effort": "low"}}),
        ("anthropic:claude-opus-4-8", "off", {"thinking": {"type": "disabled"}}),
        ("anthropic:claude-opus-4-5", 4000, {"thinking": {"type": "enabled", "budget_tokens": 4000},
                                             "max_tokens": DEFAULT_MAX_TOKENS + 4000}),
        ("anthropic:claude-haiku-4-5-20251001", "medium", {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("gemini:gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini:gemini-2.5-pro", 999, {"thinkingBudget": 999}),
        ("gemini:gemini-2.5-flash", "low", {"thinkingBudget": 1024}),
        ("gemini:gemini-3-flash", "off", {"thinkingLevel": "MINIMAL"}),
        ("gemini:gemini-3-pro", "high", {"thinkingLevel": "HIGH"}),
    ],
)  # fmt: skip
async def test_how_much_to_think(server: WireServer, spec: str, value: Any, fields: dict[str, Any]) -> None:
    sampling = Sampling(reasoning=value)
    check_sampling(spec + (HERE if spec.split(":")[0] in ("vllm", "sglang", "compatible", "azure") else ""), sampling)
    body = await sent(server, spec, sampling)
    if spec.startswith("gemini"):
        body = {re.sub(r"_(\w)", lambda m: m[1].upper(), name): value for name, value in
                body["generationConfig"]["thinkingConfig"].items()}  # fmt: skip
        fields = {name: value.upper() if isinstance(value, str) else value for name, value in fields.items()}
        body = {name: value.upper() if isinstance(value, str) else value for name, value in body.items()}
    assert {name: body.get(name) for name in fields} == fields


@pytest.mark.parametrize(
    ("spec", "more", "words"),
    [
        ("openai:gpt-4.1", {"reasoning": "low"}, "does not think"),
        ("openai:gpt-5", {"reasoning": "off"}, "always thinks"),
        ("openai:o4-mini", {"reasoning": "off"}, "always thinks"),
        ("openai:gpt-5.4", {"reasoning": 500}, "no number of tokens"),
        ("compatible:m" + HERE, {"reasoning": 500}, "no number of tokens"),
        ("vllm:Qwen/Qwen3-VL-8B-Thinking" + HERE, {"reasoning": "off"}, "always thinks"),
        ("vllm:Qwen/Qwen3-VL-8B-Instruct" + HERE, {"reasoning": "low"}, "does not think"),
        ("vllm:Qwen/Qwen2.5-VL-7B-Instruct" + HERE, {"reasoning": "low"}, "does not think"),
        ("vllm:openai/gpt-oss-20b" + HERE, {"reasoning": "off"}, "takes low, medium, high"),
        ("anthropic:claude-3-5-sonnet-20241022", {"reasoning": "low"}, "does not think"),
        ("anthropic:claude-opus-4-8", {"reasoning": 4000}, "decides itself"),
        ("anthropic:claude-opus-4-5", {"reasoning": 500}, "at least 1024"),
        ("anthropic:claude-opus-4-5", {"reasoning": 5000, "max_tokens": 4000}, "leaves 4000"),
        ("anthropic:claude-opus-4-8", {"reasoning": "low", "temperature": 0.0}, "only at temperature 1"),
        ("gemini:gemini-2.5-pro", {"reasoning": "off"}, "always thinks"),
        ("gemini:gemini-3-flash", {"reasoning": 900}, "no number of tokens"),
        ("gemini:gemini-2.0-flash", {"reasoning": "low"}, "does not think"),
        ("local:FOLDER", {"reasoning": "low"}, "cannot be told"),
        ("local:FOLDER", {"extra_body": {"a": 1}}, "extra_body"),
        ("tiny", {"reasoning": "off"}, "cannot be told"),
        ("openai:gpt-5.4", {"extra_body": {"messages": []}}, "messages is set by Saccade"),
        ("openai:gpt-5.4", {"extra_body": {"n": 2, "stream": True}}, "n and stream"),
    ],
)
def test_what_cannot_be_told_is_refused_before_the_first_request(spec: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_sampling(spec, Sampling(**more))


async def test_a_model_made_by_hand_refuses_too(server: WireServer) -> None:
    model = OpenAIModel(endpoint(server.url + "/v1", model="gpt-4.1"), api_key="k-1")
    with pytest.raises(ModelRefusedError, match="does not think"):
        await model.complete(ask(sampling=Sampling(reasoning="low")), Media())
    await model.close()


def test_what_a_user_should_know() -> None:
    low = Sampling(reasoning="low")
    assert "low is the same as high" in unheard_sampling("vllm:Qwen/Qwen3.5-9B" + HERE, low)
    assert "may read neither" in unheard_sampling("vllm:mine" + HERE, low)
    assert "change nothing" in unheard_sampling("scripted:a.json", Sampling(reasoning="low", seed=1))
    assert unheard_sampling("vllm:Qwen/Qwen3.5-9B" + HERE, Sampling(reasoning="off")) == ""
    assert unheard_sampling("openai:gpt-5.4", low) == ""


@pytest.mark.parametrize("value", [0, -1, True, "on", "", 1.5])
def test_values_that_are_none(value: Any) -> None:
    with pytest.raises(ValueError, match="reasoning"):
        Sampling(reasoning=value)


@pytest.mark.parametrize(
    "spec",
    ["compatible:m", "vllm:Qwen/Qwen3.5-9B", "responses:gpt-5.4", "anthropic:claude-opus-4-8", "gemini:gemini-3-flash"],
)
async def test_fields_and_headers_of_ones_own(server: WireServer, spec: str) -> None:
    own = {"chat_template_kwargs": {"more": 1}, "safety": [{"a": None}]}
    sampling = Sampling(extra_body=own, extra_headers={"X-Secret": "s-3-c"}, reasoning="low")
    body = await sent(server, spec, sampling)
    assert body["safety"] == [{"a": None}]
    assert body["chat_template_kwargs"]["more"] == 1
    assert body["chat_template_kwargs"].get("enable_thinking", "vllm" not in spec) is True
    assert server.headers[0]["x-secret"] == "s-3-c"
    stored = sampling.model_dump_json()
    assert "X-Secret" in stored
    assert "s-3-c" not in stored + repr(sampling)
    assert Sampling.model_validate_json(stored).extra_body == own


def thinking_events(signed: str) -> str:
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"type": "thinking", "thinking": "", "signature": ""},
         [{"type": "thinking_delta", "thinking": "so"}, {"type": "thinking_delta", "thinking": " it is"},
          {"type": "signature_delta", "signature": signed}]),
        ({"type": "redacted_thinking", "data": "sealed"}, []),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "I look."}]),
        ({"type": "tool_use", "id": "t1", "name": "f", "input": {}},
         [{"type": "input_json_delta", "partial_json": "{}"}]),
    ]  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}}
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


async def test_claudes_thought_is_recorded_and_goes_back_signed(server: WireServer) -> None:
    server.will(raw(thinking_events("signature"), "text/event-stream"))
    model = AnthropicModel(endpoint(server.url, model="claude-opus-4-8"), api_key="k-1")
    tool = ToolSpec("f", "F.", {"type": "object"})
    request = Request((said("user", "q"),), tools=(tool,), sampling=Sampling(reasoning="low"))
    answer = await model.complete(request, Media())
    assert (answer.text, answer.finish) == ("<think>so it is</think>I look.", FinishReason.TOOL_CALL)
    assert (answer.usage.sampled_tokens, answer.usage.reasoning_tokens) == (40, 30)
    back = Message(role="assistant", parts=said("user", answer.text).parts, calls=answer.tool_calls)
    result = said("tool", "x").model_copy(update={"call_id": "t1"})
    await model.complete(Request((said("user", "q"), back, result), tools=(tool,), sampling=request.sampling), Media())
    await model.close()
    blocks = server.bodies[1]["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert blocks[0] == {"type": "thinking", "thinking": "so it is", "signature": "signature"}
    assert blocks[2]["text"] == "I look."


def test_every_level_has_a_place_on_the_page() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    assert re.search(r"sampling\.reasoning.*off.*low.*medium.*high", page)
