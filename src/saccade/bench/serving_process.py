"""The server that `saccade bench serve` measures: a real one, with a model that answers after a fixed time."""

from __future__ import annotations

import asyncio
import json
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
from saccade.serve.asgi import AsgiApp, Receive, Scope, Send, send_json

PAUSE: Final = "/pause"
"""An address that waits as long as the model and answers: what HTTP costs without an agent."""


class TimedModel:
    """Answers after a fixed time; with code, its first turn of an episode calls it."""

    name = "bench"

    def __init__(self, dialect: str) -> None:
        spoken = load_dialect(dialect)
        self._answer = spoken.write(Answer(text="2"))
        self._code = spoken.write(Code(code=CODE)) if dialect == WITH_CODE else None
        self._said: dict[bool, Completion] = {}
        """What is said first and what then, which is the same for every request."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next text, `SECONDS` later."""
        await asyncio.sleep(SECONDS)
        first = not any(message.role == "assistant" for message in request.messages)
        if first not in self._said:
            self._said[first] = speak(self._code if self._code and first else self._answer, request, self.name)
        return self._said[first]

    async def close(self) -> None:
        """Holds nothing that needs closing."""


def _with_pause(application: AsgiApp) -> AsgiApp:
    body = json.dumps({"choices": [{"message": {"content": "2"}}]}).encode()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PAUSE:
            return await application(scope, receive, send)
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(SECONDS)
        await send_json(send, body)

    return served


def served_app(dialect: str, at_once: int) -> AsgiApp:
    """The application of `saccade serve` over such a model, without a token, with `PAUSE` beside it."""
    base = AskSettings(model="bench", dialect=dialect)
    pool = AgentPool({"bench": TimedModel(dialect)}, base, AgentServeSettings(max_requests=at_once))
    return _with_pause(agent_app(pool, token=None, only_local=True))
