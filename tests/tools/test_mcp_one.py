"""One tool of an MCP server by itself: how it is told to a model, and what becomes of answers and errors of its client.

The servers are real in `test_mcp_tools.py`.
"""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from PIL import Image
from pydantic import TypeAdapter, ValidationError

from saccade.errors import MediaError, ToolLostError
from saccade.record.execution import Status
from saccade.tools import mcp
from saccade.tools.context import Numbering, ProblemKind, ToolContext, ToolResult
from saccade.tools.mcp import McpConnection, McpTool, _words, close_connections, connection_to
from saccade.tools.setup import ToolCallSettings

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TEXT = {"type": "object", "properties": {"a": {"type": "string"}}}
NOTHING = ToolContext({})


class Client:
    """In place of a connection and its client: each call is kept and answered or ends as told."""

    where, is_local = "the server", False

    def __init__(self) -> None:
        self.answer: Any = types.CallToolResult(content=[])
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.closed = 0

    async def client(self) -> Client:
        return self

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed += 1


def tool(client: Client, name: str = "odd", schema: dict[str, Any] = NUMBERS, **more: Any) -> McpTool:
    spoken: Any = client
    return McpTool(spoken, types.Tool(name=name, input_schema=schema, **more), ToolCallSettings(seconds=7))


def call(answer: Any, context: ToolContext = NOTHING) -> ToolResult:
    client = Client()
    client.answer = answer
    return tool(client).call({"a": 1}, context)


@pytest.mark.parametrize(
    ("more", "schema", "description"),
    [
        ({"description": " Adds\n two.", "title": "Add"}, NUMBERS, "Adds two."), ({"title": "Add"}, NUMBERS, "Add."),
        ({}, NUMBERS, "odd."),
        ({"description": "Looks"}, TEXT, "Looks. Where it takes a picture, give the picture's name, such as image_1."),
    ],
)  # fmt: skip
def test_how_a_tool_is_told_to_a_model(more: dict[str, str], schema: dict[str, Any], description: str) -> None:
    for returns in ({}, {"type": "object", "required": ["v"]}):
        made = tool(Client(), schema=schema, output_schema=returns or None, **more).definition
        assert (made.description, made.parameters, made.returns) == (description, schema, returns)


def test_its_name_is_one_that_models_can_write_and_the_server_is_called_by_its_own() -> None:
    client = Client()
    made = tool(client, "look at/it!")
    assert made.name == made.definition.name == "look_at_it_"
    assert made.call({"a": 1, "task": "count them"}, NOTHING).ok
    assert client.calls == [("look at/it!", {"a": 1})]
    own = tool(client, schema={"type": "object", "properties": {"task": {"type": "string"}}})
    assert own.call({"task": "count them"}, NOTHING).ok
    assert client.calls[1] == ("odd", {"task": "count them"})
    listed = made.call([1], NOTHING)
    assert (listed.status, listed.text) == (Status.ERROR, "Arguments are a JSON object. Write them as one.")


