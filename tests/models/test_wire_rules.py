"""The rules of the local server refuse what they are there for."""

from typing import Any

import pytest
from tests.models.wire_rules import broken_rule

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
USER = {"role": "user", "content": "What?"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TELLS = {"role": "tool", "tool_call_id": "a", "content": "x"}

TEXT = {"type": "text", "text": "What?"}
IMAGE = {"type": "image", "source": {"data": "x"}}
USES = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}


def turns(*contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]


def test_right_requests_break_none() -> None:
    assert broken_rule(CHAT, {"messages": [USER, ASKS, TELLS, USER]}) is None
    body = {"model": "claude-opus-4-8", "messages": turns([TEXT], [TEXT, USES], [RESULT, TEXT]), "tools": [{}]}
    assert broken_rule(MESSAGES, body) is None


@pytest.mark.parametrize(
    ("messages", "fields", "words"),
    [
        ([USER, ASKS, USER], {}, "without a tool message"),
        ([USER, ASKS], {}, "without a tool message"),
        ([USER, TELLS], {}, "no open call"),
        ([USER, ASKS, TELLS, TELLS], {}, "no open call"),
        ([USER, ASKS, {**TELLS, "content": [TEXT]}], {}, "is a text"),
        ([USER, {**ASKS, "tool_calls": [CALL, CALL]}, TELLS, TELLS], {}, "unique"),
        ([USER, {**ASKS, "tool_calls": []}], {}, "not none"),
        ([USER, {**ASKS, "tool_calls": None}], {}, "a text or a list"),
        ([USER, {"role": "assistant", "content": "x"}], {}, "continue_final_message"),
        ([USER], {"continue_final_message": True, "add_generation_prompt": False}, "continue_final_message"),
        ([USER], {"parallel_tool_calls": False}, "only with tools"),
    ],
)
def test_wrong_chats(messages: list[dict[str, Any]], fields: dict[str, Any], words: str) -> None:
    assert words in (broken_rule(CHAT, {"messages": messages, **fields}) or "")


@pytest.mark.parametrize(
    ("contents", "fields", "words"),
    [
        ([[TEXT], [USES], [TEXT]], {}, "are answered by"),
        ([[TEXT], [USES]], {}, "without a result"),
        ([[RESULT]], {}, "are answered by"),
        ([[TEXT], [USES], [TEXT, RESULT]], {}, "come first"),
        ([[TEXT], [USES], [RESULT], [USES], [RESULT]], {}, "unique"),
        ([[TEXT], [USES], [RESULT]], {"tools": []}, "only with tools"),
        ([[TEXT], [{**USES, "id": "a.b"}], [{**RESULT, "tool_use_id": "a.b"}]], {}, "few characters"),
        ([[TEXT], []], {}, "no message is empty"),
        ([[{**TEXT, "text": "\n"}]], {}, "non-whitespace"),
        ([[TEXT], [IMAGE, TEXT], [TEXT]], {}, "not permitted within assistant"),
        ([[TEXT], [TEXT]], {"model": "claude-sonnet-4-6"}, "prefill"),
        ([[TEXT], [{**TEXT, "text": "a "}]], {"model": "claude-opus-4-5"}, "trailing whitespace"),
    ],
)
def test_wrong_messages(contents: list[list[dict[str, Any]]], fields: dict[str, Any], words: str) -> None:
    body = {"model": "claude-opus-4-8", "tools": [{}], "messages": turns(*contents), **fields}
    assert words in (broken_rule(MESSAGES, body) or "")
