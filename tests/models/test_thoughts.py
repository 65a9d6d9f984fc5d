"""Thoughts that a server sends apart from the text: `reasoning_content`, or `reasoning`."""

import json
from typing import Any

import pytest
from tests.models.helpers import Media, ask, endpoint
from tests.models.wire_server import WireServer, chat, stream

from saccade.models.providers.openai import OpenAIModel
from saccade.record.trajectory import FinishReason


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
