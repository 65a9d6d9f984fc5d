"""A server of agents in this process, for the official client: scripted models, and a sandbox that a test names."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI
from PIL import Image
from tests.prompt_uvicorn import prompt_server

from saccade.episode.ask import AskSettings
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.scripted import Script, ScriptedModel
from saccade.plugins.serve.agent_app import agent_app
from saccade.plugins.serve.agent_request import AgentServeSettings
from saccade.plugins.serve.agents import AgentPool
from saccade.record.content import Message
from saccade.sandbox.base import Sandbox

TOKEN = "a-token-for-tests-of-agents"
CODE = "<code>\n```python\nprint(6 * 7)\nimage_clue_0.rotate(90).show()\n```\n</code>"
ANSWER = "<answer>\n\\boxed{blue}\n</answer>"


def two_turns(messages: tuple[Message, ...]) -> str:
    """Code, and then the answer; the same for every conversation."""
    return CODE if messages[-1].role == "user" and len(messages) <= 2 else ANSWER


class Slow:
    """A model that answers after some seconds, and counts who is waiting and who gave up."""

    def __init__(self, seconds: float, script: Script = two_turns) -> None:
        self.name, self.seconds = "slow", seconds
        self.waiting = self.cancelled = self.asked = 0
        self._model = ScriptedModel(script)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.waiting += 1
        self.asked += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return await self._model.complete(request, media, on_text=on_text)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving(
    models: Mapping[str, Model],
    *,
    sandbox: Sandbox | None = None,
    allow_urls: bool = False,
    token: str | None = TOKEN,
    base: Mapping[str, Any] | None = None,
    **settings: float,
) -> AsyncIterator[str]:
    """A real server on the loopback interface; gives its address with `/v1`."""
    chosen = AskSettings.model_validate({"model": next(iter(models)), "dialect": "pyvision", **(base or {})})
    pool = AgentPool(models, chosen, AgentServeSettings.model_validate(settings), sandbox=sandbox)
    app = agent_app(pool, token=token, only_local=True, allow_urls=allow_urls)
    server = prompt_server(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=2)
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("the server ended before it started")
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def client(url: str, token: str = TOKEN) -> AsyncIterator[AsyncOpenAI]:
    """OpenAI's own client of the server."""
    async with AsyncOpenAI(base_url=url, api_key=token, max_retries=0, timeout=300) as made:
        yield made


def data_url(colour: str = "blue", size: tuple[int, int] = (40, 30)) -> str:
    """A picture as a data URL."""
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def asking(text: str = "Which colour?", url: str | None = None) -> list[Any]:
    """The messages of a chat with one picture."""
    picture = {"type": "image_url", "image_url": {"url": url or data_url()}}
    return [{"role": "user", "content": [picture, {"type": "text", "text": text}]}]
