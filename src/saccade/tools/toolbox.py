"""The tools that one episode offers: find the one that a model names, and call it.

Total for whatever a model writes: an unknown name is a result with a suggestion. Tools are made when the toolbox is,
their models and engines when first called. Tools that are named run in worker processes with a time limit
(`saccade.tools.workers`); a tool that is given as an object of `Tool` runs in this process, without one.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

import httpx
from PIL import Image
from pydantic import ValidationError

from saccade.core import registry
from saccade.core.http import Server, is_outage
from saccade.core.registry import did_you_mean
from saccade.core.retry import OutageError, retry_after
from saccade.core.sync import in_background
from saccade.errors import MediaError, RegistryError, ToolError, ToolLostError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import OfferedTool, OutsideTool, Tool
from saccade.tools.context import EncodedImage, Problem, ProblemKind, ToolContext, ToolResult, failed
from saccade.tools.definition import ToolDefinition
from saccade.tools.registry import TOOL_ORIGINS, TOOLS, ToolSource, lacking, own_name, warn_of_unread_tables
from saccade.tools.served_wire import (
    PROTOCOL,
    MediaKind,
    ServedCall,
    ServedMedium,
    ServedRefusal,
    ServedResult,
    ServedTools,
    received,
)
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

_MOST_UPLOADS: Final = 8
"""Rounds of uploads for one call, for a server that forgets."""


@dataclass(frozen=True, slots=True)
class _Medium:
    served: ServedMedium
    data: Callable[[], bytes]


class ToolServer:
    """Speaks to the server at an address. Any thread may call."""

    def __init__(self, url: str, token: str | None, settings: ToolCallSettings) -> None:
        self.url, self.settings = url.rstrip("/"), settings
        headers = {"authorization": f"Bearer {token}"} if token else {}
        seconds = settings.seconds + settings.retry.seconds
        self._server = Server(
            self.url, headers, retry=settings.retry, seconds=seconds, lost=ToolLostError, level=logging.INFO
        )

    def tools(self) -> ServedTools:
        """Return what the server offers. Raises `UnavailableError` if it cannot be reached, wants another token, or
        speaks another protocol.
        """
        return in_background(self._tools()).result()

    async def call(self, name: str, arguments: object, context: ToolContext, alias: str | None) -> ToolResult:
        """Return the result of a call; LOST after an outage that outlasts the retries."""
        if (problem := _no_json(arguments)) is not None:
            return failed(name, Status.ERROR, problem)
        try:
            media = await asyncio.to_thread(_media, context)
        except MediaError as error:
            return _lost(name, f"an image of the task cannot be read: {error}")
        numbering = context.numbering
        call = ServedCall.model_validate(
            {
                "arguments": arguments,
                "alias": alias,
                "media": tuple(item.served for item in media),
                "label": numbering and numbering.label,
                "first": numbering.first if numbering else 0,
                "question": context.question,
                "episode": context.episode,
                "seconds": self.settings.seconds,
            }
        )
        try:
            return await self._call(name, call, {item.served.sha256: item for item in media})
        except (MediaError, ToolLostError) as error:
            return _lost(name, str(error))

    async def _call(self, name: str, call: ServedCall, media: dict[str, _Medium]) -> ToolResult:
        body = call.model_dump_json().encode()
        for _ in range(_MOST_UPLOADS):
            answer = await self._server.ask("POST", f"/v1/tools/{name}/calls", self._result, body)
            if isinstance(answer, ServedResult):
                break
            for hash_ in self._missing(answer, media):
                medium = media[hash_]
                data = await asyncio.to_thread(medium.data)
                put = await self._server.ask("PUT", f"/v1/media/{medium.served.kind}/{hash_}", self._checked, data)
                if put.status_code != 204:
                    raise ToolLostError(f"{self.url} does not take a picture: {put.status_code} {put.text[:300]}")
        else:
            raise ToolLostError(f"{self.url} forgets the pictures of a call as often as they are sent.")
        try:
            return await asyncio.to_thread(received, answer)
        except (ValueError, OSError) as error:
            raise ToolLostError(f"{self.url} sent what is no result: {error}") from error

    def _result(self, answer: httpx.Response) -> ServedResult | httpx.Response:
        """Return the result; the answer itself if media are missing."""
        if self._checked(answer).status_code == 409:
            return answer
        if answer.status_code != 200:
            raise ToolLostError(f"{self.url} answered {answer.status_code} {answer.text[:300]}")
        try:
            result = ServedResult.model_validate_json(answer.content)
        except ValidationError as error:
            raise ToolLostError(f"{self.url} sent what is no result: {error}") from error
        if result.status is Status.LOST:
            raise OutageError(f"{self.url}: {'' if result.problem is None else result.problem.detail}")
        return result

    def _missing(self, answer: httpx.Response, media: dict[str, _Medium]) -> tuple[str, ...]:
        try:
            missing = ServedRefusal.model_validate_json(answer.content).missing
        except ValidationError as error:
            raise ToolLostError(f"{self.url} refused a call in no words of the protocol: {error}") from error
        if strange := set(missing) - set(media):
            raise ToolLostError(f"{self.url} asks for media that the call did not name: {', '.join(strange)[:300]}")
        return missing

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        if is_outage(answer):
            raise OutageError(f"{self.url}: {answer.status_code} {answer.text[:300]}", retry_after(answer.headers))
        if answer.status_code == 401:
            raise ToolLostError(f"{self.url} wants another token; set SACCADE_TOOLS_TOKEN to it.")
        return answer

    async def _tools(self) -> ServedTools:
        try:
            answer = await self._server.once("GET", "/v1/tools", self._checked)
            offered = ServedTools.model_validate_json(answer.content)
        except (OutageError, ToolLostError, ValidationError) as error:
            todo = "Start it with `saccade tools serve`, or correct the address."
            raise UnavailableError(f"the server of tools {self.url} cannot be used: {error} {todo}") from error
        if offered.protocol != PROTOCOL:
            raise UnavailableError(f"{self.url} speaks protocol {offered.protocol}, this is {PROTOCOL}: update one.")
        return offered


def _media(context: ToolContext) -> list[_Medium]:
    images = [_image(name, context) for name in context.images]
    return images + [_video(name, context.video(name)[1]) for name in context.videos]


def _image(name: str, context: ToolContext) -> _Medium:
    source = context.source(name)
    if isinstance(source, EncodedImage):
        return _Medium(_named(name, "image", source.sha256), source.encoded)
    out = io.BytesIO()
    (source if isinstance(source, Image.Image) else source()).save(out, "PNG", compress_level=1)
    return _Medium(_named(name, "image", sha256(out.getvalue()).hexdigest()), out.getvalue)


def _video(name: str, path: Path) -> _Medium:
    with path.open("rb") as file:
        hash_ = file_digest(file, "sha256").hexdigest()
    return _Medium(_named(name, "video", hash_), path.read_bytes)


def _named(name: str, kind: MediaKind, hash_: str) -> ServedMedium:
    return ServedMedium(name=name, kind=kind, sha256=hash_)


def _no_json(arguments: object) -> Problem | None:
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        message = "Arguments hold something that JSON cannot. Use finite numbers, whole characters and lists."
        return Problem(ProblemKind.ARGUMENT_FORMAT, message, str(error)[:300])
    return None


def _lost(name: str, detail: str) -> ToolResult:
    return failed(name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))


# A tool that a server runs: a tool like any other to whoever calls it.


TOKEN_VARIABLE: Final = "SACCADE_TOOLS_TOKEN"
"""Environment variable with the token of servers of tools."""


class ServedTool(OutsideTool):
    """One tool of a server."""

    def __init__(self, server: ToolServer, definition: ToolDefinition) -> None:
        self._server, self._definition = server, definition
        self.name, self.aliases = definition.name, definition.aliases

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        if alias is not None and alias != self.name and alias not in {item.name for item in self.aliases}:
            raise ToolError(f"{self.name} has no alias {alias!r}; look names up in a Toolbox before the call")
        return in_background(self._server.call(self.name, arguments, context, alias))


def served_tools(address: str, settings: ToolCallSettings) -> list[ServedTool]:
    """Return the tools of the server at `http://host:port`, or of `http://host:port#name,name` those that are named.

    The token is in the environment, in `SACCADE_TOOLS_TOKEN`.

    Raises `UnavailableError`: the server cannot be reached, or wants another token; `ToolError`: it has no tool of such
    a name.
    """
    url, _, wanted = address.partition("#")
    server = ToolServer(url, os.environ.get(TOKEN_VARIABLE), settings)
    offered = {item.name: item for item in server.tools().tools}
    names = [name.strip() for name in wanted.split(",")] if wanted else list(offered)
    if unknown := [name for name in names if name not in offered]:
        raise ToolError(f"{url} has no tool {', '.join(unknown)}. It has: {', '.join(offered)}.")
    return [ServedTool(server, offered[name].definition()) for name in names]


# What a name of a tool may be, wherever tools are named: in `--tools`, a recipe, or `Toolbox.of`.
#
#     crop, zoom_in, crop@1       registered (here, or by an entry point of the group `saccade.tools`), or an alias
#     my_tools.py:Flip            a class in a file or module of the user's own
#     my_tools.py                 every tool of that file
#     http://host:8730#ocr,sam    tools of a server (`saccade tools serve`); without #, all of them
#     mcp:COMMAND, mcp:URL        the tools of an MCP server
#     verl-tool:URL#zoom_in       calls that a server of verl-tool takes; further origins by `saccade.tool-origins`
#
# The last five run code, start a program or open a connection, so a stored record or a client of a server names none.


_HTTP = ("http://", "https://")


def named_tools(name: str, calls: ToolCallSettings) -> list[OfferedTool]:
    """Return the tools of a name, ready to be offered.

    Raises `RegistryError`: there is no tool of such a name; `ToolError`: it cannot be made; `UnavailableError`: a
    server cannot be reached.
    """
    if name.startswith(_HTTP):
        return list(served_tools(name, calls))
    origin, _, rest = name.partition(":")
    if TOOL_ORIGINS.has(origin):
        return list(TOOL_ORIGINS.load(origin)(rest, calls))
    from saccade.tools.workers import WorkerTool

    if name.endswith(".py"):
        return [WorkerTool(ToolSource(f"{name}:{tool}"), calls) for tool in _of_file(name)]
    return [WorkerTool(ToolSource(name), calls)]


def check_recorded_tools(names: Iterable[str]) -> None:
    """Raises `RegistryError` if a name that a stored record or a client gave is not that of a registered tool."""
    for name in names:
        if name.startswith(_HTTP) or TOOL_ORIGINS.has(name.partition(":")[0]) or name.endswith(".py"):
            raise RegistryError(
                f"{name} is a program, a file or a server, and what a stored run or a client names is not run by "
                "itself. Name it in this command."
            )
        TOOLS.check_recorded(name)


def _of_file(path: str) -> list[str]:
    classes = {
        name: value
        for name, value in registry.defined(path).items()
        if inspect.isclass(value) and issubclass(value, Tool) and value is not Tool
    }
    tools = [name for name, value in classes.items() if not inspect.isabstract(value)]
    if not tools:
        for name, value in classes.items():
            if not value.__module__.startswith("saccade."):
                lacking = ", ".join(sorted(value.__abstractmethods__))
                raise RegistryError(f"{path} has no tool that is whole: {name} lacks {lacking}. Write it.")
        raise RegistryError(f"{path} has no tool: a subclass of saccade.tools.base.Tool. docs/tools.md shows one.")
    return tools


class Toolbox:
    """A fixed set of tools, by their own names and their aliases."""

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._tools: dict[str, OfferedTool] = {}
        for tool in tools:
            if self._tools.setdefault(tool.name, tool) is not tool:
                raise ToolError(f"two tools are called {tool.name}: offer one of the two")
        self._names = {name: name for name in self._tools}
        for tool in self._tools.values():
            for alias in tool.aliases:
                if self._names.setdefault(alias.name, tool.name) != tool.name:
                    raise ToolError(
                        f"{alias.name!r} names both {self._names[alias.name]} and {tool.name}: offer one of the two"
                    )

    @classmethod
    def of(cls, *names: str, calls: ToolCallSettings = DEFAULT_CALLS) -> Toolbox:
        """Return the tools of these names, as `saccade.tools.toolbox` reads them; all that are registered for none.

        Raises:
            RegistryError: a name is unknown; suggests the nearest.
            ToolError: two tools have one name, or one cannot be made.
            UnavailableError: a server of tools cannot be reached.
            SettingsError: the setup of tools cannot be read.
        """
        warn_of_unread_tables()
        wanted = names or TOOLS.names()
        return cls(tool for name in wanted for tool in named_tools(name, calls))

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Tools on offer, for prompts and for function-calling APIs."""
        return tuple(tool.definition for tool in self._tools.values())

    def missing(self) -> dict[str, str]:
        """Return the tools that lack something here -> how to get it."""
        return {name: tool.needs.remedy for name, tool in self._tools.items() if tool.needs.missing()}

    def resolve(self, name: str) -> str | None:
        """Return the own name of the tool that `name` means, None if none does."""
        return self._names.get(name)

    def call(self, name: str, arguments: object, context: ToolContext) -> ToolResult:
        """Return the result of the tool's `call`; for a name that is not offered, a result that says so."""
        own = self.resolve(name)
        return self._unknown(name) if own is None else self._tools[own].call(arguments, context, alias=name)

    async def call_async(self, name: str, arguments: object, context: ToolContext) -> ToolResult:
        """Call like `call`, without holding up the event loop; when it is cancelled, nobody waits for the tool."""
        own = self.resolve(name)
        return self._unknown(name) if own is None else await self._tools[own].call_async(arguments, context, alias=name)

    def _unknown(self, name: str) -> ToolResult:
        known = own_name(name)
        if remedy := lacking(known):
            message = f"{known} is not available here. Use one of: {', '.join(self._tools)}."
            return failed(known, Status.REFUSED, Problem(ProblemKind.UNAVAILABLE, message, f"To have it: {remedy}."))
        shown = name[:60].encode("utf-8", "replace").decode()
        hint = did_you_mean(name[:200], self._names) or (
            f"Known: {', '.join(self._tools)}." if self._tools else "None is offered here."
        )
        problem = Problem(ProblemKind.SCHEMA, f"There is no tool named {shown!r}. {hint}")
        return failed(name, Status.ERROR, problem)
