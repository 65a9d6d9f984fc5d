"""A server of tools that answers in no words of the protocol: the call is LOST or refused, and nothing raises."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from saccade.core.retry import RetryPolicy
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.definition import Cost
from saccade.tools.served import served_tools
from saccade.tools.served_wire import ServedDefinition, ServedTools
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

ODD = ServedDefinition(name="odd", description="", parameters={}, returns={}, aliases=(), cost=Cost.LIGHT)


class _Nonsense(BaseHTTPRequestHandler):
    code, body = 200, ""

    def do_GET(self) -> None:
        self._answer(200, ServedTools(tools=(ODD,)).model_dump_json())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(self.code, self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, code: int, body: str) -> None:
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(scope="module")
def box() -> Iterator[Toolbox]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Nonsense)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Toolbox(
        served_tools(
            f"http://127.0.0.1:{server.server_port}", ToolCallSettings(retry=RetryPolicy(tries=3, first_seconds=0.1))
        )
    )
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (200, "<html>", "what is no result"),
        (200, json.dumps({"tool": "odd", "status": "ok", "pictures": [{"name": "a", "png": "AAAA"}]}), "no result"),
        (302, "", "answered 302"),
        (409, "<html>", "no words of the protocol"),
        (409, json.dumps({"error": "missing_media", "message": "", "missing": ["f" * 64]}), "did not name: ffff"),
    ],
)
def test_an_answer_of_another_kind_loses_the_call(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch, code: int, body: str, says: str
) -> None:
    monkeypatch.setattr(_Nonsense, "code", code)
    monkeypatch.setattr(_Nonsense, "body", body)
    result = box.call("odd", {}, ToolContext({"scene": Image.new("RGB", (4, 4))}))
    assert result.status is Status.LOST
    assert result.problem is not None
    assert says in result.problem.detail


@pytest.mark.parametrize("value", ["\ud800", float("nan"), {1, 2}])
def test_arguments_that_no_json_can_hold_are_the_models(box: Toolbox, value: object) -> None:
    result = box.call("odd", {"a": value}, ToolContext({}))
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT
