"""What a server's answers over HTTP mean: its own words, which failures are outages, and what is no address."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from saccade.core.http import CONNECT_SECONDS
from saccade.core.retry import Clock, RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError
from saccade.training.rl.engines.server_http import Connection, engine_address


def connection(*answers: httpx.Response, tries: int = 1, waits: list[float] | None = None) -> Connection:
    """To a server that gives these answers, one after the other."""
    left = list(answers)

    async def sleep(seconds: float) -> None:
        (waits if waits is not None else []).append(seconds)

    way = httpx.MockTransport(lambda request: left.pop(0))
    return Connection("http://engine:1/v1/", retry=RetryPolicy(tries=tries), clock=Clock(sleep=sleep), transport=way)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"json": {"error": {"message": "no such model.", "code": 404}}}, "no such model"),
        ({"json": {"error": "no model"}}, "no model"),
        ({"json": {"message": " no model "}}, "no model"),
        ({"json": {"detail": [{"loc": ["body"]}]}}, '[{"loc": ["body"]}]'),
        ({"json": {"error": {}, "message": "more"}}, '{"error": {}, "message": "more"}'),
        ({"json": {"code": 7}}, '{"code": 7}'),
        ({"json": ["a", 1]}, '["a", 1]'),
        ({"text": "<html>no.</html>"}, "<html>no.</html>"),
        ({"text": "x" * 401}, "x" * 400),
        ({"text": ""}, "no reason given"),
    ],
)
async def test_a_refusal_is_in_the_servers_own_words(answer: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelRefusedError) as caught:
        await connection(httpx.Response(404, **answer)).get("/a")
    assert str(caught.value) == f"http://engine:1/a refused (404): {words}."


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
async def test_an_outage_is_waited_out_as_long_as_the_server_asks(status: int) -> None:
    waits: list[float] = []
    busy = httpx.Response(status, text="busy", headers={"retry-after": "7"})
    assert await connection(busy, httpx.Response(200, json={"a": 1}), tries=2, waits=waits).post("/a", {}) == {"a": 1}
    assert waits == [7.0]
    with pytest.raises(ModelLostError, match=rf"http://engine:1/a failed \({status}\): busy\. Tried 1 time;"):
        await connection(busy).get("/a")


@pytest.mark.parametrize("status", [301, 400, 404, 409, 424, 426, 430, 499])
async def test_what_no_retry_can_help_is_refused_at_once(status: int) -> None:
    with pytest.raises(ModelRefusedError, match=f"refused .{status}.: no reason given"):
        await connection(httpx.Response(status), tries=2).get("/a")


async def test_an_empty_answer_is_none_and_one_that_is_no_json_an_outage() -> None:
    assert await connection(httpx.Response(204)).post("/a") is None
    with pytest.raises(ModelLostError, match="http://engine:1/a sent an answer that is not JSON"):
        await connection(httpx.Response(200, text="<html>")).get("/a")


async def test_a_request_may_take_long_but_a_connection_may_not() -> None:
    way = connection()
    assert way._server._client.timeout == httpx.Timeout(None, connect=CONNECT_SECONDS)
    await way.close()


def test_the_address_of_an_engine_needs_no_v1_and_takes_no_key() -> None:
    assert engine_address("https://engine:8000/v1") == "https://engine:8000"
    with pytest.raises(SettingsError, match=r"the engine's address 'engine' must .* SACCADE_ENGINE_API_KEY"):
        engine_address("http://me:key@engine:1")
