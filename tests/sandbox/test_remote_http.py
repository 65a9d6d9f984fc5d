"""Limits of time that leave out what this process itself is late for."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable

import httpx
import pytest

from saccade import errors
from saccade.core.retry import RetryPolicy
from saccade.sandbox import remote as patience_module
from saccade.sandbox import remote_wire
from saccade.sandbox.remote import Http, HttpReply, patience


async def test_what_never_comes_ends() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with patience(0.05):
            await asyncio.sleep(1000)
    assert time.monotonic() - began >= 0.05


async def test_a_loop_that_is_late_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer takes ten turns of the loop, and each turn is as long as half of the limit."""
    monkeypatch.setattr(patience_module, "TICK_SECONDS", 0.01)
    busy = True

    async def hold_up() -> None:
        while busy:
            time.sleep(0.1)
            await asyncio.sleep(0)

    task = asyncio.create_task(hold_up())
    async with patience(0.2):
        for _ in range(8):
            await asyncio.sleep(0)
    busy = False
    await task


async def test_a_sign_of_life_renews_it() -> None:
    async with patience(0.3) as renew:
        for _ in range(5):
            await asyncio.sleep(0.1)
            renew()


async def test_another_timeout_inside_is_its_own() -> None:
    async with patience(1000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(1000)


Answer = httpx.Response | Exception
BROKEN = 502

QUICK = RetryPolicy(tries=3, first_seconds=0)


def answer(code: int, kind: object = None, message: object = "so it is") -> httpx.Response:
    return httpx.Response(code, content=json.dumps({"error": kind, "message": message}) if kind else b"text")


async def asked(answers: Iterable[Answer], **how: int) -> tuple[HttpReply, list[httpx.Request]]:
    """What a request gives where the server gives these answers, and the requests that it got."""
    left, got = iter(answers), list[httpx.Request]()

    def server(request: httpx.Request) -> httpx.Response:
        got.append(request)
        said = next(left)
        if isinstance(said, Exception):
            raise said
        return said

    http = Http("http://box:1", "token", retry=QUICK, transport=httpx.MockTransport(server))
    try:
        reply = await http.request("PUT", "/x", b"body", **how)
    finally:
        await http.close()
    assert next(left, None) is None, "asked for less than it was given"
    return reply, got


@pytest.mark.parametrize("code", [200, 204, 299])
async def test_an_answer_comes_back(code: int) -> None:
    reply, [request] = await asked([answer(code)])
    assert (reply.code, reply.body) == (code, b"text")
    assert (request.method, request.url.path, request.content) == ("PUT", "/x", b"body")
    assert request.headers["authorization"] == "Bearer token"
    assert request.headers["content-type"] == remote_wire.MEDIA_TYPE


async def test_pictures_that_the_server_lacks_are_no_failure() -> None:
    reply, _ = await asked([answer(409, "missing_media")])
    assert (reply.code, reply.json()["error"]) == (409, "missing_media")


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("kind", [None, "settings"])
async def test_a_refused_token_is_said_with_the_way_out(code: int, kind: str | None) -> None:
    with pytest.raises(
        errors.SandboxError, match=r"http://box:1 refuses the token\. Pass token=.*SACCADE_SANDBOX_TOKEN"
    ):
        await asked([answer(code, kind)])


@pytest.mark.parametrize("code", [300, 400, 402, 404])
async def test_what_no_server_of_ours_answers(code: int) -> None:
    for strange in (answer(code), answer(code, 7), answer(code, "settings", 7), httpx.Response(code, content=b"[]")):
        with pytest.raises(errors.ProtocolError, match=f"http://box:1 answers HTTP {code} as no"):
            await asked([strange])


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("settings", errors.SettingsError),
        ("media", errors.MediaError),
        ("too_large", errors.TooLargeError),
        ("isolation", errors.IsolationError),
        ("protocol", errors.ProtocolError),
        ("full", errors.SandboxFullError),
        ("sandbox", errors.SandboxError),
        ("of a later version", errors.SandboxError),
        *((kind, errors.SandboxLostError) for kind in ("lost", "unknown_session", "gone", "conflict", "cancelled")),
    ],
)
@pytest.mark.parametrize("code", [400, 503])
async def test_a_failure_that_is_stated_is_raised_as_what_it_is_at_once(
    kind: str, error: type[Exception], code: int
) -> None:
    with pytest.raises(error, match=r"^so it is$") as raised:
        await asked([answer(code, kind)])
    assert type(raised.value) is error


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_an_outage_is_tried_again_and_then_lost(code: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reply, got = await asked([answer(code), answer(code), answer(200)])
    assert (reply.code, len(got)) == (200, 3)
    waits = [line.getMessage() for line in caplog.records if "Trying again" in line.getMessage()]
    assert waits == [f"http://box:1: HTTP {code}. Trying again in 0.0 s ({number} of 3)." for number in (2, 3)]
    with pytest.raises(errors.SandboxLostError, match=rf"cannot be used: .*HTTP {code}\. Tried 3 times"):
        await asked([answer(code)] * 3)
    with pytest.raises(errors.SandboxLostError, match=rf"HTTP {code}\. Tried 2 times"):
        await asked([answer(code)] * 2, tries=2)


@pytest.mark.parametrize(("said", "problem"), [("no way", "no way"), ("", "ConnectError")])
async def test_a_connection_that_fails_is_named(said: str, problem: str) -> None:
    assert (await asked([httpx.ConnectError(said), answer(200)]))[0].code == 200
    with pytest.raises(errors.SandboxLostError, match=f"{problem}. Tried 3 times"):
        await asked([httpx.ConnectError(said)] * 3)


async def test_a_server_that_still_works_is_asked_as_long_as_it_says_so() -> None:
    works = answer(remote_wire.WORKING)
    reply, got = await asked([answer(BROKEN), works, works, answer(BROKEN), answer(BROKEN), answer(200)])
    assert (reply.code, len(got)) == (200, 6)


async def test_a_server_that_is_silent_is_given_up_when_time_is_up() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    http = Http("http://box:1", None, transport=httpx.MockTransport(silent))
    with pytest.raises(errors.SandboxLostError, match=r"No answer within 0 s\."):
        await http.request("GET", "/", seconds=0.05)
    await http.close()
