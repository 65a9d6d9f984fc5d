"""Which host a request may name where only this machine reaches a server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from saccade.core.web import OwnNames

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
