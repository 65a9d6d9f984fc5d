"""Messages of OpenAI's APIs as one question: the texts of a conversation, its pictures and videos.

An agent is asked one question. A single message of the user is it, as it stands. Of a longer conversation the earlier
messages come first, each behind its role, and the last one of the user after them. Pictures stand where they stood.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from saccade.media.download import is_url
from saccade.serve.agent_request import RequestError
from saccade.tasks.own_media import OwnMedia

_DATA: Final = re.compile(r"data:(?P<type>(?:image|video)/[\w.+-]+)(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_ROLES: Final = {
    "system": "Instructions",
    "developer": "Instructions",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_PICTURES: Final = {"image_url": "image_url", "input_image": "image_url"}
_VIDEOS: Final = {"video_url": "video_url", "input_video": "video_url"}


@dataclass
class MessageTexts:
    """What was said so far, and the media that were shown."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    """Role and text."""
    media: list[OwnMedia] = field(default_factory=list)
    videos: int = 0

    def question(self) -> str:
        """All of it as one text.

        Raises:
            RequestError: the last message is not one of the user or of a tool.
        """
        if not self.messages or self.messages[-1][0] not in ("user", "tool"):
            raise RequestError("the last message must be one of the user.", param="messages", code="invalid_value")
        if len(self.messages) == 1:
            return self.messages[0][1]
        return "\n\n".join(f"{_ROLES[role]}: {text}" for role, text in self.messages)


def read_messages(messages: Sequence[Any], *, allow_urls: bool, most: int, param: str) -> MessageTexts:
    """The conversation in `messages`, each with `role` and `content`.

    Raises:
        RequestError: one has another form, or asks for what this server does not do.
    """
    talk = MessageTexts()
    # Frames of a video are pictures too, so the numbers of placeholders would not be those of the pictures.
    placed = not any(_has_video(message) for message in messages)
    for index, message in enumerate(messages):
        where = f"{param}[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            known = ", ".join(_ROLES)
            raise RequestError(f"{where}.role is none of {known}.", param=f"{where}.role", code="invalid_value")
        talk.messages.append((role, _text(message.get("content"), talk, placed, f"{where}.content", allow_urls)))
    if len(talk.media) > most:
        raise RequestError(
            f"{len(talk.media)} pictures and videos are more than the {most} that this server takes.", param=param
        )
    return talk


def _has_video(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(_kind(part) in _VIDEOS for part in content)


def _kind(part: Any) -> str:
    return str(part.get("type")) if isinstance(part, dict) else ""


def _text(content: Any, talk: MessageTexts, placed: bool, where: str, allow_urls: bool) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise RequestError(f"{where} is neither a text nor a list of parts.", param=where, code="invalid_value")
    pieces: list[str] = []
    for index, part in enumerate(content):
        kind = _kind(part)
        if kind in _TEXTS:
            pieces.append(_string(part.get("text", part.get("refusal")), f"{where}[{index}].text"))
        elif kind in _PICTURES or kind in _VIDEOS:
            key = {**_PICTURES, **_VIDEOS}[kind]
            talk.media.append(_media(part.get(key), f"{where}[{index}].{key}", allow_urls))
            talk.videos += kind in _VIDEOS
            # Pictures without a mark come first anyway; marks are needed only behind a text.
            if placed and (pieces or len(talk.messages) > 0):
                pieces.append(f"<image {len(talk.media)}>")
        else:
            raise RequestError(
                f"{where}[{index}] is of the type {kind[:60]!r}. This server takes text, pictures (image_url, "
                "input_image) and videos (video_url, input_video).",
                param=f"{where}[{index}]",
                code="invalid_value",
            )
    return "\n".join(pieces)


def _media(value: Any, where: str, allow_urls: bool) -> OwnMedia:
    """The bytes of a data URL, or an address; a path of this machine is neither."""
    url = _string(value.get("url") if isinstance(value, dict) else value, where)
    match = _DATA.match(url)
    if match is not None:
        try:
            return base64.b64decode(url[match.end() :], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RequestError(f"{where} is no base64: {error}.", param=where, code="invalid_image_url") from None
    if is_url(url) and allow_urls:
        return url
    why = "this server fetches nothing from other hosts" if is_url(url) else "it is no data URL of a picture or a video"
    raise RequestError(
        f"{where}: {why}. Send the bytes, as data:image/png;base64,...", param=where, code="invalid_image_url"
    )


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{where} is no text.", param=where, code="invalid_value")
    return value
