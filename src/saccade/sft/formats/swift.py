"""`swift`: `messages` of `role` and `content`, as ms-swift trains on them.

    {"messages": [{"role": "user", "content": "<image>..."}, {"role": "assistant", "content": "..."}],
     "images": ["media/....png"], "videos": []}

What is held is said in `conversation.py`. Paths are relative to the folder of the rows: set ROOT_IMAGE_DIR to it, or
write absolute ones with `--root`. The masks of ms-swift follow roles, so an observation inside the assistant's message
(dialect `thyme`) is trained on unless its template masks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import Conversation, ConversationFacts, flatten, unflatten
from saccade.sft.formats.media_refs import MediaIn, MediaOut
from saccade.sft.formats.row_files import Row
from saccade.sft.formats.row_format import ConversationCodec, Parts, RowFormat, labels
from saccade.sft.formats.sharegpt import media_columns, read_columns, read_lines


@dataclass(frozen=True, slots=True)
class SwiftCodec(ConversationCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        talk = flatten(trajectory)
        messages = [{"role": line.role, "content": line.text} for line in talk.lines]
        return {**labels(trajectory), "messages": messages, **media_columns(talk, out)}

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """Pictures, then videos."""
        return read_columns(row, into)

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        return unflatten(Conversation(about, read_lines(row.get("messages"), ("content",), ("role",)), parts))


FORMAT = RowFormat(SwiftCodec())
