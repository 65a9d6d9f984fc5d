"""The tools of the MCP server: what each takes, in the words that a model reads, and what is done for it.

Arguments are checked before anything is run. A call without `session` opens one, and its answer begins with the name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import mcp_types as types
from pydantic import Field

from saccade.errors import SaccadeError
from saccade.record.content import ImagePart
from saccade.record.disk import disk_words
from saccade.serve import mcp_answers
from saccade.serve.vision_session import CallRefusedError
from saccade.serve.vision_sessions import VisionSessions, inside
from saccade.tools.arguments import ToolModel, check_arguments
from saccade.tools.problem import CallProblem
from saccade.tools.toolbox import Toolbox

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
        self._shown_pixels = sessions.settings.shown_pixels
        self._calls: dict[str, Callable[[Any], Awaitable[types.CallToolResult]]] = {
            "run_python": self._run,
            "upload": self._upload,
            "branch": self._branch,
            "reset": self._reset,
            "close_session": self._close,
        }

    def listed(self) -> list[types.Tool]:
        """All tools: those of sessions, then the typed ones."""
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
        """What a tool gives back; for a wrong call, an error that says what is wrong."""
        try:
            if name in self._calls:
                return await self._calls[name](check_arguments(DESCRIPTIONS[name][0], arguments or {}))
            return await self._typed(name, dict(arguments or {}))
        except CallProblem as error:
            return mcp_answers.refused(error.problem.message)
        except SaccadeError as error:
            return mcp_answers.refused(str(error))
        except OSError as error:
            return mcp_answers.refused(f"What the call gave back cannot be kept: {disk_words(error)}")

    async def _run(self, given: RunPython) -> types.CallToolResult:
        async with self._sessions.use(given.session) as (name, session):
            looked = await session.run(given.code)
            return await asyncio.to_thread(
                mcp_answers.answer, looked, session.store, self._shown_pixels, opened=_new(given.session, name)
            )

    async def _typed(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if self._toolbox.resolve(tool) is None:
            known = [*DESCRIPTIONS, *(item.name for item in self._toolbox.definitions)]
            raise CallRefusedError(f"There is no tool {tool[:60]!r}. There are: {', '.join(known)}.")
        name = arguments.pop("session", None)
        if not isinstance(name, str):
            raise CallRefusedError(f"{tool} needs `session`, the name that upload gave for the session of the picture.")
        async with self._sessions.use(name) as (_, session):
            looked = await session.call(tool, arguments)
            return await asyncio.to_thread(mcp_answers.answer, looked, session.store, self._shown_pixels)

    async def _upload(self, given: Upload) -> types.CallToolResult:
        settings = self._sessions.settings
        if (given.path is None) is (given.data is None):
            raise CallRefusedError("Give either `path` or `data`.")
        media = _decoded(given.data, settings.max_upload_bytes) if given.path is None else None
        source = media if media is not None else inside(given.path or "", settings.folders)
        async with self._sessions.use(given.session) as (name, session):
            variable, taken = await session.upload(source, settings.media)
            opened, note = _new(given.session, name), f" ({taken.note})" if taken.note else ""
            text = f"{taken.name} is in {variable}{note}."
            if not isinstance(taken.part, ImagePart):
                return mcp_answers.said(text, opened=opened)
            content = await asyncio.to_thread(
                mcp_answers.picture_content, variable, taken.part, session.store, self._shown_pixels
            )
            return mcp_answers.said(text, *content, opened=opened)

    async def _branch(self, given: Branch) -> types.CallToolResult:
        names = await self._sessions.branch(given.session, given.count)
        return mcp_answers.said("\n".join(f"session: {name}" for name in names))

    async def _reset(self, given: OfSession) -> types.CallToolResult:
        async with self._sessions.use(given.session) as (_, session):
            await session.reset()
            kept = ", ".join([*session.media.pictures, *session.media.videos])
        return mcp_answers.said(f"The session starts anew, with {kept or 'no pictures'}.")

    async def _close(self, given: OfSession) -> types.CallToolResult:
        await self._sessions.close(given.session)
        return mcp_answers.said("The session is closed.")


def _new(asked: str | None, name: str) -> str:
    return name if asked is None else ""


def _decoded(data: str | None, most: int) -> bytes:
    text = "" if data is None else data
    if len(text) // 4 * 3 > most:
        raise CallRefusedError(f"The data has more than {most:,} bytes. Scale the picture down or cut the video first.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CallRefusedError(
            f"`data` is not base64 ({error}). Send the file's bytes as base64, without line breaks."
        ) from None


def _with_session(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a typed tool with the session in front."""
    session = {"type": "string", "description": "Name of the session whose pictures it looks at."}
    return {
        **parameters,
        "properties": {"session": session, **parameters.get("properties", {})},
        "required": ["session", *parameters.get("required", [])],
    }
