"""Rows of Thyme-SFT in the dialect of CodeV, so that supervised and reinforcement learning speak one format.

Thyme says everything in one message of the assistant. Here each call ends a turn, its output is a message of the user,
and every further turn opens its thought anew. The prompt is the one that CodeV's dialect writes for the question, its
pictures have CodeV's names, and Thyme's folder for pictures becomes the working folder. Only the pictures that the
question shows are the task's. A row whose code needs what CodeV does not define (`temp_output_dir`) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from saccade.dialects.base import Dialect
from saccade.dialects.thyme import OUTPUT_FOLDER
from saccade.errors import RecordError
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import (
    IMAGE,
    Conversation,
    ConversationFacts,
    RoleMessage,
    placeholders,
    unflatten,
)
from saccade.sft.formats.row_format import Parts

_OBSERVED: Final = re.compile(r"(<sandbox_output>.*?</sandbox_output>)", re.DOTALL)
_ABOUT_PICTURES: Final = re.compile(r"\n\s*### User Image Path:")


def as_codev(
    question: str, response: str, parts: Parts, about: ConversationFacts, named: tuple[list[str], Dialect]
) -> Trajectory:
    """The trajectory; `named` are the paths that the question names its pictures by, and the dialect.

    Raises:
        RecordError: it cannot be said in that dialect, or needs what that does not define.
    """
    paths, dialect = named
    shown = tuple(part for part in parts[: question.count(IMAGE)] if isinstance(part, ImagePart))
    asked = _ABOUT_PICTURES.split(question)[0].replace(IMAGE, "").strip()
    media = tuple(NamedMedia(name=f"media_{number}", part=part) for number, part in enumerate(shown))
    opening = dialect.open(Task(id="-", question=asked, media=media))
    names = dict(zip(paths, opening.files, strict=False))
    lines = [RoleMessage(message.role, placeholders(message.parts)) for message in opening.messages]
    lines += _turns(_renamed(response, names))
    return unflatten(Conversation(replace(about, dialect=dialect.id, question=asked), tuple(lines), parts))


def _turns(response: str) -> list[RoleMessage]:
    """What the model wrote and what it was shown, in turns."""
    lines: list[RoleMessage] = []
    for number, piece in enumerate(_OBSERVED.split(response)):
        if number % 2:
            lines.append(RoleMessage("user", piece))
            continue
        text = piece.strip()
        if not text:
            raise RecordError("two results follow each other, or the response ends in one")
        if "temp_output_dir" in text:
            raise RecordError("its code uses `temp_output_dir`, which CodeV does not define")
        opened = text.count("<think>") >= text.count("</think>") and "<think>" in text
        lines.append(RoleMessage("assistant", text if opened or number == 0 else f"<think>{text}"))
    return lines


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """The response with CodeV's names of the task's pictures, and its working folder for Thyme's."""
    for path, name in sorted(names.items(), key=lambda item: len(item[0]), reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w/-]|\.\w)", name, text)
    return re.sub(rf"{re.escape(OUTPUT_FOLDER)}(/?)(?![\w-])|{re.escape(OUTPUT_FOLDER)}/", _own_folder, text)


def _own_folder(match: re.Match[str]) -> str:
    return "./" if match.group().endswith("/") else "."
