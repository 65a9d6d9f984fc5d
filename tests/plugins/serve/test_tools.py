"""Tools behind a real HTTP server: the same results as here, uploads once, limits, outages, back-pressure, metrics."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from tests.episode.support import stored_task
from tests.plugins.serve.tool_server import SETTINGS, TOKEN, Heard, tool_server
from tests.tools.tricky import HERE

from saccade.core.retry import RetryPolicy
from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.errors import SettingsError, ToolError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.plugins.verl import local_ray, ray_serve
from saccade.plugins.verl.ray_serve import serve_on_ray
from saccade.record.content import Answer, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import StopReason
from saccade.tools.context import Numbering, ProblemKind, ToolContext, ToolResult
from saccade.tools.definition import Cost
from saccade.tools.registry import make_tool
from saccade.tools.served_wire import MediaKind, ServedCall, ServedDefinition, ServedMedium, ServedRefusal, ServedTools
from saccade.tools.serving import HeldMedia, PooledBackend, ToolServeSettings, ToolService, tools_app
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox, served_tools

EMPTY = ToolContext({})


Served = tuple[str, Heard, PooledBackend]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tool_server() as up:
        yield up


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACCADE_TOOLS_TOKEN", TOKEN)


def box(url: str, **settings: object) -> Toolbox:
    return Toolbox(served_tools(url, ToolCallSettings.model_validate(settings)))


def test_results_are_those_of_the_tool_itself_and_a_picture_is_uploaded_once(served: Served, tmp_path: Path) -> None:
    url, heard, _ = served
    store = MediaStore(tmp_path)
    image = Image.effect_noise((90, 60), 80).convert("RGB")
    context = ToolContext({"scene": store.open(store.put_image(image))}, numbering=Numbering("image_", 1))
    tools, here = box(url), Toolbox([make_tool("crop"), make_tool("color_stats")])
    assert {tool.name for tool in tools.definitions} == {"crop", "color_stats", "tricky"}
    assert tools.definitions[0].parameters == here.definitions[0].parameters
    before = heard.requests["PUT media"]
    for name, arguments in (
        ("crop", {"box": [10, 10, 40, 30], "scale": 2}),
        ("zoom_in", {"bbox_2d": [0, 0, 50, 50]}),
        ("crop", {"bx": 1}),
        ("color_stats", {"image": "scene", "task": "the colours"}),
        ("crop", {"image": "other", "box": [0, 0, 9, 9]}),
        ("corp", {}),
    ):
        there, expected = tools.call(name, arguments, context), here.call(name, arguments, context)
        assert (there.status, there.value, there.problem and there.problem.kind) == (
            expected.status,
            expected.value,
            expected.problem and expected.problem.kind,
        )
        if name != "corp":
            assert there.text == expected.text
        assert [item.name for item in there.pictures] == [item.name for item in expected.pictures]
        for one, two in zip(there.pictures, expected.pictures, strict=True):
            assert one.image.tobytes() == two.image.tobytes()
    assert heard.requests["PUT media"] == before + 1
    with pytest.raises(ToolError, match="has no tool ocr"):
        served_tools(f"{url}#crop,ocr", ToolCallSettings())
    assert [tool.name for tool in served_tools(f"{url}#crop", ToolCallSettings())] == ["crop"]


async def test_a_picture_that_somebody_sent_as_a_video_can_be_looked_at() -> None:
    out = io.BytesIO()
    Image.new("RGB", (9, 7), "blue").save(out, "PNG")
    name = sha256(out.getvalue()).hexdigest()
    held = HeldMedia(10_000)
    kinds: tuple[MediaKind, ...] = ("video", "image")
    for kind in kinds:
        await held.put(kind, name, out.getvalue())
    medium = ServedMedium(name="scene", kind="image", sha256=name)
    seen = held.context(ServedCall(arguments={}, media=(medium,), seconds=1))
    assert (seen.image("scene").size, held.bytes) == ((9, 7), len(out.getvalue()))
    held.close()


def test_the_time_limit_of_the_host_holds_and_a_crash_is_typed(served: Served) -> None:
    url, _, _ = served
    hung = box(url, seconds=0.4).call("tricky", {"seconds": 60}, EMPTY)
    assert hung.status is Status.TIMEOUT
    assert "0.4 s" in hung.text
    assert box(url).call("tricky", {"do": "crash"}, EMPTY).status is Status.KILLED


def test_an_outage_is_waited_for_and_then_lost(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    url, heard, _ = served
    tools = box(url, retry={"tries": 9, "first_seconds": 0.01})
    heard.failing = 8
    assert tools.call("tricky", {}, EMPTY).ok
    lost = box(url, retry={"tries": 2, "first_seconds": 0.01}).call("tricky", {"do": "die"}, EMPTY)
    assert (lost.status, lost.text) == (Status.LOST, "")
    assert lost.problem is not None
    assert "SIGKILL" in lost.problem.detail
    with tool_server() as (other, _, _):
        gone = box(other, retry={"tries": 2, "first_seconds": 0.01})
    assert gone.call("tricky", {}, EMPTY).status is Status.LOST
    with pytest.raises(UnavailableError, match="cannot be used"):
        served_tools(other, ToolCallSettings())
    monkeypatch.setenv("SACCADE_TOOLS_TOKEN", "wrong" * 5)
    with pytest.raises(UnavailableError, match="another token"):
        served_tools(url, ToolCallSettings())


async def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    settings = {"server": {"max_waiting": 2}, "groups": {"one": {"tools": (HERE,), "workers": 1}}}
    with tool_server(ToolServeSettings.model_validate(settings)) as (url, heard, _):
        tools = await asyncio.to_thread(box, url)
        calls = [tools.call_async("tricky", {"seconds": 0.05}, EMPTY) for _ in range(8)]
        results = await asyncio.gather(*calls)
        assert all(result.ok for result in results)
        assert heard.requests["POST tools"] > 8  # some were told to come again
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as client:
            assert 'end="429"' in (await client.get(f"{url}/v1/metrics")).text


async def test_health_metrics_and_what_breaks_the_wire(served: Served) -> None:
    url, _, _ = served
    async with httpx.AsyncClient() as nobody:
        assert (await nobody.get(f"{url}/v1/health")).json() == {"status": "alive"}
        for path in ("tools", "metrics"):
            assert (await nobody.get(f"{url}/v1/{path}")).status_code == 401
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as client:
        text = (await client.get(f"{url}/v1/metrics")).text
        assert 'saccade_tool_calls_total{tool="crop",end="ok"}' in text
        assert 'saccade_tool_batches_total{group="light"}' in text
        assert 'saccade_tool_worker_restarts_total{group="tricky"}' in text
        ok = {"arguments": {}, "seconds": 5}
        missing = {**ok, "media": [{"name": "a", "kind": "image", "sha256": "0" * 64}]}
        for name, body, code in (
            ("crop", {"arguments": {}}, 422),
            ("crop", {**ok, "alias": "say"}, 422),
            ("nothing", ok, 404),
            ("crop", missing, 409),
            ("crop", {**ok, "seconds": 0}, 422),
        ):
            assert (await client.post(f"{url}/v1/tools/{name}/calls", json=body)).status_code == code, body
        for path, data in (("0" * 64, b"x"), ("zz", b"x")):
            assert (await client.put(f"{url}/v1/media/image/{path}", content=data)).status_code == 422


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://["}, 403),
        ({"host": "evil.example"}, 400),
    ],
)
async def test_without_a_token_no_page_of_another_site_calls_a_tool(headers: dict[str, str], status: int) -> None:
    settings = ToolServeSettings.model_validate({"groups": {"light": {"tools": ("crop",)}}})
    service = ToolService(PooledBackend(settings), settings.server)
    way = httpx.ASGITransport(tools_app(service, None))
    async with httpx.AsyncClient(transport=way, base_url="http://127.0.0.1:1", headers=headers) as page:
        answer = await page.get("/v1/tools")
        assert answer.status_code == status
        assert "host" not in headers or ServedRefusal.model_validate_json(answer.content).error == "host"
    await service.close()


async def test_a_client_that_goes_away_in_its_request_is_no_fault() -> None:
    settings = ToolServeSettings.model_validate({"groups": {"light": {"tools": ("crop",)}}})
    service = ToolService(PooledBackend(settings), settings.server)
    heard = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    said: list[Any] = []

    async def receive() -> Any:
        return next(heard)

    async def send(message: Any) -> None:
        said.append(message)

    path = "/v1/tools/crop/calls"
    about = {"path": path, "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"localhost")]}
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": "", **about}
    await tools_app(service, None)(scope, receive, send)
    assert said[0]["status"] == 499
    await service.close()


async def test_an_episode_with_served_tools_and_one_whose_server_is_gone(served: Served, tmp_path: Path) -> None:
    url, _, _ = served
    store = MediaStore(tmp_path)
    calls = ToolCallSettings(retry=RetryPolicy(tries=2, first_seconds=0.1))
    dialect, tools = await asyncio.to_thread(equipped, load_dialect("vista"), [f"{url}#crop"], calls)
    call = dialect.write(ToolCall(name="crop", arguments={"box": [0, 0, 8, 8]}), "I look.")
    done = dialect.write(Answer(text="done"), "Seen.")
    plan = Plan(stored_task(store), dialect)
    played = await run_episode(plan, ScriptedModel([call, done]), None, store, tools=tools)
    assert played.answer == "done"
    assert played.turns[0].execution is not None
    assert len(played.turns[0].execution.pictures) == 1
    with tool_server() as (other, _, _):
        dialect, tools = await asyncio.to_thread(equipped, load_dialect("vista"), [f"{other}#crop"], calls)
    lost = await run_episode(plan, ScriptedModel([call, done]), None, store, tools=tools)
    assert (lost.stop, lost.lost) == (StopReason.TOOL_LOST, True)


@pytest.mark.parametrize(
    ("groups", "word"),
    [
        ({"a": {"tools": ("crop",)}, "b": {"tools": ("crop",)}}, "more than one group"),
        ({"a": {"tools": ("crop", "zoom_in")}}, "called crop"),
    ],
)
def test_groups_that_cannot_be(groups: dict[str, object], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        ToolServeSettings.model_validate({"groups": groups}).made()


def test_options_reach_the_tool_or_are_refused() -> None:
    settings = {"groups": {"a": {"tools": (HERE,)}}, "options": {HERE: {"weights": "nowhere"}}}
    with tool_server(ToolServeSettings.model_validate(settings)) as (url, _, _):
        result = box(url).call("tricky", {}, EMPTY)
    assert (result.status, result.problem and result.problem.kind) == (Status.REFUSED, ProblemKind.UNAVAILABLE)
    with pytest.raises(SettingsError, match="what no group has"):
        ToolServeSettings.model_validate({**settings, "options": {"ocr": {}}}).made()
    with pytest.raises(ToolError, match="options nothing"):
        ToolServeSettings.model_validate({**settings, "options": {HERE: {"nothing": 1}}}).made()


async def faults(calls: int, kills: int) -> list[ToolResult]:
    """Calls to a server whose workers are killed at random, which delays, and is away for a moment."""
    rng = random.Random(0)
    with tool_server() as (url, heard, backend):
        tools = await asyncio.to_thread(box, url, seconds=0.5, retry={"total_seconds": 20})

        async def one(number: int) -> ToolResult:
            await asyncio.sleep(rng.random() * calls / 40)
            do = "crash" if number % 25 == 7 else rng.choice(["answer", "answer", "raise"])
            return await tools.call_async("tricky", {"do": do, "seconds": 5.0 if number % 20 == 0 else 0.01}, EMPTY)

        asked = [asyncio.ensure_future(one(number)) for number in range(calls)]
        for _ in range(kills):
            await asyncio.sleep(calls / 40 / kills)
            heard.failing = rng.randrange(3)
            for pool in backend.pools():
                for pid in pool.pids():
                    os.kill(pid, signal.SIGKILL)
        return await asyncio.gather(*asked)


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "kills"), [(40, 2), (500, 30)])
async def test_every_call_beside_kills_and_outages_ends_typed(calls: int, kills: int) -> None:
    results = await faults(calls, kills)
    kinds = {result.status for result in results}
    assert {Status.OK, Status.ERROR} <= kinds
    assert kinds <= {Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT, Status.LOST}
    assert all((result.value is not None) is result.ok for result in results)
    assert SETTINGS.groups["tricky"].workers == 3


def test_ray_that_is_not_there_or_does_not_start_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match=r"pip install 'saccade-vlm\[tools-serve\]'"):
        serve_on_ray(SETTINGS, None, "127.0.0.1", 0, lambda where: None)
    monkeypatch.setattr(ray_serve, "_need_ray", lambda: None)
    monkeypatch.setattr(local_ray, "_PROGRAM", (sys.executable, "-c", "print('no room for Ray'); raise SystemExit(7)"))
    with pytest.raises(UnavailableError, match=r"Ray does not start: .* code 7\. .*no room for Ray"):
        serve_on_ray(SETTINGS, None, "127.0.0.1", 0, lambda where: None)


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
def nonsense_box() -> Iterator[Toolbox]:
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
    nonsense_box: Toolbox, monkeypatch: pytest.MonkeyPatch, code: int, body: str, says: str
) -> None:
    monkeypatch.setattr(_Nonsense, "code", code)
    monkeypatch.setattr(_Nonsense, "body", body)
    result = nonsense_box.call("odd", {}, ToolContext({"scene": Image.new("RGB", (4, 4))}))
    assert result.status is Status.LOST
    assert result.problem is not None
    assert says in result.problem.detail


@pytest.mark.parametrize("value", ["\ud800", float("nan"), {1, 2}])
def test_arguments_that_no_json_can_hold_are_the_models(nonsense_box: Toolbox, value: object) -> None:
    result = nonsense_box.call("odd", {"a": value}, ToolContext({}))
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT
