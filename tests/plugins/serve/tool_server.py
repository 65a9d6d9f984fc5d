"""A real server of tools on a free port of this machine, in a thread, and what was sent to it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.prompt_uvicorn import prompt_server
from tests.tools.tricky import HERE

from saccade.tools.serving import PooledBackend, ToolServeSettings, ToolService, tools_app

TOKEN = "0123456789abcdef0123456789abcdef"
SETTINGS = ToolServeSettings.model_validate(
    {
        "groups": {
            "light": {"tools": ("crop", "color_stats")},
            "tricky": {"tools": (HERE,), "workers": 3, "seconds": 20.0},
        }
    }
)


class Heard:
    """An ASGI application in front of another: counts requests, and can be told to fail."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.requests: Counter[str] = Counter()
        self.failing = 0
        """So many requests are answered with 500."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.requests[f"{scope['method']} {scope['path'].split('/')[2]}"] += 1
            if self.failing:
                self.failing -= 1
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b"told to fail"})
                return
        await self.app(scope, receive, send)


@contextmanager
def tool_server(settings: ToolServeSettings = SETTINGS, port: int = 0) -> Iterator[tuple[str, Heard, PooledBackend]]:
    """Address, what it heard, and its backend."""
    backend = PooledBackend(settings)
    heard = Heard(tools_app(ToolService(backend, settings.server), TOKEN))
    server = prompt_server(heard, port=port, log_level="warning", ws="none")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", heard, backend
    finally:
        server.should_exit = True
        thread.join(20)