@pytest.mark.parametrize(
    ("schema", "arguments", "kind", "said"),
    [
        (NUMBERS, {}, "schema", "arguments: 'a' is a required property. Arguments are a, b."),
        (NUMBERS, {"a": 1, "b": "x"}, "argument_format", "b: 'x' is not of type 'integer'. Arguments are a, b."),
        ({"type": "object", "additionalProperties": False}, {"c": 1}, "argument_name",
         "arguments: Additional properties are not allowed ('c' was unexpected). Arguments are (none)."),
        ({"type": "object", "properties": {"a": {"items": {"type": "null"}}}}, {"a": [1, 2, 3, 4, 5]},
         "argument_format",
         "; ".join(f"a.{place}: {place + 1} is not of type 'null'" for place in range(4)) + ". Arguments are a."),
        ({"type": "object", "properties": {"a": {"const": "x" * 300}}}, {"a": 1}, "argument_format",
         "a: '" + "x" * 199 + ". Arguments are a."),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_the_server_is_asked(
    schema: dict[str, Any], arguments: dict[str, Any], kind: str, said: str
) -> None:
    client = Client()
    result = tool(client, schema=schema).call(arguments, NOTHING)
    assert (result.status, result.text, client.calls) == (Status.ERROR, said, [])
    assert result.problem is not None
    assert result.problem.kind == kind


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("x")
    return caught.value


@pytest.mark.parametrize(
    ("error", "status", "kind", "said", "detail"),
    [
        (MCPError(-32602, "b" * 2100), Status.ERROR, "argument_format", "b" * 2000, ""),
        (MCPError(-32603, "c" * 2100), Status.ERROR, "tool_failure", "c" * 2000, ""),
        (MCPError(-32603, ""), Status.ERROR, "tool_failure", "odd failed.", ""),
        (MCPError(-32600, "no"), Status.ERROR, "tool_failure", "no", ""),
        (MCPError(-32000, "closed"), Status.LOST, "tool_failure", "", "the server: MCPError: closed"),
        (MCPError(-32001, "late"), Status.LOST, "tool_failure", "", "the server: MCPError: late"),
        (MCPError(-32600, "Session terminated"), Status.LOST, "tool_failure", "",
         "the server: MCPError: Session terminated"),
        (MCPError(-32603, "Server returned an error response"), Status.LOST, "tool_failure", "",
         "the server: MCPError: Server returned an error response"),
        (RuntimeError("d" * 400), Status.LOST, "tool_failure", "", "the server: RuntimeError: " + "d" * 300),
        (ToolLostError("it does not start"), Status.LOST, "tool_failure", "", "it does not start"),
        (TimeoutError(), Status.TIMEOUT, "tool_failure", "odd took longer than 7 s. Use other arguments or tools.", ""),
    ],
)  # fmt: skip
def test_errors_of_the_client_are_typed(error: Exception, status: Status, kind: str, said: str, detail: str) -> None:
    client = Client()
    client.answer = error
    result = tool(client).call({"a": 1}, NOTHING)
    assert result.problem is not None
    assert (result.status, result.problem.kind, result.text, result.problem.detail) == (status, kind, said, detail)
    assert client.closed == (status is Status.LOST and not isinstance(error, ToolLostError))


@pytest.mark.parametrize("error", [invalid(), RuntimeError("Invalid structured content returned by tool odd")])
def test_an_answer_that_is_none_fails_the_call_and_keeps_the_connection(error: Exception) -> None:
    client = Client()
    client.answer = error
    result = tool(client).call({"a": 1}, NOTHING)
    assert (result.status, client.closed) == (Status.ERROR, 0)
    assert result.text == "odd gave a result that cannot be used. Use another tool."
    assert result.problem is not None
    assert result.problem.detail == f"the server's answer is no result of this tool: {error}"


def png(size: tuple[int, int]) -> types.ImageContent:
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, "PNG")
    return types.ImageContent(data=base64.b64encode(out.getvalue()).decode(), mime_type="image/png")


def test_texts_and_pictures_of_a_result_in_their_order() -> None:
    content: list[Any] = [
        types.TextContent(text="one"), png((4, 3)), types.ImageContent(data="AAAA", mime_type="image/png"),
        types.AudioContent(data="AAAA", mime_type="audio/wav"), png((5, 2)), types.TextContent(text="two"),
    ]  # fmt: skip
    context = ToolContext({}, numbering=Numbering("image_", 3))
    result = call(types.CallToolResult(content=content, structured_content={"v": 1}), context)
    lines = [
        "one", "(A picture was left out: it cannot be read, UnidentifiedImageError.)",
        "(Content of type audio was left out.)", "two",
    ]  # fmt: skip
    assert result.value == {"text": "\n".join(lines), "structured": {"v": 1}}
    assert [(item.name, item.image.size) for item in result.pictures] == [("image_3", (4, 3)), ("image_4", (5, 2))]
    assert result.text.splitlines() == [
        *lines, "New image image_3: 4 × 3 pixels.", "New image image_4: 5 × 2 pixels.",
    ]  # fmt: skip
    assert call(types.CallToolResult(content=[])).text == "(no content)"
    assert [item.name for item in call(types.CallToolResult(content=[png((2, 2))])).pictures] == ["odd_1"]


def test_results_that_say_they_failed_or_hold_no_json() -> None:
    for content, said in (([types.TextContent(text="as told")], "as told"), ([], "odd failed.")):
        failed = call(types.CallToolResult(content=content, is_error=True))
        assert (failed.status, failed.text) == (Status.ERROR, said)
    strange = call(types.CallToolResult(content=[], structured_content={"v": float("nan")}))
    assert strange.problem is not None
    assert (strange.status, strange.problem.kind) == (Status.ERROR, ProblemKind.TOOL_FAILURE)
    assert strange.problem.detail.startswith("its structured content is no JSON: ")


def test_a_picture_that_cannot_be_decoded_loses_the_call() -> None:
    def broken() -> Image.Image:
        raise MediaError("its file is gone")

    client = Client()
    result = tool(client, schema=TEXT).call({"a": "image_0"}, ToolContext({"image_0": broken}))
    assert (result.status, client.calls) == (Status.LOST, [])
    assert result.problem is not None
    assert result.problem.detail == "an image of the task cannot be decoded: its file is gone"


def test_a_process_has_one_connection_to_each_server_and_ends_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    atexit: list[tuple[object, ...]] = []
    monkeypatch.setattr("atexit.register", lambda function, *given: atexit.append(given))
    held: dict[tuple[int, str], McpConnection] = {}
    monkeypatch.setattr(mcp, "_connections", held)
    closed: list[str] = []

    async def close(self: McpConnection) -> None:
        closed.append(self.where)

    monkeypatch.setattr(McpConnection, "close", close)
    one, two = connection_to("look --at it"), connection_to("https://a.example")
    assert connection_to("look --at it") is one
    assert (one.where, one.is_local, two.is_local) == ("look --at it", True, False)
    keys = [(os.getpid(), "look --at it"), (os.getpid(), "https://a.example")]
    assert list(held) == keys
    assert atexit == [(key,) for key in keys]
    held[-1, "of the parent"] = two
    close_connections()
    assert list(held) == [(-1, "of the parent")]
    assert closed == [where for _, where in keys]


def test_the_first_error_of_a_group_is_told() -> None:
    inner = OSError("x" * 400)
    grouped = ExceptionGroup("a", [ExceptionGroup("b", [inner, ValueError("y")])])
    assert _words(grouped) == _words(inner) == "OSError: " + "x" * 300
