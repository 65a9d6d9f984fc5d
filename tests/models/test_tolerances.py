"""What servers send that is not of their protocol is read all the same and noted; what is an outage stays one."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response
from tests.models.helpers import Media, ask, endpoint, said
from tests.models.wire_gemini import called, generated
from tests.models.wire_responses import function_call, message, reasoning, responded
from tests.models.wire_server import WireServer, chat, messages, raw, stream

from saccade.core.retry import RetryPolicy
from saccade.errors import ContextLimitError, ModelLostError, ModelRefusedError
from saccade.models.base import Completion, Model, Request
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel, paired
from saccade.models.providers.responses import ResponsesModel
from saccade.models.thinking import MANNERS
from saccade.models.tolerances import ENDS, TOLERANCES
from saccade.record.content import Message, ToolCall
from saccade.record.trajectory import FinishReason

TWICE = RetryPolicy(tries=2, first_seconds=0)
STOP, LENGTH, TOOL, FILTERED, DECLINED = (
    FinishReason.STOP,
    FinishReason.LENGTH,
    FinishReason.TOOL_CALL,
    FinishReason.FILTERED,
    FinishReason.DECLINED,
)
CODE = {"code": "1"}
HERE = Path(__file__).parents[2]
Asks = Callable[..., Any]


@pytest.fixture
async def asks(server: WireServer) -> AsyncIterator[Asks]:
    """Ask the server, which answers so, by the client of that kind."""
    made: list[Model] = []

    async def ask_it(behaviour: Any, kind: str = "compatible", streamed: bool = False) -> Completion:
        server.will(behaviour)
        if kind == "anthropic":
            made.append(AnthropicModel(endpoint(server.url, retry=TWICE), api_key="k-1"))
        elif kind == "gemini":
            made.append(GeminiModel(endpoint(server.url, retry=TWICE), api_key="k-1"))
        elif kind == "responses":
            made.append(ResponsesModel(endpoint(server.url + "/v1", retry=TWICE), api_key="k-1"))
        else:
            made.append(OpenAIModel(endpoint(server.url + "/v1", retry=TWICE), server=kind, api_key="k-1"))
        return await made[-1].complete(ask(), Media(), on_text=(lambda _: None) if streamed else None)

    yield ask_it
    for model in made:
        await model.close()


def call(arguments: Any, name: str = "python", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def chunk(finish: Any = None, **delta: Any) -> str:
    return json.dumps({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def piece(finish: Any = None, *calls: dict[str, Any]) -> str:
    return chunk(finish, tool_calls=list(calls))


def body(answer: Any) -> Any:
    async def behave(_: dict[str, Any]) -> Response:
        return JSONResponse(answer)

    return behave


def whole(finish: Any = "stop", frame: dict[str, Any] | None = None, **message: Any) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return body({"model": "m", "choices": [choice], **(frame or {})})


def noted(answer: Completion, *names: str) -> None:
    """Each of these departures is noted, and no other."""
    heads = [TOLERANCES[name].words.partition("{}")[0] for name in names]
    assert len(answer.notes) >= len(heads), answer.notes
    assert all(any(note.startswith(head) for note in answer.notes) for head in heads), answer.notes
    assert all(any(note.startswith(head) for head in heads) for note in answer.notes), answer.notes


# Arguments of calls.


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("arguments", "read", "names"),
    [
        ('{"code": "1"}', CODE, ()),
        ("", {}, ()),
        (CODE, CODE, ("arguments",)),
        ({}, {}, ("arguments",)),
        (None, {}, ("no arguments",)),
        ([], {}, ("no arguments",)),
        ("null", {}, ("no arguments",)),
        ("[]", {}, ("no arguments",)),
        (json.dumps('{"code": "1"}'), CODE, ("double arguments",)),
        (json.dumps(json.dumps('{"code": "1"}')), CODE, ("double arguments",)),
        ('\ufeff {"code": "1"}\n', CODE, ()),
        ('{"code": "1\n2"}', {"code": "1\n2"}, ()),
        ('{}{"code": "1"}', CODE, ()),
        ('{"code": "1"}{"code": "1"}', CODE, ()),
        ([CODE], CODE, ("arguments",)),
        ({"code": {"deep": [1, None]}}, {"code": {"deep": [1, None]}}, ("arguments",)),
    ],
)
async def test_arguments(asks: Asks, streamed: bool, arguments: Any, read: dict[str, Any], names: tuple[str]) -> None:
    answer = await asks(chat(None, finish="tool_calls", tool_calls=[call(arguments)]), streamed=streamed)
    assert [(one.name, one.arguments) for one in answer.tool_calls] == [("python", read)]
    assert answer.finish is TOOL
    noted(answer, *names)


@pytest.mark.parametrize("arguments", ["[1]", [1], 7, "7", '"text"', "{'code': 1}", '{"x": NaN}'])
async def test_other_arguments_are_the_models_slip(asks: Asks, arguments: Any) -> None:
    answer = await asks(chat(None, finish="tool_calls", tool_calls=[call(arguments)]))
    assert answer.tool_calls == ()
    assert answer.text.startswith("python(")


async def test_calls_of_other_shapes(asks: Asks) -> None:
    old = {"name": "python", "arguments": '{"code": "1"}'}
    for sent in (
        {"function_call": old},
        {"tool_calls": [old]},
        {"tool_calls": {"id": "a", "function": old}},
        {"tool_calls": [{"function": "python", "arguments": CODE}]},
        {"tool_calls": [{"name": "python", "args": CODE}]},
        {"tool_calls": json.dumps([{"id": "a", "function": old}])},
        {"content": [{"toolUse": {"toolUseId": "x", "name": "python", "input": CODE}}]},
        {"content": [{"type": "tool_use", "id": "x", "name": "python", "input": CODE}]},
        {"content": [{"type": "function_call", "call_id": "x", "name": "python", "arguments": json.dumps(CODE)}]},
    ):
        answer = await asks(whole("tool_calls", **{"content": None, **sent}))
        assert [(one.name, one.arguments) for one in answer.tool_calls] == [("python", CODE)], sent
        assert any("A call came as" in note for note in answer.notes)


@pytest.mark.parametrize("name", [" python ", "functions.python", "functions.python:0", "python<|channel|>commentary"])
async def test_names_of_functions_without_what_stands_around_them(asks: Asks, name: str) -> None:
    answer = await asks(chat(None, finish="tool_calls", tool_calls=[call(CODE, name), None]))
    assert [one.name for one in answer.tool_calls] == ["python"]
    noted(answer, "arguments", "name")


# Several calls, pieces of calls, identifiers.


def begun(call_id: str | None, name: str | None, arguments: Any, index: int | None = 0) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"index": index, **({"id": call_id} if call_id is not None else {}), "function": function}


A, B = '{"code": "a"}', '{"code": "b"}'


@pytest.mark.parametrize(
    ("pieces", "calls", "names"),
    [
        # Two calls under one number: whole, in pieces, without identifiers, without numbers.
        ([begun("1", "f", A), begun("2", "g", B)], [("f", "a", "1"), ("g", "b", "2")], ("one number",)),
        ([begun("1", "f", A), begun("2", "f", A)], [("f", "a", "1"), ("f", "a", "2")], ("one number",)),
        (
            [begun("1", "f", ""), begun(None, None, A[:5]), begun(None, None, A[5:]), begun("2", "g", ""),
             begun(None, None, B)],
            [("f", "a", "1"), ("g", "b", "2")],
            ("one number",),
        ),
        ([begun(None, "f", A), begun(None, "g", B)], [("f", "a", None), ("g", "b", None)], ("one number",)),
        ([begun("1", "f", A, None), begun("2", "g", B, None)], [("f", "a", "1"), ("g", "b", "2")], ("one number",)),
        ([begun("1", "f", CODE), begun("2", "g", CODE)], [("f", "1", "1"), ("g", "1", "2")],
         ("one number", "arguments")),
        # A new identifier with every piece is still one call.
        ([begun("1", "f", ""), begun("2", None, A[:5]), begun("3", None, A[5:])], [("f", "a", "1")], ()),
        # The same call sent once more is one call.
        ([begun("1", "f", A), begun("1", "f", A)], [("f", "a", "1")], ()),
        ([begun("1", "f", A), begun(None, "f", "")], [("f", "a", "1")], ()),
        # The name comes last; two pieces of one call come in one chunk (speculative decoding).
        ([begun("1", None, A), begun(None, "f", None)], [("f", "a", "1")], ()),
        ([begun("1", "f", A[:5]), begun(None, None, A[5:])], [("f", "a", "1")], ()),
        # Names in pieces, repeated names, growing names.
        ([begun("1", "py", None), begun(None, "thon", None), begun(None, None, A)], [("python", "a", "1")],
         ("split name",)),
        ([begun("1", "f", A[:5]), begun("1", "f", A[5:])], [("f", "a", "1")], ()),
        ([begun("1", "py", ""), begun("1", "python", A)], [("python", "a", "1")], ("split name",)),
        # Identifiers that are missing, blank or numbers.
        ([begun("", "f", A)], [("f", "a", None)], ()),
        ([begun("1", "f", A, 0), begun("1", "g", B, 1)], [("f", "a", "1"), ("g", "b", "1")], ()),
    ],
)  # fmt: skip
async def test_pieces_of_calls(
    asks: Asks, pieces: list[dict[str, Any]], calls: list[tuple[str, str, str | None]], names: tuple[str, ...]
) -> None:
    sent = stream(*(piece(None, one) for one in pieces), chunk("tool_calls"), "[DONE]")
    answer = await asks(sent, streamed=True)
    assert [(one.name, one.arguments["code"], one.call_id) for one in answer.tool_calls] == calls
    noted(answer, *names)
    together = await asks(stream(piece("tool_calls", *pieces), "[DONE]"), streamed=True)
    assert together.tool_calls == answer.tool_calls


async def test_calls_of_a_whole_answer_are_told_apart_whatever_their_numbers(asks: Asks) -> None:
    calls = [call(A, index=0), {**call(B, index=0), "id": 2}]
    answer = await asks(whole("tool_calls", content=None, tool_calls=calls))
    assert [(one.arguments["code"], one.call_id) for one in answer.tool_calls] == [("a", "c1"), ("b", "2")]


def test_identifiers_that_come_twice_are_unique_when_they_go_back() -> None:
    def turn(call_id: str | None) -> list[Message]:
        call = ToolCall(name="f", arguments={}, call_id=call_id)
        return [
            Message(role="assistant", parts=(), calls=(call,)),
            said("tool", "x").model_copy(update={"call_id": call_id}),
        ]

    sent = paired([said("user", "q"), *turn("call_0"), *turn("call_0"), *turn(None), *turn("")])
    asked = [one.call_id for message in sent for one in message.calls]
    assert asked == [message.call_id for message in sent if message.role == "tool"]
    assert len(set(asked)) == 4
    assert all(asked)


# Why an answer ended.


@pytest.mark.few(7, of=lambda params: params["kind"])
@pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason:UserWarning")
@pytest.mark.parametrize("kind", ["compatible", "anthropic", "gemini"])
@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("end_turn", STOP),
        ("eos", STOP),
        ("eos_token", STOP),
        ("STOP", STOP),
        ("Stop", STOP),
        ("COMPLETE", STOP),
        ("FINISH_REASON_STOP", STOP),
        ("FinishReason.STOP", STOP),
        ("endTurn", STOP),
        ("max_tokens", LENGTH),
        ("maxTokens", LENGTH),
        ("hit_max_length", LENGTH),
        ("output_limit", LENGTH),
        ("contentFilter", FILTERED),
        ("MAX_TOKENS", LENGTH),
        ("model_length", LENGTH),
        ("content-filter", FILTERED),
        ("SAFETY", FILTERED),
        ("sensitive", FILTERED),
        ("refusal", DECLINED),
        ("some new word", STOP),
    ],
)
async def test_foreign_words_for_the_end(asks: Asks, kind: str, word: str, finish: FinishReason) -> None:
    behaviour = {
        "compatible": chat("hello", finish=word),
        "anthropic": messages(reason=word),
        "gemini": generated("hello", finish=word),
    }[kind]
    for streamed in (False, True):
        answer = await asks(behaviour, kind, streamed)
        assert (answer.text, answer.finish) == ("hello", finish)


@pytest.mark.parametrize("word", ["error", "abort", "network_error", "insufficient_system_resource", "ERROR_LIMIT"])
async def test_words_for_something_that_broke_are_outages(asks: Asks, word: str) -> None:
    for kind, behaviour in (("compatible", chat("half", finish=word)), ("anthropic", messages(reason=word))):
        with pytest.raises(ModelLostError, match=word):
            await asks(behaviour, kind)


async def test_blank_and_missing_ends(asks: Asks) -> None:
    for word in ("", "null", None, "FINISH_REASON_UNSPECIFIED"):
        parts = [chunk(word, content="<answer>"), chunk(word, content="blue"), chunk("stop")]
        answer = await asks(stream(*parts, "[DONE]"), streamed=True)
        assert (answer.text, answer.finish) == ("<answer>blue", STOP)
        noted(answer, *(("blank end",) if word is not None else ()))
        answer = await asks(whole(word, content="blue"))
        assert (answer.text, answer.finish) == ("blue", STOP)
        assert any("whole by" in note for note in answer.notes)
    answer = await asks(whole(None, content=None, tool_calls=[call(A)]))
    assert (answer.finish, len(answer.tool_calls)) == (TOOL, 1)
    answer = await asks(whole({"type": "length", "length": 5}, content="blue"))
    assert answer.finish is LENGTH
    answer = await asks(generated("blue", finish=None), "gemini")
    assert (answer.text, answer.finish) == ("blue", STOP)


async def test_a_stream_without_a_reason_is_whole_only_by_its_own_mark(asks: Asks) -> None:
    text = [chunk(content="bl"), chunk(content="ue")]
    counts = json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    for marks in (["[DONE]"], [counts], [counts, "[DONE]"]):
        answer = await asks(stream(*text, *marks), streamed=True)
        assert (answer.text, answer.finish) == ("blue", STOP)
        noted(answer, "no end")
    answer = await asks(stream(*text, chunk("stop")), streamed=True)  # a reason without [DONE]
    assert (answer.text, answer.finish, answer.notes) == ("blue", STOP, ())
    for broken in (stream(*text), stream(*text, breaks=True), stream("[DONE]"), stream(counts, "[DONE]")):
        with pytest.raises(ModelLostError):
            await asks(broken, streamed=True)


# Texts, thoughts, refusals.

PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "so "}, {"type": "text", "text": "it is"}]},
    {"type": "text", "text": "bl"},
    {"type": "text", "text": "ue"},
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("content", "text", "names"),
    [
        (PARTS, "<think>so it is</think>blue", ("parts",)),
        ([{"type": "reasoning", "text": "so"}, {"type": "output_text", "text": "blue"}], "<think>so</think>blue",
         ("parts",)),
        ([{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "blue"}], "<think>so</think>blue",
         ("parts",)),
        (["bl", {"text": "ue"}], "blue", ("parts",)),
        ({"type": "text", "text": "blue"}, "blue", ("parts",)),
        ([{"type": "text", "text": {"value": "blue"}}], "blue", ("parts",)),
        ([{"type": "text", "text": "blue"}, {"type": "reference", "reference_ids": [1]}], "blue",
         ("parts", "unknown part")),
        ([{"reasoningContent": {"reasoningText": {"text": "so"}}}, {"text": "blue"}], "<think>so</think>blue",
         ("parts",)),
        ([{"text": "so", "thought": True}, {"text": "blue"}, None], "<think>so</think>blue", ("parts",)),
        ({"parts": [{"text": "blue"}], "role": "model"}, "blue", ("parts",)),
        ({"answer": "blue"}, '{"answer": "blue"}', ("parts",)),
        (4, "4", ("parts",)),
        ([], "", ()),
        (None, "", ()),
    ],
)  # fmt: skip
async def test_content_as_parts(asks: Asks, streamed: bool, content: Any, text: str, names: tuple[str, ...]) -> None:
    sent = stream(chunk(content=content), chunk("stop"), "[DONE]") if streamed else whole(content=content)
    answer = await asks(sent, streamed=streamed)
    assert (answer.text, answer.finish) == (text, STOP)
    noted(answer, *names)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking", "reasoning_details",
                                  "thinking_blocks", "reasoningContent", "thoughts"])  # fmt: skip
async def test_thoughts_under_every_name(asks: Asks, name: str) -> None:
    thought: Any = [{"type": "reasoning.text", "text": "so"}] if name == "reasoning_details" else "so"
    for streamed in (False, True):
        fields = {name: thought, "reasoning": "so"} if name == "reasoning_details" else {name: thought}
        chunks = stream(chunk(**fields), chunk("stop", content="blue"), "[DONE]")
        answer = await asks(chunks if streamed else whole(content="blue", **fields), streamed=streamed)
        assert answer.text == "<think>so</think>blue"


async def test_refusals(asks: Asks) -> None:
    refusal = {"type": "refusal", "refusal": "I will not."}
    for behaviour, kind, streamed in (
        (whole(content=None, refusal="I will not."), "openai", False),
        (whole("refusal", content="I will not."), "compatible", False),
        (whole(content=[refusal]), "compatible", False),
        (stream(chunk(refusal="I will "), chunk(refusal="not."), chunk("stop"), "[DONE]"), "openai", True),
        (messages(text="I will not.", reason="refusal"), "anthropic", False),
        (responded(message("I will not.", "refusal")), "responses", False),
        (responded(message("I will not.", "refusal")), "responses", True),
    ):
        answer = await asks(behaviour, kind, streamed)
        assert (answer.text, answer.finish, answer.tool_calls) == ("I will not.", DECLINED, ()), (kind, streamed)
    for nothing in ("", None):
        assert (await asks(whole(content="blue", refusal=nothing))).finish is STOP


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "The response was filtered ... content management policy.", "code": "content_filter"}),
        (400, {"message": "<400> Input data may contain inappropriate content.", "code": "data_inspection_failed"}),
        (403, {"message": "claude requires moderation. Your input was flagged.", "code": 403}),
        (200, {"message": "Invalid prompt: flagged as violating our usage policy.", "code": "invalid_prompt"}),
    ],
)
async def test_a_filter_before_the_model(asks: Asks, server: WireServer, status: int, error: dict[str, Any]) -> None:
    answer = await asks(raw(json.dumps({"error": error}), status=status))
    assert (answer.text, answer.finish, len(server.bodies)) == ("", FILTERED, 1)
    assert error["message"].rstrip(".") in answer.notes[0]


# Errors with a status of 200.


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"message": "No endpoints support images", "code": 404}, ModelRefusedError, "No endpoints support images"),
        ({"message": "m", "code": "400"}, ModelRefusedError, "400"),
        ({"message": "m", "type": "invalid_request_error"}, ModelRefusedError, "400"),
        ({"message": "m", "type": "BadRequestError"}, ModelRefusedError, "400"),
        ({"message": "m", "code": "invalid_api_key"}, ModelRefusedError, "401"),
        ({"message": "m", "status": "PERMISSION_DENIED"}, ModelRefusedError, "403"),
        ({"message": "maximum context length is 5", "code": 400}, ContextLimitError, "context is full"),
        ({"message": "Provider returned error", "code": 502, "metadata": {"raw": "boom"}}, ModelLostError, "boom"),
        ({"message": "m", "code": 429}, ModelLostError, "429"),
        ({"message": "m", "type": "rate_limit_exceeded"}, ModelLostError, "429"),
        ({"message": "m", "type": "server_error"}, ModelLostError, "500"),
        ({"message": "m", "code": "1211"}, ModelRefusedError, "404"),
        ({"message": "m", "code": "1302"}, ModelLostError, "429"),
        ({"message": "m", "type": "model_not_found_error"}, ModelRefusedError, "404"),
        ({"message": "litellm.NotFoundError: m"}, ModelRefusedError, "404"),
        ({"message": "Error code: 400 - m"}, ModelRefusedError, "400"),
        ({"error": {"message": "m", "code": 400}}, ModelRefusedError, "400"),
        ("model 'm' not found, try pulling it first", ModelRefusedError, "404"),
        ({"message": "m"}, ModelLostError, "500"),
        ("a text", ModelLostError, "a text"),
    ],
)  # fmt: skip
async def test_errors_in_a_200(asks: Asks, server: WireServer, error: Any, kind: type[Exception], words: str) -> None:
    tries = 2 if kind is ModelLostError else 1
    choice = {"index": 0, "message": {"content": "half"}, "delta": {"content": "half"}, "finish_reason": "error"}
    for behaviour, streamed in (
        (body({"error": error}), False),
        (body({"choices": [{**choice, "error": error}]}), False),
        (stream(json.dumps({"error": error})), True),
        (stream(chunk(content="half"), json.dumps({"error": error}), "[DONE]"), True),
        (stream(json.dumps({"choices": [{**choice, "error": error}]}), "[DONE]"), True),
        (body({"error": error}), True),
    ):
        with pytest.raises(kind, match=words):
            await asks(behaviour, streamed=streamed)
        assert len(server.bodies) == tries
    with pytest.raises(kind, match=words):
        await asks(body({"id": "r", "status": "failed", "output": [], "error": error}), "responses")
    assert len(server.bodies) == tries


async def test_an_error_that_is_the_body_itself(asks: Asks, server: WireServer) -> None:
    for sent in (
        {"object": "error", "message": "no such model", "code": 404},
        {"message": "no such model", "code": 404},
        {"base_resp": {"status_code": 1004, "status_msg": "no such model"}},
        {"error": "no such model", "code": 404},
        {"errors": [{"message": "no such model", "code": 404}]},
        [{"error": {"message": "no such model", "status": "NOT_FOUND"}}],
        {"__type": "com.amazon.coral.validate#ValidationException", "Message": "no such model"},
        {"statusCode": 404, "message": "no such model"},
        {"success": False, "code": 404, "msg": "no such model"},
        {"detail": [{"loc": ["body", "model"], "msg": "no such model", "type": "missing"}]},
    ):
        with pytest.raises(ModelRefusedError, match="no such model"):
            await asks(body(sent))
        assert len(server.bodies) == 1
    event = 'event: error\ndata: {"message": "no such model", "code": 404}\n\n'
    with pytest.raises(ModelRefusedError, match="no such model"):
        await asks(raw(event, "text/event-stream"), streamed=True)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("invalid_request_error", ModelRefusedError), ("overloaded_error", ModelLostError), ("api_error", ModelLostError)],
)
async def test_an_error_event_of_anthropics(asks: Asks, word: str, kind: type[Exception]) -> None:
    error = json.dumps({"type": "error", "error": {"type": word, "message": "m"}})
    with pytest.raises(kind):
        await asks(raw(f"event: error\ndata: {error}\n\n", "text/event-stream"), "anthropic")


# Bytes of a stream, and bodies of the other kind.

FIRST, LAST = chunk(content="bl"), chunk("stop", content="ue")


@pytest.mark.parametrize(
    "text",
    [
        f"data: {FIRST}\n\ndata: {LAST}\n\ndata: [DONE]\n\n",
        f"\ufeffdata: {FIRST}\n\ndata: {LAST}\n\ndata: [DONE]\n\n",
        f"data:{FIRST}\n\ndata:{LAST}\n\ndata:[DONE]\n\n",
        f"data: {FIRST}\r\n\r\ndata: {LAST}\r\n\r\n",
        f"data: {FIRST}\r\rdata: {LAST}\r\r",
        f": OPENROUTER PROCESSING\n\ndata: {FIRST}\n\n: ping\n\ndata: {LAST}\n\n",
        f"event: message\nid: 1\nretry: 5\ndata: {FIRST}\n\nevent: message\ndata: {LAST}",
        f"data: {FIRST}\n\ndata:\n\ndata: {LAST}\n\n",
        f"\n\n\ndata: {FIRST}\n\n\n\ndata: {LAST}\n\n",
        f"data: {FIRST[:9]}\ndata: {FIRST[9:]}\n\ndata: {LAST}\n\n",
    ],
)
async def test_streams_as_servers_write_them(asks: Asks, text: str) -> None:
    answer = await asks(raw(text, "text/event-stream"), streamed=True)
    assert (answer.text, answer.finish) == ("blue", STOP)
    whole = await asks(raw(text, "text/event-stream"))
    assert (whole.text, whole.finish) == ("blue", STOP)
    noted(whole, "streamed")


async def test_a_line_separator_in_a_text_ends_no_line(asks: Asks) -> None:
    sent = json.dumps(
        {"choices": [{"delta": {"content": "a\u2028b\x85c"}, "finish_reason": "stop"}]}, ensure_ascii=False
    )
    assert (await asks(stream(sent), streamed=True)).text == "a\u2028b\x85c"


async def test_bodies_of_the_other_kind(asks: Asks) -> None:
    answer = await asks(whole(content="blue"), streamed=True)
    assert (answer.text, answer.finish) == ("blue", STOP)
    noted(answer, "whole")
    sent = {"choices": [{"message": {"content": "blue"}, "finish_reason": "stop"}]}
    for text in (json.dumps(sent), "\ufeff" + json.dumps(sent), "\n  " + json.dumps(sent, indent=1)):
        assert (await asks(raw(text, "text/plain"))).text == "blue"
    plain = {"choices": [{"delta": {"content": "blue"}, "finish_reason": "stop"}]}
    for held in (
        plain,
        {"data": {"choices": [{"message": {"content": "blue"}, "finish_reason": "stop"}]}, "code": 200},
        {"choices": [{"text": "blue", "finish_reason": "stop"}]},
        {"choices": [{"message": "blue", "finish_reason": "stop"}]},
        {"message": {"content": "blue"}, "done": True, "done_reason": "stop"},
    ):
        answer = await asks(body(held))
        assert (answer.text, answer.finish) == ("blue", STOP)
        noted(answer, "message")
    answer = await asks(stream(json.dumps({"choices": [{"message": {"content": "blue"}, "finish_reason": "stop"}]})),
                        streamed=True)  # fmt: skip
    noted(answer, "message")


# Counts.


@pytest.mark.parametrize(
    ("frame", "counts"),
    [
        ({"usage": None}, (None, None, None, None)),
        ({}, (None, None, None, None)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 5}}, (7, None, 5, None)),
        ({"usage": {"input_tokens": 7, "output_tokens": 5}}, (7, None, 5, None)),
        ({"usage": {"prompt_tokens": "7", "completion_tokens": 5.0}}, (7, None, 5, None)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": None}}, (None, None, None, None)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 5, "prompt_cache_hit_tokens": 3}}, (7, 3, 5, None)),
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": None,
                       "completion_tokens_details": {"reasoning_tokens": 4}}},
            (7, None, 5, 4),
        ),
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 16,
                       "completion_tokens_details": {"reasoning_tokens": 4}}},
            (7, None, 9, 4),
        ),
        ({"x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 5}}}, (7, None, 5, None)),
    ],
)  # fmt: skip
async def test_counts(asks: Asks, frame: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    usage = (await asks(whole(content="blue", frame=frame))).usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.sampled_tokens, usage.reasoning_tokens) == counts
    last = json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], **frame})
    usage = (await asks(stream(chunk(content="blue"), last, "[DONE]"), streamed=True)).usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.sampled_tokens, usage.reasoning_tokens) == counts


async def test_counts_inside_a_choice(asks: Asks) -> None:
    choice = {"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 7, "completion_tokens": 5}}
    answer = await asks(stream(chunk(content="blue"), json.dumps({"choices": [choice]})), streamed=True)
    assert answer.usage.sampled_tokens == 5
    noted(answer, "usage")


# The other protocols.


async def test_anthropics_protocol_as_other_servers_speak_it(asks: Asks) -> None:
    block = {"type": "tool_use", "name": "python", "input": CODE}
    sent = {"type": "message", "content": [{"type": "text", "text": "so"}, block], "stop_reason": "tool_use"}
    for answer in (await asks(body(sent), "anthropic"), await asks(body({**sent, "stop_reason": None}), "anthropic")):
        assert (answer.text, answer.finish, answer.tool_calls[0].arguments) == ("so", TOOL, CODE)
        assert answer.tool_calls[0].call_id is None
    events = [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "blue"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
    ]
    lines = "".join(f"data:{json.dumps(event)}\r\n\r\n" for event in events)
    answer = await asks(raw(lines, "text/event-stream"), "anthropic")  # no usage, no message_stop, no names of events
    assert (answer.text, answer.finish) == ("blue", STOP)
    with pytest.raises(ModelLostError, match="broke off"):
        await asks(
            raw("".join(f"data: {json.dumps(event)}\n\n" for event in events[:3]), "text/event-stream"), "anthropic"
        )


async def test_the_responses_api_as_other_servers_speak_it(asks: Asks) -> None:
    for arguments in (CODE, json.dumps(CODE)):
        answer = await asks(responded(reasoning("x"), function_call("python", arguments)), "responses")
        assert (answer.tool_calls[0].arguments, answer.usage.reasoning_tokens) == (CODE, 30)
    plain = {"type": "message", "id": "i", "content": "blue"}
    answer = await asks(body({"output": [plain], "usage": None}), "responses")
    assert (answer.text, answer.finish) == ("blue", STOP)
    answer = await asks(body({"status": "completed", "output": [message("blue")]}), "responses", streamed=True)
    assert answer.text == "blue"
    noted(answer, "whole")


async def test_geminis_thoughts_are_counted(asks: Asks) -> None:
    answer = await asks(generated("hi", called("f", {})), "gemini")
    assert (answer.usage.sampled_tokens, answer.usage.reasoning_tokens) == (40, 30)


@pytest.mark.parametrize("content", ["", ": ping\n\n"])
async def test_a_stream_that_brings_nothing_is_asked_for_whole(asks: Asks, server: WireServer, content: str) -> None:
    server.will(raw(content, "text/event-stream"), chat("fine"))
    model = OpenAIModel(endpoint(server.url + "/v1", retry=TWICE), server="compatible")
    heard: list[str] = []
    answer = await model.complete(ask(), Media(), on_text=heard.append)
    await model.close()
    assert (answer.text, "".join(heard)) == ("fine", "fine")
    assert [body.get("stream") for body in server.bodies] == [True, None]
    noted(answer, "empty stream")


# The table.


async def test_each_departure_is_logged_once(asks: Asks, server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    server.will(chat("hello", finish="eos"), chat("hello", finish="end_turn"))
    model = OpenAIModel(endpoint(server.url + "/v1"), server="compatible")
    notes = [(await model.complete(Request((said("user", "q"),)), Media())).notes for _ in range(2)]
    await model.close()
    assert [("eos" in first[0], "end_turn" in second[0]) for first, second in [notes]] == [(True, True)]
    lines = [record.getMessage() for record in caplog.records if "departs from its protocol" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("compatible:")


PAGE = (HERE / "docs/models.md").read_text(encoding="utf-8")
BENT = {**TOLERANCES, **MANNERS}
ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.partition("| what is bent for it |\n")[2].partition("\n\n")[0].split("\n")[1:]
]


def test_the_page_of_models_lists_every_departure() -> None:
    for name, item in BENT.items():
        assert re.search(rf"\| {name} \| .* \| {re.escape(item.servers)} \|", PAGE), name
    assert all(word == word.lower() for word in ENDS)


def test_the_table_of_servers_says_what_is_bent_for_each() -> None:
    assert {name for *_, bent in ROWS for name in bent.split(", ")} - {"nothing", "and what is named above"} == set(
        BENT
    )
    for server, _, _, bent in ROWS[:-1]:
        first = server if server == "transformers serve" else re.split(r"[ :]", server)[0]
        means = re.compile(rf"(^|, |\(|behind |through | and ){re.escape(first)}")
        assert bent == (", ".join(name for name, item in BENT.items() if means.search(item.servers)) or "nothing"), (
            server
        )


def test_the_table_of_servers_names_the_versions_that_are_installed_for_tests() -> None:
    pins = "\n".join((HERE / f"requirements/{name}.txt").read_text() for name in ("lock", "engines", "real-model"))
    versions = [version.replace("`", "").split() for _, _, version, _ in ROWS if "`" in version]
    assert len(versions) == 6
    assert [pin for pin in map("==".join, versions) if not re.search(rf"^{re.escape(pin)}$", pins, re.MULTILINE)] == []
