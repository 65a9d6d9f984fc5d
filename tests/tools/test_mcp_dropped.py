"""An MCP server at an address that is gone between a request and its reply: lost at once, no timeout, no mistake."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from saccade.record.execution import Status
from saccade.tools.context import ToolContext
from saccade.tools.mcp import close_connections
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

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
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
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
def test_a_dropped_reply_is_an_outage_and_the_next_call_opens_the_connection_anew(address: str) -> None:
    box = Toolbox.of(address, calls=ToolCallSettings(seconds=20))
    lost = box.call("odd", {}, ToolContext({}))
    assert (lost.status, lost.text) == (Status.LOST, "")
    assert lost.problem is not None
    assert "127.0.0.1" in lost.problem.detail
    assert box.call("odd", {}, ToolContext({})).text == "here"
