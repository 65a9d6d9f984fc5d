"""`sharegpt`: `conversations` of `from` and `value`, as LLaMA-Factory trains on them.

    {"conversations": [{"from": "human", "value": "<image>..."}, {"from": "gpt", "value": "..."}], "system": "...",
     "images": ["media/....png"], "videos": []}

Roles are `human`, `gpt` and `observation` (role `tool`); each reply of the model follows one message that is not its
own, and the conversation ends in a reply, so an episode that ended in an observation is refused. A `dataset_info.json`
with the dataset `saccade` is written beside the rows. What is held is said in `conversation.py`. Read too are the names
`role` and `content`, rows without roles (which then alternate), and a system message among the conversations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import RecordError
from saccade.record.content import ImagePart, Role
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import Conversation, ConversationFacts, RoleMessage, flatten, unflatten
from saccade.sft.formats.media_refs import MediaIn, MediaOut, listed
from saccade.sft.formats.row_files import Row
from saccade.sft.formats.row_format import ConversationCodec, Parts, RowFormat, labels

_TAGS = {"user": "human", "assistant": "gpt", "tool": "observation"}
_ROLES: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "observation": "tool",
    "tool": "tool",
    "tool_response": "tool",
    "system": "system",
}


@dataclass(frozen=True, slots=True)
class ShareGPTCodec(ConversationCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """The conversation as a row. Raises `RecordError` for a conversation that does not alternate."""
        talk = flatten(trajectory)
        system = [line.text for line in talk.lines if line.role == "system"]
        lines = [line for line in talk.lines if line.role != "system"]
        _check_alternates(talk.lines, lines)
        return {
            **labels(trajectory),
            "system": "".join(system),
            "conversations": [{"from": _TAGS[line.role], "value": line.text} for line in lines],
            **media_columns(talk, out),
        }

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """Pictures, then videos."""
        return read_columns(row, into)

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        lines = read_lines(row.get("conversations"), ("value", "content"), ("from", "role"))
        system = row.get("system")
        if isinstance(system, str) and system:
            lines = (RoleMessage("system", system), *lines)
        return unflatten(Conversation(about, lines, parts))


def media_columns(talk: Conversation, out: MediaOut) -> Row:
    """The columns `images` and `videos`; both in every row, since trainers look for the columns in their settings."""
    images = [out.path(part) for part in talk.media if isinstance(part, ImagePart)]
    videos = [out.path(part) for part in talk.media if not isinstance(part, ImagePart)]
    return {"images": images, "videos": videos}


def read_columns(row: Mapping[str, Any], into: MediaIn) -> Parts:
    """The media of the columns `images` and `videos`."""
    images = [into.image(named) for named in listed(row, "images", "image")]
    return (*images, *(into.video(named) for named in listed(row, "videos", "video")))


def read_lines(said: object, texts: Sequence[str], roles: Sequence[str]) -> tuple[RoleMessage, ...]:
    """The lines of a list of messages; without roles they alternate, the user first. Raises `RecordError`."""
    if not isinstance(said, list | tuple) or not said:
        raise RecordError("there is no list of messages")
    lines = []
    for number, message in enumerate(said):
        if not isinstance(message, Mapping):
            raise RecordError(f"message {number} is no object")
        text = next((message[name] for name in texts if message.get(name) is not None), None)
        if not isinstance(text, str):
            raise RecordError(f"message {number} has no text")
        tag = next((message[name] for name in roles if message.get(name)), ("human", "gpt")[number % 2])
        if tag not in _ROLES:
            raise RecordError(f"message {number} is of the unknown role {tag!r}")
        lines.append(RoleMessage(_ROLES[tag], text))
    return tuple(lines)


def _check_alternates(all_lines: Sequence[RoleMessage], lines: Sequence[RoleMessage]) -> None:
    if [line.role == "assistant" for line in lines] != [bool(number % 2) for number in range(len(lines))]:
        raise RecordError("messages do not alternate between the model and others, as this format must")
    if not lines or len(lines) % 2:
        raise RecordError("it does not end in what the model wrote, as this format must")
    if any(line.role == "system" for line in all_lines[1:]):
        raise RecordError("a system message stands elsewhere than first")


def _dataset_info(folder: Path) -> None:
    columns = {"messages": "conversations", "images": "images", "videos": "videos", "system": "system"}
    info = {"saccade": {"file_name": "data.jsonl", "formatting": "sharegpt", "columns": columns}}
    (folder / "dataset_info.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


FORMAT = RowFormat(ShareGPTCodec(), beside=_dataset_info)
