"""One tool of an MCP server by itself: how it is told to a model, and what becomes of answers and errors of its client.

The servers are real in `test_mcp_tools.py`.
"""

from __future__ import annotations

import asyncio
import base64
import io
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from tests.episode.support import stored_task

from saccade.dialects.base import load_dialect
from saccade.episode.drive import equipped, run_episode
from saccade.episode.flow import Plan
from saccade.errors import MediaError, RegistryError, ToolLostError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, ToolCall
from saccade.record.execution import Status
from saccade.tools import mcp
from saccade.tools.context import Numbering, ProblemKind, ToolContext, ToolResult
from saccade.tools.mcp import McpConnection, McpTool, close_connections, filled, taken, wants_text
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox, check_recorded_tools

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
    assert (result.status, result.problem.kind, result.text, result.problem.detail) == (status, kind, said, detail)
    assert client.closed == (status is Status.LOST and not isinstance(error, ToolLostError))


@pytest.mark.parametrize("error", [invalid(), RuntimeError("Invalid structured content returned by tool odd")])
def test_an_answer_that_is_none_fails_the_call_and_keeps_the_connection(error: Exception) -> None:
    client = Client()
    client.answer = error
    result = tool(client).call({"a": 1}, NOTHING)
    assert (result.status, client.closed) == (Status.ERROR, 0)
    assert result.text == "odd gave a result that cannot be used. Use another tool."
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
    assert (strange.status, strange.problem.kind) == (Status.ERROR, ProblemKind.TOOL_FAILURE)
    assert strange.problem.detail.startswith("its structured content is no JSON: ")


def test_a_picture_that_cannot_be_decoded_loses_the_call() -> None:
    def broken() -> Image.Image:
        raise MediaError("its file is gone")

    client = Client()
    result = tool(client, schema=TEXT).call({"a": "image_0"}, ToolContext({"image_0": broken}))
    assert (result.status, client.calls) == (Status.LOST, [])
    assert result.problem.detail == "an image of the task cannot be decoded: its file is gone"


RED = Image.new("RGB", (3, 2), "red")


SCENE = ToolContext({"image_0": RED})


def read(encoded: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(encoded)))


@pytest.mark.parametrize(
    ("name", "schema", "form"),
    [
        ("image_base64", {}, "base64"), ("DATA", {}, "base64"), ("bytes", {}, "base64"), ("data_of", {}, "url"),
        ("image", {"contentEncoding": "base64"}, "base64"), ("image", {"contentEncoding": "hex"}, "url"),
        ("image", {}, "url"), ("file", {}, "path"), ("image_Path", {}, "path"), ("paths", {}, "url"),
        ("file", {"contentEncoding": "base64"}, "path"),
    ],
)  # fmt: skip
def test_the_name_of_a_picture_becomes_the_picture(
    name: str, schema: dict[str, str], form: str, tmp_path: Path
) -> None:
    given = filled({name: "image_0", "more": "text", "count": 3}, {"properties": {name: schema}}, SCENE, tmp_path)
    assert (given["more"], given["count"]) == ("text", 3)
    said = given[name]
    if form == "path":
        assert said == str(tmp_path / "image_0.png")
        assert Image.open(said).tobytes() == RED.tobytes()
        without = filled({name: "image_0"}, {}, SCENE, None)[name]  # of another machine
        assert read(without.removeprefix("data:image/png;base64,")).tobytes() == RED.tobytes()
    else:
        assert said.startswith("data:image/png;base64,") is (form == "url")
        picture = read(said.removeprefix("data:image/png;base64,"))
        assert (picture.format, picture.tobytes()) == ("PNG", RED.tobytes())


@pytest.mark.parametrize(
    ("given", "wants"),
    [
        ({"type": "string"}, True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"type": "integer"}, False),
        ({}, False),
    ],
)
def test_which_tools_may_take_a_picture(given: dict[str, Any], wants: bool) -> None:
    assert wants_text({"properties": {"a": {"type": "integer"}, "b": given}}) is wants
    assert not wants_text({})


