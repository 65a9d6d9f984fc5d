"""What the real services refuse, so that the local server refuses it too: one sentence for the first broken rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Body = Mapping[str, Any]


def broken_rule(path: str, body: Body) -> str | None:
    """The first rule of the service at `path` that the request breaks, None if it breaks none."""
    rules: Callable[[Body], None] = next(rules for end, rules in _RULES.items() if path.lower().endswith(end))
    try:
        rules(body)
    except _BrokenRuleError as broken:
        return str(broken)
    return None


class _BrokenRuleError(Exception):
    pass


def _require(holds: object, rule: str) -> None:
    if not holds:
        raise _BrokenRuleError(rule)


# Chat completions.


def _chat(body: Body) -> None:
    messages = body["messages"]
    pending: list[str] = []
    for message in messages:
        role = message["role"]
        _require(role in ("system", "user", "assistant", "tool"), f"unknown role {role!r}")
        if role == "tool":
            _require(message.get("tool_call_id") in pending, "a tool message answers no open call")
            pending.remove(message["tool_call_id"])
            _require(isinstance(message["content"], str) and message["content"], "a tool message is a text")
            continue
        _require(not pending, f"calls without a tool message: {pending}")
        calls = message.get("tool_calls")
        _require(calls is None or (role == "assistant" and calls), "calls are the assistant's, and not none")
        pending = [_chat_call(call) for call in calls or ()]
        _require(len(set(pending)) == len(pending), "ids of calls are unique")
        if not (calls and message["content"] is None):
            _chat_content(message["content"])
    _require(not pending, f"calls without a tool message: {pending}")
    continues = messages[-1]["role"] == "assistant"
    _require(body.get("continue_final_message", False) is continues, "continue_final_message is for the assistant's")
    _require(body.get("add_generation_prompt", True) is not continues, "add_generation_prompt contradicts it")
    _require("parallel_tool_calls" not in body or body.get("tools"), "parallel_tool_calls only with tools")


def _chat_call(call: Body) -> str:
    _require(call["type"] == "function" and call["function"]["name"], "a call names a function")
    _require(isinstance(json.loads(call["function"]["arguments"]), dict), "arguments are the text of a JSON object")
    _require(isinstance(call["id"], str) and call["id"], "a call has an id")
    return str(call["id"])


def _chat_content(content: object) -> None:
    if isinstance(content, str):
        return
    _require(isinstance(content, list) and content, "content is a text or a list of parts")
    assert isinstance(content, list)
    for part in content:
        _require(part["type"] in ("text", "image_url", "video_url"), f"unknown part {part['type']!r}")
        _require(part[part["type"]], "no part is empty")


# Messages.

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NO_PREFILL = re.compile(r"claude-\w+-(4-[6-9]|[5-9])")


def _messages(body: Body) -> None:
    messages = body["messages"]
    _require(messages and messages[0]["role"] == "user", "the first message is the user's")
    pending: list[str] = []
    seen: set[str] = set()
    before = None
    for message in messages:
        role, content = message["role"], message["content"]
        _require(role in ("user", "assistant") and role != before, "roles take turns")
        _require(isinstance(content, list) and content, "no message is empty")
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        _require(sorted(results) == sorted(pending), f"calls {pending} are answered by {results}")
        first = [block["type"] for block in content[: len(results)]]
        _require(set(first) <= {"tool_result"}, "results come first in their message")
        pending = [block["id"] for block in content if block["type"] == "tool_use"]
        _require(not seen & set(pending) and len(set(pending)) == len(pending), "ids of calls are unique")
        seen |= set(pending)
        for block in content:
            _block(role, block)
        before = role
    _require(not pending, f"calls without a result: {pending}")
    _require(body.get("tools") or not seen, "calls only with tools")
    _require(_has_sandbox(body) or "container" not in body, "container only with a tool that has one")
    _require(body.get("tools") or "tool_choice" not in body, "tool_choice only with tools")
    if before == "assistant" and not _has_sandbox(body):
        _require(not _NO_PREFILL.match(body["model"]), "This model does not support assistant message prefill.")
        text = messages[-1]["content"][-1]["text"]
        _require(text == text.rstrip(), "final assistant content cannot end with trailing whitespace")


def _block(role: str, block: Body) -> None:
    kind = block["type"]
    if kind == "text":
        _require(block["text"].strip(), "text blocks must contain non-whitespace text")
    elif kind == "image":
        _require(role == "user", "image blocks are not permitted within assistant turns")
        _require(block["source"]["data"], "no picture is empty")
    elif kind == "tool_use":
        _require(role == "assistant" and _ID.fullmatch(block["id"]), "the id of a call is made of few characters")
        _require(isinstance(block["input"], dict) and block["name"], "a call has a name and an object")
    elif kind == "tool_result":
        _require(role == "user", "results are the user's")
        _require(block.get("content", True), "a result has content or has no such field")
        for inner in block.get("content", ()):
            _require(inner["type"] in ("text", "image"), "a result holds texts and pictures")
            _block("user", inner)
    elif kind == "thinking":
        _require(role == "assistant" and block["signature"] and block["thinking"], "a thought is whole and signed")
    elif kind == "redacted_thinking":
        _require(role == "assistant" and block["data"], "a redacted thought goes back as it came")
    elif kind == "container_upload":
        _require(role == "user" and block["file_id"], "an upload is the user's and names a file")
    elif kind == "server_tool_use":
        _require(role == "assistant" and isinstance(block["input"], dict), "a call of the server's is an object")
    elif kind.endswith("code_execution_tool_result"):
        _require(role == "assistant" and block["tool_use_id"] and block["content"]["type"], "a result is whole")
    else:
        raise _BrokenRuleError(f"unknown block {kind!r}")


def _has_sandbox(body: Body) -> bool:
    return any(tool.get("type", "").startswith("code_execution_") for tool in body.get("tools", ()))


# generateContent. The service takes names of fields in either spelling; the client leaves some in the older one.

_PART_KINDS = {"text", "inlineData", "functionCall", "functionResponse"}


def _gemini(body: Body) -> None:
    pending: list[tuple[str, str]] = []
    before = None
    for content in body["contents"]:
        role, parts = content["role"], content["parts"]
        _require(role in ("user", "model") and role != before, "roles take turns")
        _require(parts, "contents.parts must not be empty")
        for part in parts:
            [kind] = set(part) - {"thoughtSignature"}
            _require(kind in _PART_KINDS and part[kind], f"a part is of a known kind and not empty: {part}")
            _require(kind != "inlineData" or part[kind]["mime_type"] != "image/gif", "Unsupported MIME type: image/gif")
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        found = [(result["name"], result["id"]) for result in results]
        _require(found == pending, "function response parts equal in number the function call parts")
        calls = [part for part in parts if "functionCall" in part]
        _require(role == "model" or not calls, "calls are the model's")
        _require(not calls or "thoughtSignature" in calls[0], "Function call is missing a thought_signature")
        pending = [(part["functionCall"]["name"], part["functionCall"]["id"]) for part in calls]
        before = role
    _require(before == "user" and not pending, "the last turn is the user's")
    _require(len(body.get("generationConfig", {}).get("stopSequences", ())) <= 5, "at most 5 stop sequences")


# Responses.


def _responses(body: Body) -> None:
    _require(body["store"] is False, "nothing is stored")
    _require(not {"stop", "seed", "top_k"} & set(body), "Unknown parameter")
    pending: list[str] = []
    for item in body["input"]:
        kind = item["type"]
        _require("id" not in item, f"Item with id {item.get('id')!r} not found; items are not persisted")
        if kind == "function_call":
            _require(isinstance(json.loads(item["arguments"]), dict), "arguments are the text of a JSON object")
            pending.append(item["call_id"])
        elif kind == "function_call_output":
            _require(item["call_id"] in pending, "No tool call found for function call output")
            pending.remove(item["call_id"])
        elif kind == "reasoning":
            _require(item["encrypted_content"] and isinstance(item["summary"], list), "reasoning is encrypted")
        else:
            _require(kind == "message" and item["content"], f"unknown item {kind!r}")
            _require(not pending, f"No tool output found for function call {pending}")
    _require(not pending, f"No tool output found for function call {pending}")


_RULES: dict[str, Callable[[Body], None]] = {
    "/completions": _chat,
    "/messages": _messages,
    "generatecontent": _gemini,
    "/responses": _responses,
}
