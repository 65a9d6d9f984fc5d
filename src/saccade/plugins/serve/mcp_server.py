"""`saccade mcp`: the sandbox and the typed tools behind the Model Context Protocol, over stdio or streamable HTTP.

Written on the official package `mcp`, which speaks all versions of the protocol.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from saccade.core.disk import disk_words
from saccade.core.registry import install, own_version
from saccade.core.web import LOCAL_NAMES, OTHER_HOST, AsgiApp, BearerGate, OwnNames
from saccade.dialects.base import with_notes
from saccade.errors import SaccadeError, UnavailableError
from saccade.media.store import MediaStore, from_base64
from saccade.plugins.serve.vision_session import (
    CallRefusedError,
    McpSettings,
    SessionCall,
    VisionSession,
    VisionSessions,
    inside,
)
from saccade.record.content import ImagePart
from saccade.record.execution import Execution, Status
from saccade.sandbox.base import Sandbox
from saccade.tasks.media import OwnMedia
from saccade.tools.context import CallProblem
from saccade.tools.definition import BoxField, ToolModel, check_arguments
from saccade.tools.registry import TOOLS
from saccade.tools.toolbox import Toolbox

try:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings

except ModuleNotFoundError as missing:
    raise UnavailableError(
        f"the MCP server needs the package `mcp`, version 2.3 or later. Run: {install('mcp')}"
    ) from missing

_INSTRUCTIONS = (
    "A Python sandbox for looking at pictures and videos. upload puts one into a session and shows it; run_python cuts "
    "out, enlarges, measures and draws, and its pictures come back to you; view shows a picture again, or a part. "
    "Give the `session` that an answer names in your next calls, or variables and pictures will not be there."
)
_UNAUTHORIZED = (
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "this server asks for a token, in the header '
    b'Authorization as Bearer TOKEN"}}'
)
_OTHER_HOST = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": OTHER_HOST}}).encode()


def mcp_server(sandbox: Sandbox, toolbox: Toolbox, settings: McpSettings) -> Server[McpTools]:
    """Return the server, which starts `sandbox` and closes it."""

    @asynccontextmanager
    async def lifespan(_: Server[McpTools]) -> AsyncIterator[McpTools]:
        async with sandbox, VisionSessions(sandbox, toolbox, settings) as sessions:
            yield McpTools(sessions, toolbox)

    async def listed(
        context: ServerRequestContext[McpTools, Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=context.lifespan_context.listed())

    async def called(
        context: ServerRequestContext[McpTools, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await context.lifespan_context.call(params.name, params.arguments)

    return Server(
        "saccade",
        version=own_version(),
        title="Saccade",
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=listed,
        on_call_tool=called,
    )


async def serve_stdio(server: Server[McpTools]) -> None:
    """Serve the one client at stdin and stdout, until it closes them."""
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def mcp_app(server: Server[McpTools], settings: McpSettings, *, token: str | None, only_local: bool) -> AsgiApp:
    """Return an ASGI application that speaks streamable HTTP at `/mcp`.

    `only_local`: requests that name another host than this machine are refused, so that no page of the web reaches a
    server without a token through the user's browser.

    Raises:
        SettingsError: the token is empty.
    """
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=only_local,
        allowed_hosts=[f"{name}:*" for name in LOCAL_NAMES],
        allowed_origins=[f"http://{name}:*" for name in LOCAL_NAMES],
    )
    app = server.streamable_http_app(
        transport_security=security,
        session_idle_timeout=settings.idle_seconds,
        max_request_body_size=settings.max_upload_bytes * 4 // 3 + (1 << 20),
    )
    named = OwnNames(app, refusal=_OTHER_HOST, status=421) if only_local else app
    return BearerGate(named, token, refusal=_UNAUTHORIZED)


# What a session gave back, as content of MCP: text and pictures in order, failures as errors for a model to read.

_LEAST_BYTES = 20_000
"""Of a picture, as base64: of many pictures, so many are sent that each may have as much."""
_LOST = "The sandbox failed, through no fault of the code. Call again without `session`, which opens a new one."
_TOOL_LOST = "The tool failed, through no fault of the call. Call it again, or do without it."


async def answer(
    looked: SessionCall, session: VisionSession, settings: McpSettings, *, opened: str = ""
) -> types.CallToolResult:
    """Return a call's outcome; `opened` is the name of the session if the call opened it."""
    execution = looked.execution
    content: list[types.ContentBlock] = [*_opened(opened)]
    if text := _text(execution, settings.folders):
        most = settings.result_characters
        content.append(types.TextContent(text=_shortened(text, session, most) if len(text) > most else text))
    parts = [picture.image for picture in execution.pictures]
    named = dict(zip(looked.names, parts, strict=True))
    content += await asyncio.to_thread(picture_content, named, session.store, settings)
    if not content:
        content.append(types.TextContent(text="(nothing was printed or shown)"))
    return types.CallToolResult(content=content, is_error=execution.status is not Status.OK)


