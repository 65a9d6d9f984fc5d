"""What a session gave back, as content of MCP: text and pictures in order, failures as errors for a model to read."""

from __future__ import annotations

import base64

import mcp_types as types

from saccade.dialects.outcome import with_notes
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.serve.vision_session import SessionCall

_LOST = "The sandbox failed, through no fault of the code. Call again without `session`, which opens a new one."
_TOOL_LOST = "The tool failed, through no fault of the call. Call it again, or do without it."


def answer(looked: SessionCall, store: MediaStore, most_pixels: int, *, opened: str = "") -> types.CallToolResult:
    """A call's outcome; `opened` is the name of the session if the call opened it."""
    execution = looked.execution
    content: list[types.ContentBlock] = [*_opened(opened)]
    if text := _text(execution):
        content.append(types.TextContent(text=text))
    for name, picture in zip(looked.names, execution.pictures, strict=True):
        content += picture_content(name, picture.image, store, most_pixels)
    if not content:
        content.append(types.TextContent(text="(nothing was printed or shown)"))
    return types.CallToolResult(content=content, is_error=execution.status is not Status.OK)


def said(text: str, *content: types.ContentBlock, opened: str = "") -> types.CallToolResult:
    """A text, with further content behind it."""
    return types.CallToolResult(content=[*_opened(opened), types.TextContent(text=text), *content])


def refused(text: str) -> types.CallToolResult:
    """An error that a model may read."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def picture_content(name: str, part: ImagePart, store: MediaStore, most_pixels: int) -> list[types.ContentBlock]:
    """The picture behind a line with its name and size, scaled down if it has more than `most_pixels`."""
    line, shown = f"{name}: {part.width}x{part.height} pixels", part
    if part.width * part.height > most_pixels:
        shown = store.put_smaller(part, most_pixels)
        line += f", shown here scaled down to {shown.width}x{shown.height}"
    data = base64.b64encode(store.get_bytes(shown.sha256)).decode()
    return [types.TextContent(text=line), types.ImageContent(data=data, mime_type=shown.mime)]


def _opened(name: str) -> list[types.ContentBlock]:
    return [types.TextContent(text=f"session: {name}")] if name else []


def _text(execution: Execution) -> str:
    if execution.status is Status.LOST:
        return _LOST if execution.problem is None else _TOOL_LOST
    printed = [execution.stdout, execution.stderr, execution.value or "", execution.traceback or ""]
    text = with_notes("\n".join(piece.removesuffix("\n") for piece in printed if piece), execution)
    if execution.status is not Status.OK and not execution.traceback:
        text += f"\nThe call ended as {execution.status.value}."
    written = [f"{file.path} ({file.size} bytes)" for file in execution.files]
    if written:
        text += f"\nWritten: {', '.join(written)}."
    return text.strip("\n")
