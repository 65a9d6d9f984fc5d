r"""`thyme` and `thyme-base64`: rows of Thyme-SFT, converted and raw.

    {"image": ["photo.jpg", "cut.png"], "question": "<image>\n...",
     "response": "<think>...</think><answer>...</answer>"}

The raw form holds pictures as base64 in the place of paths. Question and response name the pictures of the task by
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
from typing import Any

from saccade.dialects.registry import load_dialect
from saccade.errors import RecordError
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import (
    Conversation,
    ConversationFacts,
    RoleMessage,
    dialect_of,
    flatten,
    held,
    unflatten,
)
from saccade.sft.formats.media_refs import MediaIn, MediaOut, listed
from saccade.sft.formats.row_files import Row
from saccade.sft.formats.row_format import ConversationCodec, Parts, RowFormat, labels
from saccade.sft.formats.thyme_as_codev import as_codev

_NAMED = re.compile(r'### User Image Path:\*\* "([^"\n]+)"')
_FAMILY = "thyme@"


@dataclass(frozen=True, slots=True)
class ThymeCodec(ConversationCodec):
    """The codec; see the module's head."""

    dialect: str = "thyme"
    inline: bool = False
    """Whether rows hold the pictures themselves."""

    def held(self, trajectory: Trajectory) -> Trajectory:
        """What conversations hold, the question as the prompt has it."""
        if not trajectory.provenance.dialect.startswith(_FAMILY):
            raise RecordError(f"it is of dialect {trajectory.provenance.dialect}, and this format holds thyme alone")
        kept = held(trajectory)
        asked = next((message.text for message in reversed(kept.prompt) if message.role == "user"), "")
        return kept.model_copy(update={"task": kept.task.model_copy(update={"question": asked.strip()})})

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """The conversation as a row. Raises `RecordError` for more than a system message, a question and a response."""
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
            question, response = _renamed(question, paths), _renamed(response, paths)
        named = {name: value for name, value in labels(trajectory).items() if name != "question"}
        system = {"system": talk.lines[0].text} if len(roles) == 3 else {}
        return {**named, **system, "image": images, "question": question, "response": response}

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """The pictures, inline or not."""
        return tuple(into.image(named) for named in listed(row, "image", "images"))

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """The trajectory, its pictures under the dialect's names."""
        question, response, system = row.get("question"), row.get("response"), row.get("system")
        if not isinstance(question, str) or not isinstance(response, str):
            raise RecordError("it has no texts `question` and `response`")
        named = _NAMED.findall(question)
        dialect = dialect_of(about.dialect)
        if dialect.id.startswith("codev@"):
            return as_codev(question, response, parts, about, (named, dialect))
        names = dict(zip(named, _names(parts[: len(named)]), strict=False))
        lines: tuple[RoleMessage, ...] = (
            RoleMessage("user", _renamed(question, names)),
            RoleMessage("assistant", _renamed(response, names)),
        )
        if isinstance(system, str):
            lines = (RoleMessage("system", system), *lines)
        return unflatten(Conversation(replace(about, question=None), lines, parts))


def _names(parts: Parts) -> Sequence[str]:
    """The paths under which the dialect lays a task's pictures into the workspace."""
    media = [NamedMedia(name=str(number), part=part) for number, part in enumerate(parts)]
    pictures = tuple(item for item in media if isinstance(item.part, ImagePart))
    return tuple(load_dialect("thyme").open(Task(id="-", question="", media=pictures)).files)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with whole paths that are keys of `names` replaced, all at once."""
    if not names:
        return text
    any_path = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    pattern = rf"(?<![\w./-])(?:{any_path})(?![\w/-]|\.\w)"
    return re.sub(pattern, lambda match: names[match.group()], text)


CONVERTED = RowFormat(ThymeCodec())
RAW = RowFormat(ThymeCodec(inline=True))
