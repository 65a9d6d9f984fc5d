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
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from saccade.errors import RecordError
from saccade.record.content import ImagePart, Role, clean_text
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.benchmarks.row_files import FieldError
from saccade.tasks.sources.folder import check_media, edited
from saccade.training.sft.formats.conversation import (
    IMAGE,
    VIDEO,
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
    unflatten,
)
from saccade.training.sft.formats.files import MediaIn, MediaOut, Row, listed

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
        """Return the conversation as a row. Raises `RecordError` for a conversation that does not alternate."""
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
        return read_columns(row, into)

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        lines = read_lines(row.get("conversations"), ("value", "content"), ("from", "role"))
        system = row.get("system")
        if isinstance(system, str) and system:
            lines = (RoleMessage("system", system), *lines)
        return unflatten(Conversation(about, lines, parts))


def media_columns(talk: Conversation, out: MediaOut) -> Row:
    """Return the columns `images` and `videos`; both in every row, since trainers expect them."""
    images = [out.path(part) for part in talk.media if isinstance(part, ImagePart)]
    videos = [out.path(part) for part in talk.media if not isinstance(part, ImagePart)]
    return {"images": images, "videos": videos}


def read_columns(row: Mapping[str, Any], into: MediaIn) -> Parts:
    """Return the media of the columns `images` and `videos`."""
    images = [into.image(named) for named in listed(row, "images", "image")]
    return (*images, *(into.video(named) for named in listed(row, "videos", "video")))


def read_lines(said: object, texts: Sequence[str], roles: Sequence[str]) -> tuple[RoleMessage, ...]:
    """Return the lines of a list of messages; without roles they alternate, the user first. Raises `RecordError`."""
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


# `swift`: `messages` of `role` and `content`, as ms-swift trains on them.
#
#     {"messages": [{"role": "user", "content": "<image>..."}, {"role": "assistant", "content": "..."}],
#      "images": ["media/....png"], "videos": []}
#
# What is held is said in `conversation.py`. Paths are relative to the folder of the rows: set ROOT_IMAGE_DIR to it, or
# write absolute ones with `--root`. The masks of ms-swift follow roles, so an observation inside the assistant's
# message (dialect `thyme`) is trained on unless its template masks it.


