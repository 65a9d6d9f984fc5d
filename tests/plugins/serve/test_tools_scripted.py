"""A server of tools that answers as it is told: how often a client asks, what it sends, what it says of an outage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from saccade.core.retry import RetryPolicy
from saccade.errors import MediaError, ToolError
from saccade.record.execution import Status
from saccade.tools.context import ToolContext, ToolResult
from saccade.tools.definition import Cost
from saccade.tools.served_wire import ServedDefinition, ServedTools
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import served_tools

ODD = ServedDefinition(name="odd", description="", parameters={}, returns={}, aliases=("strange",), cost=Cost.LIGHT)
DONE = json.dumps({"tool": "odd", "status": "ok", "value": {"a": 1}, "text": "done"})


class Heard(ThreadingHTTPServer):
    """Answers calls in turn, the last of them for ever; keeps what it heard."""

    calls: tuple[tuple[int, str], ...] = ((200, DONE),)
    puts: tuple[int, str] = (204, "")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[tuple[str, str, bytes]] = []
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Heard

    def do_GET(self) -> None:
        self._answer(200, ServedTools(tools=(ODD,)).model_dump_json())

    def do_PUT(self) -> None:
        self._answer(*self.server.puts)

    def do_POST(self) -> None:
        past = sum(method == "POST" for method, *_ in self.server.heard)
        self._answer(*self.server.calls[min(past, len(self.server.calls) - 1)])

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, code: int, body: str) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.heard.append((self.command, self.path, data))
        self.server.tokens.add(self.headers.get("authorization"))
        self.send_response(code)
        if code != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture
def server() -> Iterator[Heard]:
    heard = Heard()
    threading.Thread(target=heard.serve_forever, args=(0.01,), daemon=True).start()
    yield heard
    heard.shutdown()
    heard.server_close()


def call(server: Heard, context: ToolContext, arguments: object = None, tries: int = 1) -> ToolResult:
    (tool,) = served_tools(f"{server.url}/", ToolCallSettings(retry=RetryPolicy(tries=tries, first_seconds=0.01)))
    server.heard.clear()
    return tool.call(arguments or {}, context)


def lost(server: Heard, context: ToolContext) -> str:
    """What is said of a call that is lost."""
    result = call(server, context)
    assert (result.status, result.text) == (Status.LOST, "")
    assert result.problem is not None
    return result.problem.detail.replace(server.url, "URL")


def missing(*hashes: str) -> tuple[int, str]:
    return 409, json.dumps({"error": "missing_media", "message": "", "missing": hashes})


NOTHING = ToolContext({})
GIVEN_UP = "Tried 1 time; gave up. Try again later, or raise retry.tries."


def test_a_server_that_forgets_what_it_was_sent_is_sent_it_eight_times(server: Heard, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"frames" * 300_000)
    name = sha256(clip.read_bytes()).hexdigest()
    server.calls = (missing(name),)
    context = ToolContext({"scene": Image.new("RGB", (4, 3), "red")}, {"clip": clip})
    assert lost(server, context).startswith("URL forgets the pictures")
    assert [(method, path) for method, path, _ in server.heard] == [
        ("POST", "/v1/tools/odd/calls"), ("PUT", f"/v1/media/video/{name}"),
    ] * 8  # fmt: skip
    assert {data for method, _, data in server.heard if method == "PUT"} == {clip.read_bytes()}
    asked = json.loads(server.heard[0][2])
    assert [(item["name"], item["kind"]) for item in asked["media"]] == [("scene", "image"), ("clip", "video")]
    assert (asked["label"], asked["alias"], asked["seconds"]) == (None, None, 120.0)
    server.calls = (missing(asked["media"][0]["sha256"]), (200, DONE))
    done = call(server, context)
    assert (done.ok, done.value, done.text) == (True, {"a": 1}, "done")
    assert sha256(server.heard[1][2]).hexdigest() == asked["media"][0]["sha256"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((404, "x" * 400), "URL answered 404 " + "x" * 300),
        ((401, ""), "URL wants another token; set SACCADE_TOOLS_TOKEN to it."),
        ((429, "y" * 400), "URL: 429 " + "y" * 300 + " " + GIVEN_UP),
        ((500, "z" * 400), "URL: 500 " + "z" * 300 + " " + GIVEN_UP),
        ((200, json.dumps({"tool": "odd", "status": "lost"})), "URL:  " + GIVEN_UP),
        (
            (200, json.dumps({"tool": "odd", "status": "lost", "problem": {
                "kind": "tool_failure", "message": "", "detail": "its process ended"}})),
            "URL: its process ended " + GIVEN_UP,
        ),
        (missing(*["f" * 64] * 6), "URL asks for media that the call did not name: " + "f" * 64),
    ],
)  # fmt: skip
def test_what_is_said_of_a_call_that_is_lost(server: Heard, answer: tuple[int, str], says: str) -> None:
    server.calls = (answer,)
    assert lost(server, NOTHING) == says
    assert len(server.heard) == 1


def test_of_many_media_that_were_not_named_the_first_are_told(server: Heard) -> None:
    server.calls = (missing(*(f"{number:064}" for number in range(6))),)
    assert len(lost(server, NOTHING)) == len("URL asks for media that the call did not name: ") + 300


def test_a_picture_that_the_server_does_not_take_loses_the_call(server: Heard) -> None:
    context = ToolContext({"scene": Image.new("RGB", (4, 3))})
    call(server, context)
    server.calls = (missing(json.loads(server.heard[0][2])["media"][0]["sha256"]),)
    server.puts = (413, "w" * 400)
    assert lost(server, context) == "URL does not take a picture: 413 " + "w" * 300
    assert len(server.heard) == 2


def test_a_server_that_fails_is_asked_again_until_it_can(server: Heard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "saccade.core.retry")
    server.calls = ((500, ""), (429, ""), (200, DONE))
    assert call(server, NOTHING, tries=3).ok
    assert len(server.heard) == 3
    assert ["Trying again" in text for text in caplog.messages] == [True, True, False]


def test_an_image_that_cannot_be_read_loses_the_call_before_it_is_made(server: Heard) -> None:
    def broken() -> Image.Image:
        raise MediaError("its file is gone")

    assert lost(server, ToolContext({"scene": broken})) == "an image of the task cannot be read: its file is gone"
    assert server.heard == []


def test_the_words_on_what_no_json_can_hold_are_cut(server: Heard) -> None:
    result = call(server, NOTHING, {"a": type("N" * 400, (), {})()})
    assert (result.status, server.heard) == (Status.ERROR, [])
    assert result.problem is not None
    assert result.problem.detail == ("Object of type " + "N" * 400)[:300]


@pytest.mark.parametrize("token", [None, "secret"])
def test_the_token_is_sent_where_there_is_one(
    server: Heard, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    if token:
        monkeypatch.setenv("SACCADE_TOOLS_TOKEN", token)
    assert call(server, NOTHING).ok
    assert server.tokens == {f"Bearer {token}" if token else None}


def test_only_the_names_of_a_tool_are_called(server: Heard) -> None:
    (tool,) = served_tools(f"{server.url}#odd", ToolCallSettings())
    for name in (None, "odd", "strange"):
        assert tool.call({}, NOTHING, alias=name).ok
        assert json.loads(server.heard[-1][2])["alias"] == name
    with pytest.raises(ToolError, match="odd has no alias 'other'"):
        tool.call({}, NOTHING, alias="other")
