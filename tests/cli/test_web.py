"""Where the servers of the commands run."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import Any

import pytest

pytest.importorskip("uvloop")
from saccade.cli.web import serve_app
from saccade.errors import SettingsError


def test_a_server_runs_on_the_quick_loop(capfd: pytest.CaptureFixture[str]) -> None:
    loops = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)
        await send({"type": "lifespan.startup.failed", "message": "seen enough"})

    try:
        with pytest.raises(SystemExit):  # uvicorn's, for one that cannot start
            serve_app(application, "127.0.0.1", 0, "{url}")
    finally:
        gc.unfreeze()
    assert loops == ["uvloop"]
    assert "seen enough" in capfd.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_refused_in_one_line(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"nobody can be served at {host}:{port}: .*in use.* --port"):
            serve_app(None, host, port, "{url}")
