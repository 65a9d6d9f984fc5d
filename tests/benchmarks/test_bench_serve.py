"""The benchmark of a server does its work and says so; no figure is judged here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.plugins.serve.agents import serving
from tests.sandbox.providers import linux_only

from benchmarks import serve as measured
from benchmarks.__main__ import app
from benchmarks.serve import ServeScale
from saccade.cli.main import run
from saccade.errors import SandboxError
from saccade.models.scripted import ScriptedModel
from saccade.sandbox.scripted import ScriptedSandbox


@linux_only
@pytest.mark.slow
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "QUICK_SERVE", ServeScale(at_once=4, requests=8, code_requests=8, memory_requests=16))
    file = tmp_path / "serve.json"
    assert run(app, ["serve", "--quick", "--out", str(file)], "benchmarks") == 0
    bare, waiting, busy, memory, code = json.loads(file.read_text())["figures"]
    assert 0 < bare["value"] <= bare["other"] == 80
    assert 0 < waiting["value"] <= waiting["other"] == 80
    assert busy["value"] >= 0
    assert round(busy["other"], 2) == 13.89  # one core for 90 % of 80 a second
    assert memory["other"] > 0
    assert 0 < code["value"] <= 40
    assert 0 < code["other"] <= 40


async def test_a_refused_request_is_no_figure() -> None:
    model = ScriptedModel(lambda messages: "<answer>2</answer>", name="bench")
    async with serving({"bench": model}, sandbox=ScriptedSandbox([])) as url:
        with pytest.raises(SandboxError, match="refused"):  # no token is shown
            await measured._load(url.removesuffix("/v1") + measured.ASK, {}, 1, 1, 0.0)


async def test_another_answer_and_a_server_that_goes_are_no_figure() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"choices": [{"message": {"content": "3"}}]}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:9])
        await writer.drain()
        writer.write(body[9:])
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(SandboxError, match="answered with"):
            await measured._load(url, {}, 1, 1, 0.0)
        with pytest.raises(SandboxError, match="closed a connection"):
            await measured._load(url, {}, 2, 1, 0.0)