@dataclass(frozen=True, slots=True)
class SwiftCodec(ConversationCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        talk = flatten(trajectory)
        messages = [{"role": line.role, "content": line.text} for line in talk.lines]
        return {**labels(trajectory), "messages": messages, **media_columns(talk, out)}

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        return read_columns(row, into)

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        return unflatten(Conversation(about, read_lines(row.get("messages"), ("content",), ("role",)), parts))


SWIFT_FORMAT = RowFormat(SwiftCodec())

# What formats have in common whose rows hold a task and its prompt, and no turns: `verl` and `pyvision-rl`.
#
#     data_source, prompt [{role, content}], env_name, ability, reward_model {style, ground_truth},
#     extra_info {index, id, task, question, answer, dialect, split, record}, mm_hint {hint_path, hint_type}
#
# Of a trajectory are held its id, dialect and prompt, and the task as a whole: `record` is the task as JSON, which
# trainers leave aside. Question and gold answer are those of the row, so whoever edits them there has edited the task.
# Media of a task that its prompt does not show (a video that the program opens, a picture given as a hint) come after
# those shown. `style` is `model`, `ability` empty; `env_name` is the one under which released trainers know the
# dialect.

ENVIRONMENTS: Final = {
    "deepeyes": "visual_toolbox_v2",
    "pyvision-rl-image": "pyvision_gym_w_image_hint",
    "pyvision-rl-image-no-hint": "pyvision_gym_wo_image_hint",
    "pyvision-rl-video": "pyvision_gym_wo_video_hint",
}
_DIALECTS = {environment: name for name, environment in ENVIRONMENTS.items()}
_UNTAGGED = re.compile(r"(?<!<image_clue_\d>)<image>")


@dataclass(frozen=True, slots=True)
class TaskRowCodec(ConversationCodec):
    """Base of the codecs of these formats."""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take labels from `extra_info`, the gold answer from `reward_model`; `env_name` stands for a dialect."""
        extra = inner(row, "extra_info")
        source, index = row.get("data_source"), extra.get("index")
        return {
            **extra,
            "id": extra.get("id") or (None if index is None else f"{source}-{index}"),
            "answer": inner(row, "reward_model").get("ground_truth", extra.get("answer")),
            "dialect": extra.get("dialect") or _DIALECTS.get(str(row.get("env_name"))),
            "source_dataset": source,
        }

    def held(self, trajectory: Trajectory) -> Trajectory:
        kept = held(trajectory.model_copy(update={"turns": ()}))
        return kept.model_copy(update={"task": trajectory.task})

    def media(self, trajectory: Trajectory) -> Parts:
        """Return pictures, then videos, of each those that the prompt shows first."""
        shown = [part for message in trajectory.prompt for part in message.media]
        parts = [*shown, *(item.part for item in trajectory.task.media if item.part not in shown)]
        return tuple(sorted(parts, key=lambda part: not isinstance(part, ImagePart)))

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """Return pictures and videos, by their columns or as the hint."""
        hint = inner(row, "mm_hint")
        path, is_video = hint.get("hint_path"), hint.get("hint_type") == "video"
        images, videos = listed(row, "images"), listed(row, "videos")
        if path and not is_video and not images:
            images = [path]
        if path and is_video and not videos:
            videos = [path]
        return (*(into.image(named) for named in images), *(into.video(named) for named in videos))

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """Return the trajectory, without turns."""
        lines = read_lines(row.get("prompt"), ("content",), ("role",))
        if any(line.role == "assistant" for line in lines):
            raise RecordError("its prompt holds what a model wrote, and rows of this format hold tasks")
        extra = inner(row, "extra_info")
        record, hinted = extra.get("record"), bool(inner(row, "mm_hint").get("hint_path"))
        if hinted and dialect_of(about.dialect).id.startswith("pyvision-rl-image@"):
            lines = _tagged(lines)
        shown, hidden = _shown(lines, parts) if record or hinted else (parts, ())
        read = unflatten(Conversation(about, lines, shown))
        task = (
            _recorded(record, parts, about) if isinstance(record, str) and record else _plain(read.task, hidden, extra)
        )
        return read.model_copy(update={"task": task})


def task_fields(trajectory: Trajectory, lines: Sequence[RoleMessage], hint: Row | None) -> Row:
    """Return the row of a trajectory, but for its columns of media."""
    task = trajectory.task
    name = trajectory.provenance.dialect.partition("@")[0]
    return {
        "data_source": task.source,
        "prompt": [{"role": line.role, "content": line.text} for line in lines],
        "env_name": ENVIRONMENTS.get(name, ""),
        "ability": "",
        "reward_model": {"style": "model", "ground_truth": task.answer},
        "extra_info": {
            "index": 0,
            "id": trajectory.id,
            "task": task.id,
            "question": task.question,
            "answer": task.answer,
            "dialect": trajectory.provenance.dialect,
            "split": task.split,
            "record": task.model_dump_json(),
        },
        "mm_hint": hint,
    }


def hint_of(trajectory: Trajectory, parts: Parts, out: MediaOut) -> Row | None:
    """Find PyVision-RL's hint: its one picture or video, by its path. None in other dialects, or for several."""
    if not trajectory.provenance.dialect.startswith("pyvision-rl") or len(parts) != 1:
        return None
    return {"hint_path": out.path(parts[0]), "hint_type": parts[0].kind}


def inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table inside a row; an empty one where there is none."""
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


def _tagged(lines: Sequence[RoleMessage]) -> tuple[RoleMessage, ...]:
    """Return the lines as PyVision-RL's loader shows them: with its tags around a picture that has none."""
    return tuple(replace(line, text=_UNTAGGED.sub("<image_clue_0><image></image_clue_0>", line.text)) for line in lines)


def _shown(lines: Sequence[RoleMessage], parts: Parts) -> tuple[Parts, Parts]:
    """Return the media for which the lines have a place, and the others."""
    shown: list[Any] = []
    hidden: list[Any] = []
    for mark, is_image in ((IMAGE, True), (VIDEO, False)):
        places = sum(line.text.count(mark) for line in lines)
        kind = [part for part in parts if isinstance(part, ImagePart) is is_image]
        shown += kind[:places]
        hidden += kind[places:]
    return tuple(shown), tuple(hidden)


def _recorded(record: str, parts: Parts, about: ConversationFacts) -> Task:
    """Return the task that a row holds as JSON, with the row's own question and answer."""
    try:
        task = edited(record, about.question, about.answer)
        check_media(task, parts)
    except FieldError as error:
        raise RecordError(str(error)) from error
    return task


def _plain(task: Task, hidden: Parts, extra: Mapping[str, Any]) -> Task:
    """Return a task of a row of others: with the media that its prompt does not show, and the split."""
    split, known = extra.get("split"), len(task.media)
    more = tuple(NamedMedia(name=f"media_{number}", part=part) for number, part in enumerate(hidden, known))
    text = clean_text(split) if isinstance(split, str) else ""
    return task.model_copy(update={"media": (*task.media, *more), "split": text})
