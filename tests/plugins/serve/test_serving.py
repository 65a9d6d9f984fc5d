"""The server's own duties: the token, bounds, idle sessions, hostile requests, a clean end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.plugins.serve.fakes import TOKEN, FakeSandbox, serving

from saccade.errors import SandboxError, SettingsError
from saccade.plugins.serve.sandbox_app import sandbox_app
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.remote import RemoteSandbox
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
