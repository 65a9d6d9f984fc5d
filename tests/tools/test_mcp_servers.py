"""Tools of an MCP server at an address that wants a token: the official package's streamable HTTP server."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from tests.models.listening import listening
from tests.tools.mcp_server import server

from saccade.errors import ToolError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.context import Numbering, ProblemKind, ToolContext
from saccade.tools.mcp import TOKEN_VARIABLE, close_connections
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    made = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != f"Bearer {TOKEN}":
            refused: Response = PlainTextResponse("who are you", 401)
            await refused(scope, receive, send)
        else:
            await made(scope, receive, send)

    with listening(guarded, "on") as url:
        yield f"mcp:{url}/mcp"
        close_connections()


def test_without_the_token_the_tools_are_not_to_be_had(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(UnavailableError, match=r"http://127\.0\.0\.1"):
        Toolbox.of(address, calls=ToolCallSettings(seconds=5))


def test_an_address_with_a_token_gives_its_tools(
    address: str, picture: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    box = Toolbox.of(address, calls=ToolCallSettings(seconds=20))
    assert "mirror" in [tool.name for tool in box.definitions]
    scene = ToolContext({"image_0": picture}, numbering=Numbering("image_", 1))
    mirrored = box.call("mirror", {"image_base64": "image_0"}, scene)
    assert mirrored.ok, mirrored
    assert mirrored.pictures[0].image.size == picture.size
    assert box.call("add", {"a": 2, "b": 3}, scene).text == "5"


TOOLS = {"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]}


class _Dropping(BaseHTTPRequestHandler):
    """Gives no answer to each first call of a tool, in the way of `how`, and answers the second."""

    protocol_version = "HTTP/1.1"
    calls = 0
    how = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self._answer(202, b"")
            return
        error, result = None, None
        if message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "dropping", "version": "1"},
            }
        elif message["method"] == "tools/list":
            result = TOOLS
        elif message["method"] == "tools/call":
            _Dropping.calls += 1
            if _Dropping.calls % 2:
                if self.how == "drop":
                    self.close_connection = True
                else:
                    self._answer(int(self.how), b"", "text/plain")
                return
            result = {"content": [{"type": "text", "text": "here"}]}
        else:
            error = {"code": -32601, "message": "no such method"}
        body = {"error": error} if result is None else {"result": result}
        self._answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode())

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("mcp-session-id", "one")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(params=["drop", "404", "500", "502"])
def dropping_address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(_Dropping, "how", request.param)
    monkeypatch.setattr(_Dropping, "calls", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Dropping)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"mcp:http://127.0.0.1:{server.server_port}/mcp"
    close_connections()
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.few(2)
def test_a_dropped_reply_is_an_outage_and_the_next_call_opens_the_connection_anew(dropping_address: str) -> None:
    box = Toolbox.of(dropping_address, calls=ToolCallSettings(seconds=20))
    lost = box.call("odd", {}, ToolContext({}))
    assert (lost.status, lost.text) == (Status.LOST, "")
    assert "127.0.0.1" in lost.problem.detail
    assert box.call("odd", {}, ToolContext({})).text == "here"


SERVER = Path(__file__).parent / "nonsense_server.py"


FINE = '{"result": {"content": [{"type": "text", "text": "fine"}]}}'


TEXT = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    close_connections()


def box_of(tools: dict[str, Any], answer: str = FINE) -> Toolbox:
    command = shlex.join([sys.executable, str(SERVER), json.dumps(tools), answer])
    return Toolbox.of(f"mcp:{command}", calls=ToolCallSettings(seconds=20))


def one(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": "odd", "inputSchema": schema, **more}]}


def taking(given: Any) -> dict[str, Any]:
    return one({"type": "object", "properties": {"a": given}})


@pytest.mark.parametrize(
    ("tools", "error", "says"),
    [
        (taking({"type": "strnig"}), ToolError, "odd of the MCP server .* is no JSON Schema: .*strnig.* Correct it"),
        (taking({"pattern": "(["}), ToolError, "no JSON Schema: .*regex"),
        (taking({"minLength": "x"}), ToolError, "no JSON Schema: .*integer"),
        ({"tools": [{"name": "", "inputSchema": TEXT}]}, ToolError, "a tool without a name"),
        ({"tools": []}, ToolError, "offers no tools"),
        ({"tools": [{"nom": "x"}]}, UnavailableError, "gives no list of tools: .*name"),
        (one({}), UnavailableError, "gives no list of tools: "),
    ],
)
def test_a_list_of_tools_that_is_none_is_refused(tools: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"(?s){says}"):
        box_of(tools)


def test_a_list_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.mcp._LIST_SECONDS", 1.0)
    with pytest.raises(UnavailableError, match="no end of it came in 1 s"):
        box_of({"tools": [], "nextCursor": "again"})


@pytest.mark.parametrize(
    ("tools", "answer", "kind", "says"),
    [
        (one(TEXT), '{"result": {"foo": 1}}', ProblemKind.TOOL_FAILURE, "no result of this tool"),
        (one(TEXT), '{"result": {"content": [], "structuredContent": {"v": NaN}}}', ProblemKind.TOOL_FAILURE, "JSON"),
        (
            one(TEXT, outputSchema={"type": "object", "required": ["w"]}),
            '{"result": {"content": [], "structuredContent": {"v": 1}}}',
            ProblemKind.TOOL_FAILURE,
            "'w' is a required property",
        ),
        (one(TEXT), '{"error": {"code": -32603, "message": "my trouble"}}', ProblemKind.TOOL_FAILURE, "my trouble"),
        (one(TEXT), '{"error": {"code": -32602, "message": "bad a"}}', ProblemKind.ARGUMENT_FORMAT, "bad a"),
        (taking({"$ref": "#/$defs/none"}), FINE, ProblemKind.TOOL_FAILURE, "does not exist"),
        (taking({"$ref": "http://a.example/b.json"}), FINE, ProblemKind.TOOL_FAILURE, "Unresolvable"),
    ],
)
def test_an_answer_that_is_none_fails_the_call_alone(
    tools: dict[str, Any], answer: str, kind: ProblemKind, says: str
) -> None:
    result = box_of(tools, answer).call("odd", {"a": "b"}, ToolContext({}))
    assert (result.status, result.value) == (Status.ERROR, None)
    assert result.problem.kind is kind
    assert says in result.problem.message + result.problem.detail


def test_a_schema_may_be_true() -> None:
    context = ToolContext({"image_0": Image.new("RGB", (4, 4))})
    box = box_of(taking(True))
    assert "the picture's name" in box.definitions[0].description
    assert box.call("odd", {"a": "image_0"}, context).text == "fine"
