"""Tools of a server of verl-tool that runs already: `--tools verl-tool:http://HOST:PORT#zoom_in,crop_image`.

Such a server says neither which calls it takes nor what their arguments are, so the names are given here and arguments
go to it as the model wrote them; prompts must say what they are. Every call is a trajectory of its own with all
pictures of the episode so far, which is finished at once: tools that keep a state from call to call lose it.
Wire: TIGER-AI-Lab/verl-tool, verl_tool/servers/tool_server.py and verl_tool/agent_loop/verltool_agent_loop.py.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
from PIL import Image

from saccade.core.http import Server, is_outage
from saccade.core.png import quick_png
from saccade.core.retry import OutageError, retry_after
from saccade.core.sync import in_background
from saccade.dialects.calls import dump_json
from saccade.errors import MediaError, ToolError, ToolLostError
from saccade.record.execution import Status
from saccade.tools.base import OutsideTool, done
from saccade.tools.context import (
    EncodedImage,
    Problem,
    ProblemKind,
    ToolContext,
    ToolPicture,
    ToolResult,
    failed,
)
from saccade.tools.definition import Cost, Needs, ToolDefinition
from saccade.tools.setup import ToolCallSettings


class VerlTool(OutsideTool):
    """One name of a call that the server takes."""

    def __init__(self, name: str, server: Server, settings: ToolCallSettings) -> None:
        self.name, self._server, self._settings = name, server, settings

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            name=self.name,
            aliases=(),
            description=f"Call {self.name} of a tool server, with the arguments that it takes.",
            parameters={"type": "object", "properties": {}, "additionalProperties": True},
            returns={"type": "object"},
            needs=Needs(),
            cost=Cost.WAITING,
        )

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        if not isinstance(arguments, Mapping):
            return done(failed(self.name, Status.ERROR, Problem(ProblemKind.SCHEMA, "Arguments are a JSON object.")))
        return in_background(self._called(dict(arguments), context))

    async def _called(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        try:
            action = f"<tool_call>{dump_json({'name': self.name, 'arguments': arguments})}</tool_call>"
            images = await asyncio.to_thread(lambda: [_url(name, context) for name in context.images])
            extra = {"images": images, "question": context.question}
            name = uuid4().hex
            observation, valid = await self._sent(name, action, extra)
            await self._sent(name, "", {**extra, "images": [], "finish": True})
            return await asyncio.to_thread(self._result, observation, valid, context)
        except (MediaError, ToolLostError, OSError, TypeError, ValueError) as error:
            return failed(self.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", str(error)))

    async def _sent(self, name: str, action: str, extra: dict[str, Any]) -> tuple[Any, bool]:
        body = {"trajectory_ids": [name], "actions": [action], "extra_fields": [extra]}
        ask = partial(_answered, self._server.address)
        return await self._server.ask("POST", "/get_observation", ask, json.dumps(body).encode())

    def _result(self, observation: Any, valid: bool, context: ToolContext) -> ToolResult:
        told = observation if isinstance(observation, dict) else {"obs": observation}
        if told.get("error"):
            raise ToolLostError(f"{self._server.address}: {str(told['error'])[:300]}")
        text = str(told.get("obs") or "").replace("<image>", "").strip()
        if not valid:
            why = text or str(told.get("invalid_reason") or f"{self.name} did not take the call.")
            return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, why))
        urls = told.get("image") or []
        images = [_picture(url) for url in ([urls] if isinstance(urls, str) else urls)]
        names = context.fresh_names(self.name for _ in images)
        pictures = tuple(ToolPicture(one, image) for one, image in zip(names, images, strict=True))
        lines = [text, *(f"New image {one.name}: {one.image.width} × {one.image.height} pixels." for one in pictures)]
        return ToolResult(self.name, Status.OK, {"text": text}, pictures, "\n".join(filter(None, lines)))


def verl_tools(address: str, settings: ToolCallSettings) -> list[VerlTool]:
    """Return the tools of the server at `http://host:port#name,name`. Raises `ToolError` if no name is given."""
    url, _, names = address.partition("#")
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ToolError(
            f"verl-tool:{url} names no call: a server of verl-tool does not say which it takes. Write them: "
            f"verl-tool:{url}#zoom_in,crop_image"
        )
    server = Server(
        url.rstrip("/"),
        {"content-type": "application/json"},
        retry=settings.retry,
        seconds=settings.seconds,
        lost=ToolLostError,
        level=logging.INFO,
    )
    return [VerlTool(name, server, settings) for name in wanted]


def _answered(url: str, answer: httpx.Response) -> tuple[Any, bool]:
    if is_outage(answer):
        raise OutageError(f"{url}: {answer.status_code} {answer.text[:300]}", retry_after(answer.headers))
    try:
        body = answer.json()
        (observation,), (valid,) = body["observations"], body["valids"]
    except (ValueError, TypeError, KeyError) as error:
        said = f"{answer.status_code} {answer.text[:300]}"
        raise ToolLostError(f"{url} does not answer as verl-tool does: {said}") from error
    return observation, bool(valid)


def _url(name: str, context: ToolContext) -> str:
    source = context.source(name)
    data = source.encoded() if isinstance(source, EncodedImage) else quick_png(context.image(name).image)
    # Its tools cut off this prefix and no other, and read what follows by its content, so PNG goes under it too.
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _picture(url: str) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])), formats=("PNG", "JPEG", "WEBP"))
    image.load()
    return image.convert("RGB")
