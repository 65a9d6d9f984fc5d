r"""`thyme` and `thyme-base64`: rows of Thyme-SFT, converted and raw.

    {"image": ["photo.jpg", "cut.png"], "question": "<image>\n...",
     "response": "<think>...</think><answer>...</answer>"}

The raw form holds pictures as base64 in place of paths. Question and response name the pictures of the task by
their paths (`### User Image Path:** "..."`). Written in the converted form, these are the paths in `image`; read, they
become the names that the dialect gives its pictures, so that the code finds them in the sandbox. `answer` and the other
labels are ours, and so is `system`: rows of Thyme-SFT have no system message, and none is made up when they are read.
With `--dialect codev` rows are read as CodeV's (`thyme_as_codev.py`).
What is held is said in `conversation.py`; trajectories of other dialects are refused. The question of the task is not
held apart from its prompt, since `question` is the prompt here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.thyme import OUTPUT_FOLDER
from saccade.errors import RecordError
from saccade.record.content import ImagePart, escape_places
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.training.sft.formats.conversation import (
    IMAGE,
    Conversation,
    ConversationCodec,
    ConversationFacts,
    Parts,
    RoleMessage,
    RowFormat,
    dialect_of,
    flatten,
    held,
    labels,
    placeholders,
    unflatten,
)
from saccade.training.sft.formats.files import MediaIn, MediaOut, Row, listed

# Rows of Thyme-SFT in the dialect of CodeV, so that supervised and reinforcement learning speak one format.
#
# Thyme says everything in one message of the assistant. Here each call ends a turn, its output is a message of the
# user, and every further turn opens its thought anew. The prompt is the one that CodeV's dialect writes for the
# question, its pictures have CodeV's names, and Thyme's folder for pictures becomes the working folder. Only the
# pictures that the question shows are the task's. A row whose code needs what CodeV does not define (`temp_output_dir`)
# is refused.

_OBSERVED: Final = re.compile(r"(<sandbox_output>.*?</sandbox_output>)", re.DOTALL)
_ABOUT_PICTURES: Final = re.compile(r"\n\s*### User Image Path:")


def as_codev(
    question: str, response: str, parts: Parts, about: ConversationFacts, named: tuple[list[str], Dialect]
) -> Trajectory:
    """Return the trajectory; `named` are the paths that the question names its pictures by, and the dialect.

    Raises `RecordError`: it cannot be said in that dialect, or needs what that does not define.
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
    """Split a conversation into turns: what the model wrote and what it was shown."""
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
    """Return the response with CodeV's names of the task's pictures, and its working folder for Thyme's."""
    for path, name in sorted(names.items(), key=lambda item: len(item[0]), reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w/-]|\.\w)", name, text)
    folder = rf"{re.escape(OUTPUT_FOLDER)}(/?)(?![\w-])|{re.escape(OUTPUT_FOLDER)}/"
    return re.sub(folder, lambda match: "./" if match.group().endswith("/") else ".", text)


_NAMED = re.compile(r'### User Image Path:\*\* "([^"\n]+)"')
_FAMILY = "thyme@"


@dataclass(frozen=True, slots=True)
class ThymeCodec(ConversationCodec):
    """The codec; see the module's head."""

    dialect: str = "thyme"
    inline: bool = False
    """Whether rows hold the pictures themselves."""

    def held(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory as conversations hold it, the question as the prompt has it."""
        if not trajectory.provenance.dialect.startswith(_FAMILY):
            raise RecordError(f"it is of dialect {trajectory.provenance.dialect}, and this format holds thyme alone")
        kept = held(trajectory)
        asked = next((message.text for message in reversed(kept.prompt) if message.role == "user"), "")
        asked = escape_places(asked.strip())
        return kept.model_copy(update={"task": kept.task.model_copy(update={"question": asked})})

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """Return the conversation as a row.

        Raises `RecordError` for more than a system message, a question and a response.
        """
        talk = flatten(trajectory)
        roles = [line.role for line in talk.lines]
        if roles not in (["user", "assistant"], ["system", "user", "assistant"]):
            raise RecordError(f"its messages are {', '.join(roles)}, and this format holds a question and a response")
        question, response = talk.lines[-2].text, talk.lines[-1].text
        if self.inline:
            images = [out.base64(part) for part in talk.media]
        else:
            images = [out.path(part) for part in talk.media]
            paths = dict(zip(_NAMED.findall(question), images, strict=False))
            question, response = _renamed_thyme(question, paths), _renamed_thyme(response, paths)
        named = {name: value for name, value in labels(trajectory).items() if name != "question"}
        system = {"system": talk.lines[0].text} if len(roles) == 3 else {}
        return {**named, **system, "image": images, "question": question, "response": response}

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        return tuple(into.image(named) for named in listed(row, "image", "images"))

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """Return the trajectory, its pictures under the dialect's names."""
        question, response, system = row.get("question"), row.get("response"), row.get("system")
        if not isinstance(question, str) or not isinstance(response, str):
            raise RecordError("it has no texts `question` and `response`")
        named = _NAMED.findall(question)
        dialect = dialect_of(about.dialect)
        if dialect.id.startswith("codev@"):
            return as_codev(question, response, parts, about, (named, dialect))
        names = dict(zip(named, _names(parts[: len(named)]), strict=False))
        lines: tuple[RoleMessage, ...] = (
            RoleMessage("user", _renamed_thyme(question, names)),
            RoleMessage("assistant", _renamed_thyme(response, names)),
        )
        if isinstance(system, str):
            lines = (RoleMessage("system", system), *lines)
        return unflatten(Conversation(replace(about, question=None), lines, parts))


def _names(parts: Parts) -> Sequence[str]:
    """Return the paths under which the dialect lays a task's pictures into the workspace."""
    media = [NamedMedia(name=str(number), part=part) for number, part in enumerate(parts)]
    pictures = tuple(item for item in media if isinstance(item.part, ImagePart))
    return tuple(load_dialect("thyme").open(Task(id="-", question="", media=pictures)).files)


def _renamed_thyme(text: str, names: Mapping[str, str]) -> str:
    """Return `text` with whole paths that are keys of `names` replaced, all at once."""
    if not names:
        return text
    any_path = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    pattern = rf"(?<![\w./-])(?:{any_path})(?![\w/-]|\.\w)"
    return re.sub(pattern, lambda match: names[match.group()], text)


CONVERTED = RowFormat(ThymeCodec())
RAW = RowFormat(ThymeCodec(inline=True))
