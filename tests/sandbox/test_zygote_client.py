"""The host's side of the zygote, with an interpreter that hands its end of the socket to the test and waits."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxError, SandboxLostError
from saccade.guest import wire
from saccade.sandbox.zygote_client import OrderRefusedError, ZygoteClient

pytestmark = linux_only

HANDS_OVER = """#!{python} -S
import socket, sys
control = socket.socket(fileno=int(sys.argv[-2]))
there = socket.socket(socket.AF_UNIX)
there.connect({place!r})
socket.send_fds(there, [b"x"], [control.fileno()])
control.close()
there.recv(1)
"""
"""The script ends when the test closes the connection."""


def interpreter(folder: Path, text: str, **names: str) -> str:
    file = folder / "python"
    file.write_text(text.format(python=sys.executable, **names))
    file.chmod(0o755)
    return str(file)


class Played:
    """A client, and the zygote's end of its socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.lost: list[str] = []
        self.client = ZygoteClient(lambda session, message: self.events.append((session, message)), self.lost.append)
        self.end: socket.socket

    async def start(self) -> None:
        place = str(self.folder / "place")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen()
            python = interpreter(self.folder, HANDS_OVER, place=place)
            starting = asyncio.create_task(self.client.start(python, {"a": 1}, self.folder / "cache"))
            self.process, _ = await asyncio.to_thread(listener.accept)
        _, [fd], _, _ = await asyncio.to_thread(socket.recv_fds, self.process, 1, 1)
        self.end = socket.socket(fileno=fd)
        self.end.settimeout(60)
        wire.send(self.end, {"op": "hello", "layers": []})
        await starting

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        received = wire.receive(self.end)
        assert received is not None
        return received

    def say(self, op: str, session: int = 1, fds: tuple[int, ...] = (), **more: Any) -> None:
        wire.send(self.end, {"op": op, "id": session, **more}, fds)

    async def close(self) -> None:
        self.end.close()
        self.process.close()
        await self.client.close()


@pytest_asyncio.fixture
async def played(tmp_path: Path) -> AsyncIterator[Played]:
    opened = Played(tmp_path)
    await opened.start()
    yield opened
    await opened.close()


async def settled() -> None:
    """Until what has been said is heard: the loop has looked at its sockets."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_start_makes_the_folder_gives_the_settings_and_waits_for_hello(played: Played, tmp_path: Path) -> None:
    assert played.hear() == ({"a": 1}, [])
    assert (tmp_path / "cache").is_dir()
    assert played.client.hello == {"op": "hello", "layers": []}
    assert played.client.alive


async def test_what_nobody_asked_for_is_closed_or_ends_its_session(played: Played) -> None:
    reader, writer = os.pipe()
    played.say("leaf", 1, (writer,))
    os.close(writer)
    given_up = played.client.ask("call", 2)
    given_up.cancel()
    played.say("failed", 2, of="call", error="too late")
    played.say("failed", 3, of="open", error="out of order")
    played.say("died", 4, code=9)
    await settled()
    assert os.read(reader, 1) == b"", "nobody holds the other end any more"
    os.close(reader)
    assert played.events == [
        (3, {"op": "ended", "id": 3, "of": "open", "error": "out of order"}),
        (4, {"op": "died", "id": 4, "code": 9}),
    ]


async def test_the_end_of_a_session_is_an_answer_to_all_that_was_asked_of_it(played: Played) -> None:
    gone = [played.client.ask(op, 1) for op in ("leaf", "leaf", "call")]
    other = played.client.ask("leaf", 2)
    played.say("ended", 1, code=-9)
    played.say("leaf", 2)
    for answer in gone:
        with pytest.raises(OrderRefusedError, match="the session's processes have ended"):
            await answer
    assert (await other)[0]["id"] == 2
    assert played.events == [(1, {"op": "ended", "id": 1, "code": -9})]


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_without_its_zygote_whoever_waits_hears_it_and_nothing_stays_open(how: str, played: Played) -> None:
    played.hear()
    reader, writer = os.pipe()
    waits = played.client.ask("leaf", 1)
    for _ in range(1000):  # more than fits into the socket
        played.client.tell("leaf", 1, (writer,), filler="x" * 1000)
    os.close(writer)
    played.end.close()
    if how == "closed":
        played.process.close()
        await played.client.close()
    with pytest.raises(SandboxLostError, match="the state of its sessions is gone"):
        await waits
    with pytest.raises(SandboxLostError, match="open a new session"):
        played.client.tell("call", 1)
    [said] = played.lost
    assert {"closed": "the sandbox was closed", "killed": "have died"}[how] in said
    assert not played.client.alive
    assert os.read(reader, 1) == b"", "what was to be sent is closed, too"
    os.close(reader)
    played.process.close()
    await played.client.close()
    assert len(played.lost) == 1, "once"


async def test_whoever_asks_a_zygote_that_is_gone_hears_of_it_at_once(tmp_path: Path) -> None:
    with pytest.raises(SandboxLostError, match="have died; open a new session"):
        await asyncio.wait_for(Played(tmp_path).client.ask("close", 1), 10)


async def test_orders_that_do_not_fit_into_the_socket_go_out_in_their_order(played: Played) -> None:
    played.hear()
    for number in range(1000):
        played.client.tell("leaf", number, filler="x" * 2000)
    heard = []
    while len(heard) < 1000:
        heard.append(played.hear()[0]["id"])
        await settled()
    assert heard == list(range(1000))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("  Traceback\nOSError: no\n", "Traceback\nOSError: no"),
        ("x" * 200_000 + "y" * 1991 + "the end.\n", "y{1991}the end[.]"),
        ("", "no answer"),
    ],
)
async def test_a_zygote_that_does_not_start_has_its_last_words_told(said: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "words").write_text(said)
    python = interpreter(tmp_path, "#!/bin/sh\ncat {words} >&2\n", words=str(tmp_path / "words"))
    client = ZygoteClient(lambda *_: None, lambda _: None)
    with pytest.raises(SandboxError, match=rf"did not start: {message}\. Run `saccade doctor`"):
        await client.start(python, {}, tmp_path)
    assert not client.alive


async def test_what_of_the_hosts_environment_reaches_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "host's LANG")
    for name in ("PYTHONPATH", "API_KEY", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, f"host's {name}")
    tells = "#!{python} -S\nimport json, os, sys\njson.dump([os.getcwd(), dict(os.environ)], sys.stderr)\n"
    client = ZygoteClient(lambda *_: None, lambda _: None)
    with pytest.raises(SandboxError, match="did not start") as caught:
        await client.start(interpreter(tmp_path, tells), {}, tmp_path)
    text = str(caught.value)
    folder, seen = json.loads(text[text.index("[") : text.rindex("]") + 1])
    assert folder == "/"
    assert (seen["LANG"], seen["OMP_NUM_THREADS"]) == ("host's LANG", "1")
    assert not {"PYTHONPATH", "API_KEY"} & set(seen)
    assert (seen["HOME"], seen["MPLCONFIGDIR"], seen["PYTHONHASHSEED"]) == ("/workspace", str(tmp_path), "0")