def encoded_png(image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize(
    ("mode", "becomes"), [("L", "L"), ("RGB", "RGB"), ("RGBA", "RGBA"), ("P", "RGB"), ("1", "RGB")]
)
def test_a_picture_of_a_server_is_taken_in_a_plain_mode(mode: str, becomes: str) -> None:
    image = taken(encoded_png(RED.convert(mode)))
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == (becomes, (3, 2))


def test_a_picture_of_no_use_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken("AAAA") == "(A picture was left out: it cannot be read, UnidentifiedImageError.)"
    assert taken(encoded_png(RED)[:-40]).startswith("(A picture was left out: it cannot be read, ")  # type: ignore[union-attr]
    monkeypatch.setattr(mcp, "MOST_PIXELS", 6)
    assert isinstance(taken(encoded_png(RED)), Image.Image)
    monkeypatch.setattr(mcp, "MOST_PIXELS", 5)
    assert taken(encoded_png(RED)) == "(A picture of 3 × 2 pixels was left out: it is too large.)"


SERVER = f"mcp:{shlex.join([sys.executable, str(Path(__file__).parent / 'mcp_server.py')])}"


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture(scope="module")
def box() -> Toolbox:
    return Toolbox.of(SERVER, calls=ToolCallSettings(seconds=20))


@pytest.fixture
def scene(picture: Image.Image) -> ToolContext:
    return ToolContext({"image_0": picture}, numbering=Numbering("image_", 1))


def test_pictures_go_in_by_name_and_come_out(box: Toolbox, scene: ToolContext, picture: Image.Image) -> None:
    assert [tool.name for tool in box.definitions] == ["mirror", "size_of", "add", "sleep", "fail", "die"]
    assert box.definitions[0].description.startswith("Mirror a picture left to right. Where it takes a picture")
    assert "Where" not in box.definitions[2].description
    result = box.call("mirror", {"image_base64": "image_0", "task": "turn it"}, scene)
    assert result.ok, result
    assert result.text == "mirrored\nNew image image_1: 100 × 60 pixels."
    mirrored = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert result.pictures[0].image.convert("RGB").tobytes() == mirrored.tobytes()
    assert box.call("size_of", {"path": "image_0"}, scene).text == "100x60"
    assert box.call("add", {"a": 2, "b": 3}, scene).text == "5"


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("add", {"a": 1}, ProblemKind.SCHEMA),
        ("add", {"a": 1, "b": "x"}, ProblemKind.ARGUMENT_FORMAT),
        ("add", [1, 2], ProblemKind.SCHEMA),
        ("fail", {}, ProblemKind.TOOL_FAILURE),
        ("mirror", {"image_base64": "no picture"}, ProblemKind.TOOL_FAILURE),
        ("ad", {}, ProblemKind.SCHEMA),
    ],
)
def test_mistakes_are_typed(box: Toolbox, scene: ToolContext, tool: str, arguments: object, kind: ProblemKind) -> None:
    result = box.call(tool, arguments, scene)
    assert result.status is Status.ERROR
    assert result.problem.kind is kind
    assert result.text


def test_a_limit_and_a_server_that_dies_and_comes_again(scene: ToolContext) -> None:
    # A server of its own: one that sleeps answers nobody else.
    box = Toolbox.of(f"{SERVER} own", calls=ToolCallSettings(seconds=5))
    hurried = Toolbox.of(f"{SERVER} own", calls=ToolCallSettings(seconds=0.3))
    lost = box.call("die", {}, scene)
    assert (lost.status, lost.text) == (Status.LOST, "")
    assert box.call("add", {"a": 1, "b": 1}, scene).text == "2"
    assert hurried.call("sleep", {"seconds": 2}, scene).status is Status.TIMEOUT
    with pytest.raises(UnavailableError, match="after mcp:"):
        Toolbox.of("mcp:/nowhere/at/all")


async def test_an_episode_with_an_mcp_tool(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = await asyncio.to_thread(equipped, load_dialect("vista"), [SERVER, "crop"])
    name = Plan(task := stored_task(store), dialect).opening.label
    call = dialect.write(ToolCall(name="mirror", arguments={"image_base64": f"{name}0"}), "I mirror it.")
    done = dialect.write(Answer(text="done"), "Seen.")
    played = await run_episode(Plan(task, dialect), ScriptedModel([call, done]), None, store, tools=tools)
    assert played.answer == "done"
    assert played.turns[0].execution is not None
    assert len(played.turns[0].execution.pictures) == 1


def test_a_file_whose_tool_is_not_whole_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text("from saccade.tools.base import Tool\nclass Half(Tool):\n    name = 'half'\n")
    with pytest.raises(RegistryError, match=r"half\.py has no tool that is whole: Half lacks run\."):
        Toolbox.of(str(file))


def test_a_file_of_tools_gives_all_of_them(tmp_path: Path, scene: ToolContext) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from saccade.tools.pictures import Crop\n"
        "class Mine(Crop):\n    name, aliases = 'mine', ()\n"
        "class Other(Crop):\n    name, aliases = 'other', ()\n"
    )
    box = Toolbox.of(str(file))
    assert [tool.name for tool in box.definitions] == ["mine", "other"]
    assert box.call("other", {"box": [0, 0, 20, 20]}, scene).ok
    (tmp_path / "none.py").write_text("from saccade.tools.pictures import Crop\n")
    with pytest.raises(RegistryError, match="has no tool"):
        Toolbox.of(str(tmp_path / "none.py"))


@pytest.mark.parametrize("name", ["mcp:sh -c id", "mcp:https://a.example", "http://a.example", "a.py", "a.py:Tool"])
def test_records_and_clients_name_no_program_and_no_server(name: str) -> None:
    check_recorded_tools(["crop"])
    with pytest.raises(RegistryError):
        check_recorded_tools([name])


async def test_a_server_that_cannot_be_started_is_lost_and_says_why() -> None:
    with pytest.raises(ToolLostError, match=r"--x cannot be used: FileNotFoundError: .*no-such-program"):
        await McpConnection("/no-such-program --x").client()


async def test_a_server_that_never_answers_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.mcp._OPEN_SECONDS", 0.2)
    program = tmp_path / "silent.py"
    program.write_text("import sys; sys.stdin.read()")
    connection = McpConnection(f"{sys.executable} {program}")
    with pytest.raises(ToolLostError, match=r"silent\.py did not answer in 0\.2 s"):
        await connection.client()
