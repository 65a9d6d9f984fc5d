"""The server's own duties: the token, bounds, idle sessions, hostile requests, a clean end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.fake_sandboxes import TOKEN, FakeSandbox, serving

from saccade.cli.web import read_token
from saccade.core.web import OwnNames
from saccade.errors import SandboxError, SettingsError
from saccade.plugins.serve import cli
from saccade.plugins.serve.sandbox_app import sandbox_app
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.remote import TOKEN_VARIABLE, RemoteSandbox
from saccade.sandbox.remote_codec import RawPixels

RIGHT = {"authorization": f"Bearer {TOKEN}", "x-saccade-client": "0" * 32}


EMPTY = wire.pack({"bindings": {}, "files": [], "options": None})


@pytest.fixture
def fake() -> FakeSandbox:
    return FakeSandbox()


@pytest.fixture
async def http(fake: FakeSandbox) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(fake, max_sessions=3, max_body_bytes=1 << 20) as url:
        async with httpx.AsyncClient(base_url=url, headers=RIGHT, trust_env=False) as http:
            yield http


ELSEWHERE = [
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://["}, 403),
    ({"host": "evil.example"}, 400),
]
"""What a browser sends for a page of another site, or for one that took the name of this machine."""


def name() -> str:
    return secrets.token_hex(16)


def call(code: str) -> bytes:
    return wire.pack({"code": code, "wall_seconds": None, "bindings": {}})


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
async def test_every_route_but_health_needs_the_token(http: httpx.AsyncClient, header: str) -> None:
    for method, path in (
        ("GET", "/v1/about"),
        ("GET", "/v1/isolation"),
        ("PUT", f"/v1/media/{'0' * 64}"),
        ("PUT", f"/v1/lazy/{'0' * 64}"),
        ("PUT", f"/v1/sessions/{name()}"),
        ("DELETE", f"/v1/sessions/{name()}"),
        ("POST", f"/v1/sessions/{name()}/branches"),
        ("PUT", f"/v1/sessions/{name()}/runs/1"),
        ("DELETE", f"/v1/sessions/{name()}/runs/1"),
    ):
        assert (await http.request(method, path, headers={"authorization": header}, content=EMPTY)).status_code == 401
    health = await http.get("/v1/health", headers={"authorization": ""})
    assert health.json() == {"ok": True}
    for path in ("/docs", "/openapi.json", "/"):
        assert (await http.get(path)).status_code == 404


def test_an_empty_token_is_refused(fake: FakeSandbox) -> None:
    with pytest.raises(SettingsError, match="token"):
        sandbox_app(fake, token=" ")


async def test_without_a_token_nobody_is_asked(fake: FakeSandbox) -> None:
    async with serving(fake, token=None) as url:
        async with RemoteSandbox(url) as box:
            assert (await (await box.open()).run("print(1)")).ok
        async with httpx.AsyncClient(base_url=url, trust_env=False) as page:
            assert (await page.get("/v1/about")).status_code == 200
            for headers, status in ELSEWHERE:
                answer = await page.put(f"/v1/sessions/{name()}", content=EMPTY, headers=headers)
                assert answer.status_code == status, headers
            assert answer.json()["error"] == "host"
    assert fake.opened == 1


async def test_the_number_of_sessions_is_bounded(http: httpx.AsyncClient, fake: FakeSandbox) -> None:
    first = name()
    for session in (first, name(), name()):
        assert (await http.put(f"/v1/sessions/{session}", content=EMPTY)).status_code == 204
    assert (await http.put(f"/v1/sessions/{first}", content=EMPTY)).status_code == 204
    refused = await http.put(f"/v1/sessions/{name()}", content=EMPTY)
    assert (refused.status_code, refused.json()["error"]) == (429, "full")
    branches = await http.post(f"/v1/sessions/{first}/branches", content=wire.pack({"names": [name()]}))
    assert branches.status_code == 429
    assert len(fake.live) == 3
    async with RemoteSandbox(str(http.base_url), token=TOKEN) as box:
        with pytest.raises(SandboxError, match="max-sessions"):
            await box.open()
        await http.delete(f"/v1/sessions/{first}")
        await box.open()


async def test_a_closed_name_is_never_opened_again(http: httpx.AsyncClient, fake: FakeSandbox) -> None:
    session = name()
    assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
    assert (await http.put(f"/v1/sessions/{session}", content=EMPTY)).status_code == 410
    assert (await http.put(f"/v1/sessions/{session}/runs/1", content=call("1"))).status_code == 410
    assert (await http.put(f"/v1/sessions/{name()}/runs/1", content=call("1"))).status_code == 404
    assert not fake.live


async def test_a_name_stands_for_one_session(http: httpx.AsyncClient, fake: FakeSandbox) -> None:
    session = name()
    await asyncio.gather(*(http.put(f"/v1/sessions/{session}", content=EMPTY) for _ in range(5)))
    assert fake.opened == 1
    other = wire.pack({"bindings": {"a": {"value": 1}}, "files": [], "options": None})
    assert (await http.put(f"/v1/sessions/{session}", content=other)).status_code == 409


async def test_a_call_number_is_run_once_and_cancelled_for_good(http: httpx.AsyncClient, fake: FakeSandbox) -> None:
    session = f"/v1/sessions/{name()}"
    await http.put(session, content=EMPTY)
    answers = await asyncio.gather(*(http.put(f"{session}/runs/1", content=call("print(1)")) for _ in range(4)))
    assert len({answer.content for answer in answers}) == 1
    assert fake.runs == ["print(1)"]
    assert (await http.delete(f"{session}/runs/2")).status_code == 204
    assert (await http.put(f"{session}/runs/2", content=call("print(2)"))).json()["error"] == "cancelled"
    assert (await http.put(f"{session}/runs/1", content=call("print(1)"))).json()["error"] == "conflict"
    assert fake.runs == ["print(1)"]
    running = asyncio.create_task(http.put(f"{session}/runs/3", content=call("sleep")))
    while len(fake.runs) < 2:
        await asyncio.sleep(0.01)
    await http.delete(f"{session}/runs/3")
    assert (await running).json()["error"] == "cancelled"
    assert (await http.put(f"{session}/runs/4", content=call("print(4)"))).status_code == 200


async def test_a_client_that_disappears_leaks_nothing(fake: FakeSandbox) -> None:
    async with serving(fake, idle_seconds=0.2) as url:
        async with httpx.AsyncClient(base_url=url, headers=RIGHT, trust_env=False) as http:
            session = f"/v1/sessions/{name()}"
            await http.put(session, content=EMPTY)
            with pytest.raises(httpx.ReadTimeout):
                await http.put(f"{session}/runs/1", content=call("import time; time.sleep(1)"), timeout=0.1)
        assert fake.live
        for _ in range(200):
            if not fake.live:
                break
            await asyncio.sleep(0.02)
        assert not fake.live
        async with RemoteSandbox(url, token=TOKEN) as box:
            kept = await box.open()
            while fake.live:
                await asyncio.sleep(0.02)
            gone = await kept.run("print(1)")
            assert "not used" in str(gone.traceback)


async def test_the_end_of_the_server_ends_everything(fake: FakeSandbox) -> None:
    async with serving(fake) as url:
        async with httpx.AsyncClient(base_url=url, headers=RIGHT, trust_env=False) as http:
            session = f"/v1/sessions/{name()}"
            await http.put(session, content=EMPTY)
            running = asyncio.create_task(http.put(f"{session}/runs/1", content=call("sleep")))
            while not fake.runs:
                await asyncio.sleep(0.01)
            running.cancel()
    assert fake.closed
    assert not fake.live


async def test_a_large_body_is_refused(http: httpx.AsyncClient) -> None:
    big = wire.pack({"bindings": {}, "files": ["a"], "options": None}, [bytes(2 << 20)])
    refused = await http.put(f"/v1/sessions/{name()}", content=big)
    assert (refused.status_code, refused.json()["error"]) == (413, "too_large")


GOOD_PICTURE = RawPixels("L", 2, 2, b"abcd")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/sessions/short", EMPTY),
        ("PUT", f"/v1/sessions/{'G' * 32}", EMPTY),
        ("PUT", f"/v1/sessions/{'a' * 32}", b""),
        ("PUT", f"/v1/sessions/{'a' * 32}", b"garbage"),
        ("PUT", f"/v1/sessions/{'a' * 32}", wire.pack({})),
        ("PUT", f"/v1/sessions/{'a' * 32}", wire.pack({"bindings": [], "files": [], "options": None})),
        ("PUT", f"/v1/sessions/{'a' * 32}", wire.pack({"bindings": {}, "files": ["a"], "options": None})),
        ("PUT", f"/v1/sessions/{'a' * 32}", wire.pack({"bindings": {}, "files": [], "options": {"state": "x"}})),
        ("PUT", f"/v1/sessions/{'a' * 32}/runs/0", call("1")),
        ("PUT", f"/v1/sessions/{'a' * 32}/runs/-1", call("1")),
        ("PUT", f"/v1/sessions/{'a' * 32}/runs/x", call("1")),
        ("PUT", f"/v1/sessions/{'a' * 32}/runs/1", wire.pack({"code": 1, "wall_seconds": None, "bindings": {}})),
        ("POST", f"/v1/sessions/{'a' * 32}/branches", wire.pack({"names": ["x"]})),
        ("POST", f"/v1/sessions/{'a' * 32}/branches", wire.pack({"names": ["b" * 32, "b" * 32]})),
        ("PUT", f"/v1/media/{'0' * 64}", GOOD_PICTURE.png()),
        ("PUT", f"/v1/media/{GOOD_PICTURE.sha256()}", GOOD_PICTURE.png()[:45]),
        ("PUT", f"/v1/lazy/{'0' * 64}", wire.pack({"picture": 1})),
    ],
)
@pytest.mark.few(4)
async def test_nonsense_gets_a_4xx(
    http: httpx.AsyncClient, fake: FakeSandbox, method: str, path: str, body: bytes
) -> None:
    answer = await http.request(method, path, content=body)
    assert 400 <= answer.status_code < 500
    assert not fake.opened


async def test_a_picture_that_is_not_here_is_asked_for(http: httpx.AsyncClient) -> None:
    sha256 = GOOD_PICTURE.sha256()
    message = wire.pack({"bindings": {"im": {"picture": sha256}}, "files": [], "options": None})
    path = f"/v1/sessions/{name()}"
    assert (await http.put(path, content=message)).json()["missing"] == [sha256]
    assert (await http.put(f"/v1/media/{sha256}", content=GOOD_PICTURE.png())).status_code == 204
    assert (await http.put(path, content=message)).status_code == 204


async def test_other_clients_lazy_pictures_are_apart(http: httpx.AsyncClient, fake: FakeSandbox) -> None:
    spec = {"lazy": "c" * 64, "mode": "L", "width": 2, "height": 2}
    message = wire.pack({"bindings": {"im": spec}, "files": [], "options": None})
    session = f"/v1/sessions/{name()}"
    await http.put(session, content=message)
    looking = await http.put(f"{session}/runs/1", content=call("print(look('im').size)"))
    assert looking.json()["lazy"] == ["c" * 64]
    await http.put(f"/v1/media/{GOOD_PICTURE.sha256()}", content=GOOD_PICTURE.png())
    given = wire.pack({"picture": GOOD_PICTURE.sha256()})
    stranger = {"x-saccade-client": "1" * 32}
    assert (await http.put(f"/v1/lazy/{'c' * 64}", content=given, headers=stranger)).status_code == 204
    assert (await http.put(f"{session}/runs/1", content=call("print(look('im').size)"))).status_code == 409
    await http.put(f"/v1/lazy/{'c' * 64}", content=given)
    assert (await http.put(f"{session}/runs/1", content=call("print(look('im').size)"))).status_code == 200
    assert len(fake.runs) == 1


LOCAL = [b"127.0.0.1", b"127.0.0.1:8721", b"LocalHost:1", b"[::1]", b"[::1]:80"]


FOREIGN = [
    b"",
    b"evil.example",
    b"127.0.0.1.evil.example",
    b"127.0.0.1:80@evil.example",
    b"localhost:x",
    b"[::1",
    b"::1",
]


def answered(kind: str, *hosts: bytes) -> list[Any]:
    """What is sent for a request with these headers `Host`; `through` where the application is reached."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(*_: Any) -> None:
        sent.append("through")

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    scope = {"type": kind, "path": "/", "headers": [(b"host", host) for host in hosts]}
    asyncio.run(OwnNames(app, refusal=b"{}")(scope, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_own_names_are_let_through_and_all_others_refused(kind: str) -> None:
    for host in LOCAL:
        assert answered(kind, host) == ["through"], host
    for hosts in ([], *([host] for host in FOREIGN), [LOCAL[0], FOREIGN[1]], [FOREIGN[1], LOCAL[0]]):
        first = answered(kind, *hosts)[0]
        assert (first["type"], first.get("status", first.get("code"))) == (
            ("http.response.start", 400) if kind == "http" else ("websocket.close", 1008)
        ), hosts


def test_the_start_and_the_end_of_a_server_name_no_host() -> None:
    assert answered("lifespan") == ["through"]


SECRET_TOKEN = "0123456789abcdef0123456789abcdef"


read = partial(read_token, variable=TOKEN_VARIABLE)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_may_do_without_a_token(host: str) -> None:
    assert read(None, host, no_token=True) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_elsewhere_a_token_is_needed(host: str) -> None:
    with pytest.raises(SettingsError, match="loopback"):
        read(None, host, no_token=True)


def test_the_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET_TOKEN}\n")
    assert read(file, "0.0.0.0", no_token=False) == SECRET_TOKEN
    with pytest.raises(SettingsError, match="contradict"):
        read(file, "127.0.0.1", no_token=True)
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path / "nothing", "127.0.0.1", no_token=False)
    with pytest.raises(SettingsError, match="a token is needed"):
        read(None, "127.0.0.1", no_token=False)
    monkeypatch.setenv(TOKEN_VARIABLE, SECRET_TOKEN)
    assert read(None, "0.0.0.0", no_token=False) == SECRET_TOKEN


