"""The server that `saccade bench serve` measures: a real one, with a model that answers after a fixed time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Final

from saccade.bench.evaluation import CODE, SECONDS, WITH_CODE
from saccade.dialects.registry import load_dialect
from saccade.episode.asking import AskSettings
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import speak
from saccade.record.action import Answer, Code
from saccade.serve.agent_app import agent_app
from saccade.serve.agent_request import AgentServeSettings
from saccade.serve.agents import AgentPool
from saccade.serve.bearer import AsgiApp, Receive, Scope, Send

PAUSE: Final = "/pause"
"""An address that waits as long as the model and answers: what HTTP costs without an agent."""


class TimedModel:
    """Answers after a fixed time; with code, its first turn of an episode calls it."""

    name = "bench"

    def __init__(self, dialect: str) -> None:
        spoken = load_dialect(dialect)
        self._answer = spoken.write(Answer(text="2"))
        self._code = spoken.write(Code(code=CODE)) if dialect == WITH_CODE else None

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next text, `SECONDS` later."""
        await asyncio.sleep(SECONDS)
        first = not any(message.role == "assistant" for message in request.messages)
        return speak(self._code if self._code and first else self._answer, request, self.name)

    async def close(self) -> None:
        """Holds nothing that needs closing."""


def _with_pause(application: AsgiApp) -> AsgiApp:
    body = json.dumps({"choices": [{"message": {"content": "2"}}]}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PAUSE:
            return await application(scope, receive, send)
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(SECONDS)
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    return served


def main(dialect: str, at_once: int) -> None:
    """Serve until the process is ended; the address is the one line that is printed."""
    import sys

    import uvicorn

    base = AskSettings(model="bench", dialect=dialect)
    pool = AgentPool({"bench": TimedModel(dialect)}, base, AgentServeSettings(max_requests=at_once))
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    application = _with_pause(agent_app(pool, token=None, only_local=True))
    config = uvicorn.Config(application, log_level="warning", access_log=False, ws="none")
    uvicorn.Server(config).run(sockets=[listening])