def said(text: str, *content: types.ContentBlock, opened: str = "") -> types.CallToolResult:
    """Return a text, with further content behind it."""
    return types.CallToolResult(content=[*_opened(opened), types.TextContent(text=text), *content])


def refused(text: str) -> types.CallToolResult:
    """Return an error that a model may read."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def picture_content(
    pictures: Mapping[str, ImagePart], store: MediaStore, settings: McpSettings
) -> list[types.ContentBlock]:
    """Put each picture behind a line with its name and size, scaled down where one or all would be too large."""
    most = settings.result_picture_bytes
    sent = dict(islice(pictures.items(), most // _LEAST_BYTES))
    shown = {name: _limited(part, store, settings.shown_pixels) for name, part in sent.items()}
    left, room = len(shown), most
    content: dict[str, list[types.ContentBlock]] = {name: [] for name in sent}
    for name in sorted(shown, key=lambda name: _size(shown[name], store)):  # what small ones leave is for large ones
        part, data = _fitting(shown[name], store, room // left)
        room, left = room - len(data), left - 1
        line = f"{name}: {sent[name].width}x{sent[name].height} pixels"
        if (part.width, part.height) != (sent[name].width, sent[name].height):
            line += f", shown here scaled down to {part.width}x{part.height}"
        if part != shown[name]:
            line += f" (the pictures of one result have {most:,} bytes at most; `view` shows it, or a part, by itself)"
        content[name] = [types.TextContent(text=line), types.ImageContent(data=data, mime_type=part.mime)]
    blocks = [block for each in content.values() for block in each]
    if others := [name for name in pictures if name not in sent]:
        text = f"{len(others)} more pictures, {others[0]} to {others[-1]}, are not shown here; `view` shows each."
        blocks.append(types.TextContent(text=text))
    return blocks


def _limited(part: ImagePart, store: MediaStore, most_pixels: int) -> ImagePart:
    return store.put_smaller(part, most_pixels) if part.width * part.height > most_pixels else part


def _size(part: ImagePart, store: MediaStore) -> int:
    """Return bytes of the picture as base64."""
    return -(-store.path(part.sha256).stat().st_size // 3) * 4


def _fitting(part: ImagePart, store: MediaStore, most: int) -> tuple[ImagePart, str]:
    """Shrink the picture to at most `most` bytes as base64: encoded anew, and then scaled down as far as that needs."""
    fitting, pixels = part, part.width * part.height
    while _size(fitting, store) > most and pixels > 0:
        fitting = store.put_smaller(part, pixels)
        pixels = int(pixels * min(0.8, most / _size(fitting, store)))
    return fitting, base64.b64encode(store.get_bytes(fitting.sha256)).decode()


def _shortened(text: str, session: VisionSession, most: int) -> str:
    """Return head and tail of the text, with a line between them that says where the whole of it is."""
    half, whole = most // 2, len(text)
    name = session.keep_text(text)
    line = (
        f"[{whole - 2 * half:,} of {whole:,} characters were cut out here. The whole text is in the variable {name} "
        f"until another one is cut: print({name}[{half}:{half + most}]) goes on from here.]"
    )
    return f"{text[:half]}\n{line}\n{text[whole - half :]}"


def _opened(name: str) -> list[types.ContentBlock]:
    return [types.TextContent(text=f"session: {name}")] if name else []


def _text(execution: Execution, folders: Sequence[Path]) -> str:
    if execution.status is Status.LOST:
        return _LOST if execution.problem is None else _TOOL_LOST
    printed = [execution.stdout, execution.stderr, execution.value or "", execution.traceback or ""]
    text = with_notes("\n".join(piece.removesuffix("\n") for piece in printed if piece), execution)
    if execution.status is not Status.OK and not execution.traceback:
        text += f"\nThe call ended as {execution.status.value}."
    written = [f"{file.path} ({file.size} bytes)" for file in execution.files]
    if written:
        text += f"\nWritten: {', '.join(written)}."
    if missing := _MISSING.search(f"{execution.traceback}\n{execution.stderr}"):
        text += f"\n{_to_upload(missing[1] or missing[2], folders)}"
    return text.strip("\n")


_MISSING = re.compile(r"No such file or directory: '([^'\n]+)'|imread_\('([^'\n]+)'\)")
"""How Python, Pillow and OpenCV name a file that is not there."""


def _to_upload(path: str, folders: Sequence[Path]) -> str:
    """Say how the file that code did not find comes into the sandbox."""
    for name in (path, Path(path).name):
        with suppress(CallRefusedError):
            inside(name, folders)
            return f"Code sees only files of its session. Call upload with this session and the path {name!r} first."
    return "Code sees only files of its session: upload puts a picture or a video into it."


# Arguments are checked before anything is run. A call without `session` opens one, and its answer begins with the name.

_SESSION_WORDS = "Name of a session, as an earlier answer gave it. Without it a new session is opened."
OptionalSession = Annotated[str | None, Field(default=None, description=_SESSION_WORDS)]
NamedSession = Annotated[str, Field(description="Name of a session, as an earlier answer gave it.")]


class RunPython(ToolModel):
    """Arguments of `run_python`."""

    code: str = Field(min_length=1, description="The code of one cell.")
    session: OptionalSession = None


class Upload(ToolModel):
    """Arguments of `upload`."""

    path: str | None = Field(None, description="Path of a file in a folder that this server may read.")
    data: str | None = Field(None, description="The file's bytes, as base64. Give either this or a path.")
    session: OptionalSession = None


class View(ToolModel):
    """Arguments of `view`."""

    session: NamedSession
    image: str = Field(description="Name of a picture of the session, such as image_0.")
    box: BoxField | None = None


class Branch(ToolModel):
    """Arguments of `branch`."""

    session: NamedSession
    count: int = Field(1, ge=1, le=16, description="How many.")


class OfSession(ToolModel):
    """Arguments of `reset` and `close_session`."""

    session: NamedSession


DESCRIPTIONS: Mapping[str, tuple[type[ToolModel], str]] = {
    "run_python": (
        RunPython,
        "Runs Python in an isolated notebook that keeps its variables between calls of one session. Gives back what is "
        "printed, the value of the last expression, and every picture that is shown (plt.show(), display(picture), a "
        "picture as last expression). numpy as np, matplotlib as plt, PIL's Image and OpenCV as cv2 are there; there "
        "is no network. Pictures of the session are Pillow images in the variables image_0, image_1 and so on; a "
        "video is in video_0. Code that raises leaves variables and files as they were before the call.",
    ),
    "upload": (
        Upload,
        "Puts a picture or a video into a session, by path or by data, and shows the picture. Code finds it in the "
        "variable that the answer names; the other tools look at it by that name. A video has to be uploaded before "
        "the first call of run_python.",
    ),
    "view": (
        View,
        "Shows a picture of a session again, or a part of it in full size: `box` is in pixels of the whole picture.",
    ),
    "branch": (
        Branch,
        "Opens sessions that start from the state of another, variables, pictures and files included; the other is "
        "not changed by what they do.",
    ),
    "reset": (
        OfSession,
        "Starts a session anew: no variables, no files, and of the pictures and videos those that were uploaded, "
        "numbered from 0.",
    ),
    "close_session": (OfSession, "Ends a session that is not needed any more."),
}
"""Name -> arguments, and what it does."""


class McpTools:
    """Lists the tools, and calls them. Nothing that a client sends makes a call raise."""

    def __init__(self, sessions: VisionSessions, toolbox: Toolbox) -> None:
        self._sessions, self._toolbox = sessions, toolbox
        self._settings = sessions.settings
        self._calls: dict[str, Callable[[Any], Awaitable[types.CallToolResult]]] = {
            "run_python": self._run,
            "upload": self._upload,
            "view": self._view,
            "branch": self._branch,
            "reset": self._reset,
            "close_session": self._close,
        }

    def listed(self) -> list[types.Tool]:
        """Return all tools: those of sessions, then the typed ones."""
        own = [
            types.Tool(name=name, description=words, input_schema=arguments.model_json_schema())
            for name, (arguments, words) in DESCRIPTIONS.items()
        ]
        typed = [
            types.Tool(name=tool.name, description=tool.description, input_schema=_with_session(tool.parameters))
            for tool in self._toolbox.definitions
        ]
        return [*own, *typed]

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
        """Return the result of a tool; for a wrong call, an error that says what is wrong."""
        try:
            if name in self._calls:
                return await self._calls[name](check_arguments(DESCRIPTIONS[name][0], arguments or {}))
            return await self._typed(name, dict(arguments or {}))
        except CallProblem as error:
            return refused(error.problem.message)
        except SaccadeError as error:
            return refused(str(error))
        except OSError as error:
            return refused(f"What the call gave back cannot be kept: {disk_words(error)}")

    async def _run(self, given: RunPython) -> types.CallToolResult:
        async with self._sessions.use(given.session) as (name, session):
            looked = await session.run(given.code)
            return await answer(looked, session, self._settings, opened=_new(given.session, name))

    async def _view(self, given: View) -> types.CallToolResult:
        async with self._sessions.use(given.session) as (_, session):
            name, part = await session.view(given.image, given.box)
            content = await asyncio.to_thread(picture_content, {name: part}, session.store, self._settings)
            return types.CallToolResult(content=content)

    async def _typed(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if self._toolbox.resolve(tool) is None:
            known = [*DESCRIPTIONS, *(item.name for item in self._toolbox.definitions)]
            more = f" `saccade mcp --tools {tool}` would offer it." if TOOLS.has(tool) else ""
            raise CallRefusedError(f"There is no tool {tool[:60]!r}. There are: {', '.join(known)}.{more}")
        name = arguments.pop("session", None)
        if not isinstance(name, str):
            raise CallRefusedError(f"{tool} needs `session`, the name that upload gave for the session of the picture.")
        async with self._sessions.use(name) as (_, session):
            looked = await session.call(tool, arguments)
            return await answer(looked, session, self._settings)

    async def _upload(self, given: Upload) -> types.CallToolResult:
        settings = self._sessions.settings
        if (given.path is None) is (given.data is None):
            raise CallRefusedError("Give either `path` or `data`.")
        source: OwnMedia
        if given.data is not None:
            source = _decoded(given.data, settings.max_upload_bytes)
        else:
            source = inside(given.path or "", settings.folders)
        async with self._sessions.use(given.session) as (name, session):
            variables, taken = await session.upload(source, settings.media)
            opened, note = _new(given.session, name), f" ({taken.note})" if taken.note else ""
            text = f"{taken.name} is in {', '.join(variables)}{note}."
            parts = zip(variables, taken.parts, strict=True)
            pictures = {variable: part for variable, part in parts if isinstance(part, ImagePart)}
            if not pictures:
                return said(text, opened=opened)
            content = await asyncio.to_thread(picture_content, pictures, session.store, settings)
            return said(text, *content, opened=opened)

    async def _branch(self, given: Branch) -> types.CallToolResult:
        names = await self._sessions.branch(given.session, given.count)
        return said("\n".join(f"session: {name}" for name in names))

    async def _reset(self, given: OfSession) -> types.CallToolResult:
        async with self._sessions.use(given.session) as (_, session):
            await session.reset()
            kept = ", ".join([*session.media.pictures, *session.media.videos])
        return said(f"The session starts anew, with {kept or 'no pictures'}.")

    async def _close(self, given: OfSession) -> types.CallToolResult:
        await self._sessions.close(given.session)
        return said("The session is closed.")


def _new(asked: str | None, name: str) -> str:
    return name if asked is None else ""


_DATA_URL = re.compile(r"^\s*data:[^,]*;base64,", re.IGNORECASE)


def _decoded(data: str, most: int) -> bytes:
    text = _DATA_URL.sub("", data)
    if len(text) // 4 * 3 > most:
        raise CallRefusedError(f"The data has more than {most:,} bytes. Scale the picture down or cut the video first.")
    try:
        return from_base64(text)
    except ValueError as error:
        raise CallRefusedError(f"`data` is not base64 ({error}). Send the file's bytes as base64.") from None


def _with_session(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a typed tool with the session in front."""
    session = {"type": "string", "description": "Name of the session whose pictures it looks at."}
    return {
        **parameters,
        "properties": {"session": session, **parameters.get("properties", {})},
        "required": ["session", *parameters.get("required", [])],
    }
