"""Messages in the words of the chat-completions protocol. No IO but reading pictures.

The result of a native call is text there: its pictures follow in a message of the user, each with the line of text in
which it stands. A result that names no call is the user's, as in dialects that do not use native calls.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from saccade.errors import ModelRefusedError
from saccade.models.base import MediaReader
from saccade.models.pictures import encoded_picture, frames_not_chosen
from saccade.record.content import ImagePart, Message, Part, TextPart

_SEE_BELOW = "The pictures follow."
"""Stands for the text of a result that has pictures alone; servers differ in whether they take an empty one."""


def chat_messages(
    messages: Sequence[Message], media: MediaReader, *, provider: str, videos: bool
) -> list[dict[str, Any]]:
    """`messages`, whose calls are paired, as the protocol has them.

    Args:
        messages: what was said.
        media: where pictures are.
        provider: for messages of errors.
        videos: whether videos are taken.

    Raises:
        ModelRefusedError: there is a video, and none are taken.
        MediaError: a picture cannot be read.
    """
    wire: list[dict[str, Any]] = []
    shown: list[Part] = []
    for message in (*messages, None):
        if shown and (message is None or message.call_id is None):  # not before all calls are answered
            wire.append({"role": "user", "content": _content(shown, media, provider, videos)})
            shown = []
        if message is None:
            break
        if message.call_id is not None:
            text, pictures = _split(message.parts)
            if pictures:
                shown += [TextPart(text=f"Pictures of the result of call {message.call_id}:\n"), *pictures]
                text = text if text.strip() else _SEE_BELOW
            wire.append({"role": "tool", "tool_call_id": message.call_id, "content": text})
            continue
        role = "user" if message.role == "tool" else message.role
        entry: dict[str, Any] = {"role": role, "content": _content(message.parts, media, provider, videos)}
        if message.calls:
            entry["content"] = entry["content"] or None
            entry["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
                }
                for call in message.calls
            ]
        wire.append(entry)
    return wire


def _split(parts: Sequence[Part]) -> tuple[str, list[Part]]:
    """The text up to the line in which the first picture or video stands, and all parts from that line on."""
    first = next((at for at, part in enumerate(parts) if not isinstance(part, TextPart)), len(parts))
    text = "".join(part.text for part in parts[:first] if isinstance(part, TextPart))
    if first == len(parts):
        return text, []
    cut = text.rfind("\n") + 1
    label = [TextPart(text=text[cut:])] if text[cut:] else []
    return text[:cut], [*label, *parts[first:]]


def _content(parts: Iterable[Part], media: MediaReader, provider: str, videos: bool) -> str | list[dict[str, Any]]:
    parts = tuple(parts)
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append({"type": "image_url", "image_url": {"url": encoded_picture(part, media).url}})
        elif videos and part.sample is not None:
            raise ModelRefusedError(frames_not_chosen(provider))
        elif videos:
            data = base64.b64encode(media.get_bytes(part.sha256)).decode("ascii")
            content.append({"type": "video_url", "video_url": {"url": f"data:{part.mime};base64,{data}"}})
        else:
            raise ModelRefusedError(f"{provider} takes no videos; use a dialect that shows frames")
    return content