@pytest.mark.parametrize("token", ["short", "ü" * 20, "0123456789 0123456789", "0123456789\x0001234567"])
def test_a_weak_token_is_refused_without_showing_it(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read(file, "127.0.0.1", no_token=False)
    assert token not in str(caught.value)


def test_settings_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("[limits]\nwall_seconds = 3\n[serve]\nmax_sessions = 5\nidle_seconds = 9\n")
    limits, serving = cli.read_settings(file, {"max_sessions": 7, "idle_seconds": None})
    assert (limits.wall_seconds, serving.max_sessions, serving.idle_seconds) == (3.0, 7, 9.0)


@pytest.mark.parametrize(
    "text", ["[other]\n", "[limits]\nwal = 1\n", "[serve]\nmax_sessions = 0\n", "serve = 1\n", "["]
)
def test_a_wrong_settings_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        cli.read_settings(file, {})
    with pytest.raises(SettingsError):
        cli.read_settings(tmp_path / "nothing", {})


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")
async def test_a_served_sandbox_runs_code_and_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from saccade.cli.main import main; sys.exit(main())"]
    server = subprocess.Popen(
        [*command, "sandbox", "serve", "--port", "0"],
        env={**os.environ, TOKEN_VARIABLE: SECRET_TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        url = line.split()[2]
        async with RemoteSandbox(url, token=SECRET_TOKEN) as box:
            session = await box.open({"a": 20})
            result = await session.run("print(a + 1)")
            assert result.stdout == "21\n"
    finally:
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate(timeout=30)
    assert server.returncode in (0, 130), errors
    assert SECRET_TOKEN not in line + out + errors
    assert "Traceback" not in errors
