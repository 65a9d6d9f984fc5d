"""The forms that rows of this field have, brought into one: what a task needs, under one name each.

    verl, DeepEyes, CodeDance, PyVision-RL   `prompt`, `reward_model.ground_truth`, `extra_info`, `images`, `mm_hint`
        with `extra_info.record`, as `saccade convert` writes them: `recorded.py` takes the whole task from there
    LLaVA, ShareGPT, LLaMA-Factory, ms-swift `conversations` or `messages`, `images`, `videos`
    VLMEvalKit                               `question`, `hint`, columns `A`, `B`, ..., `answer`, `image`
    everything else                          fields under their usual names, or those that the user says

Which form a row has, its own fields say. A value that was not read yet (`UNREAD`) stays one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

from saccade.media.suffixes import suffixes_of
from saccade.tasks.benchmarks.loaders.rows import from_verl
from saccade.tasks.benchmarks.problem import FieldError
from saccade.tasks.benchmarks.values import as_list, first_value, missing
from saccade.tasks.sources.settings import FieldNames

USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "qid", "question_id", "uid", "index"),
    "question": ("question", "query", "problem", "instruction", "prompt", "text"),
    "images": ("images", "image", "image_path", "image_paths", "img", "img_path", "picture", "photo", "file_name"),
    "videos": ("videos", "video", "video_path", "video_paths"),
    "answer": ("answer", "ground_truth", "gold", "gt_answer", "solution", "label", "target"),
    "choices": ("choices", "options"),
    "boxes": ("boxes", "bbox", "bboxes", "evidence"),
    "category": ("category",),
}
"""Field of a task -> how rows usually name it; the first that has a value counts."""
_TAGS = ("data_source", "ability", "env_name", "source_dataset", "dataset", "subject", "type", "level", "l2-category")
_SAID = ("grader", "open", "search", "difficulty", "hint", "tags")
_FLAGS = ("open", "search")
_SAY_YES, _SAY_NO = ("true", "yes", "1"), ("false", "no", "0", "")
"""As files of plain text say it, in any case."""
_LONGEST_TAG = 100
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_PLACE = "<image>"
_ASKS, _TELLS = ("human", "user"), ("gpt", "assistant")
_VIDEO: Final = suffixes_of("video")


def plain_row(row: Mapping[str, Any], names: FieldNames) -> dict[str, Any]:
    """The row with the fields of a task under the names of `USUAL`, those that it has.

    Raises:
        FieldError: its form is known, and it is not as the form says.
    """
    given = _adapted(row)
    plain: dict[str, Any] = {"_row": row.get("_row")}
    said, extra, tagged = _named_in(tuple(given), names)
    for field, named in said:
        value = first_value(given, named)
        if value is not None:
            plain[field] = value
    if not isinstance(plain.get("question", ""), str):
        plain.pop("question")
    if "choices" not in plain and not missing(row.get("A")) and not missing(row.get("B")):
        plain |= {letter: row.get(letter) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter in row}
    if extra:
        plain |= {name: given[name] for name in extra if not missing(given[name])}
        plain |= {name: _flag(plain[name], name) for name in _FLAGS if name in plain}
    split = given["split"] if "split" in given else _inner(given, "extra_info").get("split")
    if isinstance(split, str) and split:
        plain["split"] = split
    _sort_media(plain)
    plain["tags"] = tuple(_tags(given, plain, tagged))
    return plain


@lru_cache(64)
def _named_in(
    row: tuple[str, ...], names: FieldNames
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...], tuple[str, ...]]:
    """For rows of these fields: those of a task and under which names, what else is told of it, what becomes a tag."""
    asked = {field: getattr(names, field) for field in USUAL}
    usual = {field: tuple(name for name in known if name in row) for field, known in USUAL.items()}
    said = tuple((field, asked[field] or usual[field]) for field in USUAL if asked[field] or usual[field])
    return said, tuple(name for name in _SAID if name in row), tuple(name for name in _TAGS if name in row)


def _adapted(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of one of the forms with what they hide under plain names."""
    if isinstance(row.get("prompt"), list) or "reward_model" in row:
        row = from_verl(row)
    elif (talk := row.get("conversations", row.get("messages"))) is not None:
        row = {**row, **_said(talk, row)}
    if "mm_hint" in row and (hint := _inner(row, "mm_hint")).get("hint_path"):
        kind = "videos" if hint.get("hint_type") == "video" else "images"
        row = {**{key: value for key, value in row.items() if key != kind}, kind: hint["hint_path"]}
    return row


def _said(talk: object, row: Mapping[str, Any]) -> dict[str, Any]:
    """`question` and `answer` of a conversation: the first that the user says, and the last that the model does.

    Where every picture has its place, those shown once the model has begun to answer are none of the task's.
    """
    if not isinstance(talk, list) or not all(isinstance(turn, Mapping) for turn in talk):
        raise FieldError("conversations", "it is no list of turns")
    turns = [(turn.get("from", turn.get("role")), _text(turn.get("value", turn.get("content")))) for turn in talk]
    asked = next((text for role, text in turns if role in _ASKS), None)
    reply = next((text for role, text in reversed(turns) if role in _TELLS), None)
    said: dict[str, Any] = {} if asked is None else {"question": row.get("question") or asked}
    if reply is not None and not any(not missing(row.get(name)) for name in USUAL["answer"]):
        said["answer"] = _final(reply)
    images = row.get("images")
    if isinstance(images, list) and sum(text.count(_PLACE) for _, text in turns) == len(images):
        said["images"] = images[
            : sum(text.count(_PLACE) for _, text in takewhile(lambda turn: turn[0] not in _TELLS, turns))
        ]
    return said


def _text(content: object) -> str:
    """The text of a message, which may be a list of parts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""


def _final(text: str) -> str:
    """The answer that a text ends in, where it marks one; else all of it."""
    for pattern in (_ANSWER, _BOXED):
        marked = pattern.findall(text)
        if marked:
            return str(marked[-1]).strip()
    return text.strip()


def _sort_media(plain: dict[str, Any]) -> None:
    """A video that stands among the pictures goes to the videos, and `file_name` to what it is."""
    images = plain.get("images")
    if isinstance(images, str) and images.lower().endswith(_VIDEO):
        plain["videos"] = plain.pop("images")
    elif isinstance(images, list):
        moved = [item for item in images if isinstance(item, str) and item.lower().endswith(_VIDEO)]
        if moved:
            plain["images"] = [item for item in images if item not in moved]
            plain["videos"] = [*moved, *as_list(plain.get("videos", []))]


def _tags(row: Mapping[str, Any], plain: Mapping[str, Any], tagged: tuple[str, ...]) -> Iterator[str]:
    if "tags" in row:
        tags = row["tags"] or []
        listed = [f"{name}={value}" for name, value in tags.items()] if isinstance(tags, Mapping) else as_list(tags)
        yield from (str(tag) for tag in listed if tag)
    named = [(name, row[name]) for name in tagged]
    for name, value in (("category", plain.get("category")), *named):
        if isinstance(value, str | int) and value != "" and len(str(value)) <= _LONGEST_TAG:
            yield f"{name}={value}"


def _flag(value: object, name: str) -> bool:
    """What a row says of a thing that is or is not. Raises `FieldError` for another word."""
    said = str(value).strip().lower().removesuffix(".0")
    if said not in (*_SAY_YES, *_SAY_NO):
        raise FieldError(name, f"{value!r} is neither true nor false")
    return said in _SAY_YES


def _inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}
