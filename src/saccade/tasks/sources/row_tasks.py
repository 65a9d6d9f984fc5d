"""Turn a row of a user's file, in any known form, into a task or, for a scan, its summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from saccade.errors import DataError
from saccade.media.decode import suffixes_of
from saccade.media.store import MediaStore
from saccade.record.content import escape_places
from saccade.record.task import OPEN, AnswerType, Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.rows import from_verl
from saccade.tasks.benchmarks.make_task import Draft, draft, gold_in_pixels, make_task, task_id
from saccade.tasks.benchmarks.row_files import (
    FieldError,
    MediaFiles,
    RowMediaReader,
    RowProblem,
    as_list,
    as_text,
    first_value,
    items,
    missing,
)
from saccade.tasks.sources.folder import TaskSummary, check_media, content_of, recorded_task, summary_of
from saccade.tasks.sources.settings import FieldNames, SourceSettings, rotations
from saccade.tasks.sources.tables import UNREAD, RowPlace, RowTable

# Known forms of rows, told apart by their fields. Values not read yet (`UNREAD`) pass through.
#
#     verl, DeepEyes, CodeDance, PyVision-RL   `prompt`, `reward_model.ground_truth`, `extra_info`, `images`, `mm_hint`
#         with `extra_info.record`, as `saccade convert` writes them: the whole task, see `recorded_task`
#     LLaVA, ShareGPT, LLaMA-Factory, ms-swift `conversations` or `messages`, `images`, `videos`
#     VLMEvalKit                               `question`, `hint`, columns `A`, `B`, ..., `answer`, `image`
#     everything else                          fields under their usual names, or those that the user gives

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
"""Field of a task -> its usual names in rows, in any case; the first with a value counts."""
_TAGS = ("data_source", "ability", "env_name", "source_dataset", "dataset", "subject", "type", "level", "l2-category")
_SAID = ("grader", "open", "search", "difficulty", "hint", "tags")
_FLAGS = ("open", "search")
_SAY_YES, _SAY_NO = ("true", "yes", "1"), ("false", "no", "0", "")
"""Flags in text files, in any case."""
_LONGEST_TAG = 100
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_PLACE = "<image>"
_ASKS, _TELLS = ("human", "user"), ("gpt", "assistant")
_VIDEO: Final = suffixes_of("video")


def plain_row(row: Mapping[str, Any], names: FieldNames) -> dict[str, Any]:
    """Rename the fields of a row to the keys of `USUAL`. Raises `FieldError` if its form is known, and the row does not
    follow it.
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
    if "images" not in plain and (numbered := _numbered(tuple(given))):
        plain["images"] = [given[name] for name in numbered if not missing(given[name])]
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
def _numbered(row: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns `image_1`, `image_2`, ... of MMMU's form, in their order."""
    found = ((int(match[1]), name) for name in row if (match := re.fullmatch(r"image_?([1-9]\d?)", name)))
    return tuple(name for _, name in sorted(found))


@lru_cache(64)
def _named_in(
    row: tuple[str, ...], names: FieldNames
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...], tuple[str, ...]]:
    """Find for rows with these fields: task fields with their names, further settings, and fields that become tags."""
    asked = {field: getattr(names, field) for field in USUAL}
    spelled = {name.lower(): name for name in row} | {name: name for name in row}
    usual = {field: tuple(spelled[name] for name in known if name in spelled) for field, known in USUAL.items()}
    said = tuple((field, asked[field] or usual[field]) for field in USUAL if asked[field] or usual[field])
    return said, tuple(name for name in _SAID if name in row), tuple(name for name in _TAGS if name in row)


def _adapted(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Bring nested values of a known form under plain names."""
    if isinstance(row.get("prompt"), list) or "reward_model" in row:
        row = from_verl(row)
    elif (talk := row.get("conversations", row.get("messages"))) is not None:
        row = {**row, **_said(talk, row)}
    if "mm_hint" in row and (hint := _inner(row, "mm_hint")).get("hint_path"):
        kind = "videos" if hint.get("hint_type") == "video" else "images"
        row = {**{key: value for key, value in row.items() if key != kind}, kind: hint["hint_path"]}
    return row


def _said(talk: object, row: Mapping[str, Any]) -> dict[str, Any]:
    """Read `question` (first user turn) and `answer` (last model turn) from a conversation.

    If every picture has a placeholder, those after the model's first turn are not the task's.
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
    """Return the text of a message, which may be a list of parts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        return "".join(str(part.get("text") or "") for part in parts)
    return content if isinstance(content, str) else ""


def _final(text: str) -> str:
    """Return the last answer that a text marks, or else all of it."""
    for pattern in (_ANSWER, _BOXED):
        marked = pattern.findall(text)
        if marked:
            return str(marked[-1]).strip()
    return text.strip()


def _sort_media(plain: dict[str, Any]) -> None:
    """Move videos listed among the pictures (as `file_name` may be) to the videos."""
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
    """Read true or false. Raises `FieldError` for another word."""
    said = str(value).strip().lower().removesuffix(".0")
    if said not in (*_SAY_YES, *_SAY_NO):
        raise FieldError(name, f"{value!r} is neither true nor false")
    return said in _SAY_YES


def _inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


_NUMBER = re.compile(r"[-+]?\$?\s?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?%?")
_OF_BOXES = ("box", "iou", "point")
_TASK = "task@0/"
_USUAL_NAMES = FieldNames()


@dataclass(frozen=True, slots=True)
class RowTasks:
    """Makes tasks of the rows of one source."""

    label: str
    """Prefix of the ids of its tasks, and their source."""
    settings: SourceSettings

    def summary(self, row: Mapping[str, Any], files: MediaFiles) -> TaskSummary:
        """Summarise a row; its media must exist but are not opened. Raises `FieldError`."""
        plain = self._plain(row)
        pictures, videos = _look_for(plain, "images", files), _look_for(plain, "videos", files)
        if (recorded := self._recorded(row)) is not None:
            return replace(summary_of(recorded), id=self._id(_named(plain)))
        said = draft(plain, _card(*_shape(plain), self.settings.fields))
        if plain.get("images") is not UNREAD and not any(map(_has_pages, listed := items(plain.get("images", [])))):
            _check_places(plain, len(listed))
        kind = _type(said, plain)
        answered, count = said.answer is not None, pictures + videos
        media = [_told(plain.get(name)) for name in ("images", "videos")]
        content = content_of(said.question, said.choices, said.answer, media)
        grader = _grader(plain)
        name, orders = self._id(said.id), rotations(said.choices)
        return TaskSummary(name, plain["tags"], kind, answered, count, grader, (), videos, content, orders)

    def task(self, row: Mapping[str, Any], media: RowMediaReader) -> Task:
        """Make the task. Raises `FieldError`, also for a picture that cannot be used."""
        plain = self._plain(row)
        if (recorded := self._recorded(row)) is not None:
            videos = tuple(media.video(item) for item in items(plain.get("videos", [])))
            check_media(recorded, (*media.images(plain.get("images", [])), *videos))
            return recorded.model_copy(update={"id": self._id(_named(plain))})
        made = make_task(plain, _card(*_shape(plain), self.settings.fields), media)
        _check_places(plain, sum(item.name.startswith("image") for item in made.media))
        grader, answer = _grader(plain), made.answer
        if with_open(self.settings.grader or grader, False).startswith(_OF_BOXES):
            answer = gold_in_pixels(answer, _card(*_shape(plain), self.settings.fields).fields, made.media)
        said = Draft(made.id, made.question, made.choices, answer, made.answer_type, made.split)
        changes = {
            "answer": answer,
            "id": self._id(said.id),
            "source": self.label,
            "answer_type": _type(said, plain),
            "grader": grader,
            "tags": plain["tags"],
            "difficulty": _difficulty(plain),
        }
        return made.model_copy(update=changes)

    def _recorded(self, row: Mapping[str, Any]) -> Task | None:
        """Return the task recorded in a row, unless the settings name its fields."""
        if "extra_info" not in row or self.settings.fields != _USUAL_NAMES:
            return None
        return recorded_task(row)

    def _plain(self, row: Mapping[str, Any]) -> dict[str, Any]:
        plain = plain_row(row, self.settings.fields)
        if "question" not in plain:
            if not self.settings.question:
                empty = [name for name in self.settings.fields.question or USUAL["question"] if name in row]
                if empty:
                    raise FieldError(empty[0], "it is empty (null, or no text), and a task needs a question")
                shown = ", ".join(name for name in row if not name.startswith("_"))
                raise FieldError("question", f"there is none among the fields {shown}; name it with fields.question")
            plain["question"] = self.settings.question
        if "id" not in plain:
            name = row.get("_file", "")
            plain["id"] = f"{name}-{row['_row']}" if name and name != self.label else str(row["_row"])
        if plain.get("search"):
            plain["tags"] = (*plain["tags"], SEARCH)
        return plain

    def _id(self, name: str) -> str:
        return f"{self.label}/{name.removeprefix(_TASK)}"


SEARCH = "visual_search"
"""Tag of a task about finding something in a picture, which rewards for visual search look for."""


def _shape(plain: Mapping[str, Any]) -> tuple[str, bool]:
    """Return where the choices of a row are, and whether it has a hint."""
    columns = "A" in plain and "choices" not in plain
    return "columns" if columns else "field" if "choices" in plain else "question", "hint" in plain


@cache
def _card(choices: str, hint: bool, names: FieldNames) -> Card:
    return Card.model_validate(
        {
            "id": _TASK[:-1],
            "title": "rows of a file",
            "split": "",
            "media": "text",
            "prompt": "mixed",
            "answer_type": "text",
            "source": {"name": "", "url": "", "get": ""},
            "loader": {"id": "rows@1", "files": ()},
            "fields": {
                "id": "id",
                "question": "question",
                "hint": "hint" if hint else (),
                "images": "images",
                "videos": "videos",
                "answer": "answer",
                "answer_is": names.answer_is,
                "without_answers": True,
                "choices": "choices" if choices == "field" else (),
                "choices_from": choices,
                "boxes": "boxes",
                "boxes_are": names.boxes_are,
                "boxes_scale": names.boxes_scale,
                "split": "split",
            },
            "graders": {"text": "text@1", "choice": "choice@1"},
        }
    )


def _type(said: Draft, plain: Mapping[str, Any]) -> AnswerType:
    """Return the type of the answer, by default from the look of the gold answer."""
    if said.answer_type is not AnswerType.TEXT or said.answer is None:
        return said.answer_type
    if said.answer.lower() in ("yes", "no"):
        return AnswerType.YES_NO
    return AnswerType.NUMBER if _NUMBER.fullmatch(said.answer) else AnswerType.TEXT


def _grader(plain: Mapping[str, Any]) -> str:
    rule = as_text(plain.get("grader", ""), "grader")
    return with_open(rule, True) if plain.get("open") else rule


def with_open(grader: str, is_open: bool | None) -> str:
    """Mark a grader's answers as open or not; None leaves it unchanged."""
    rule = grader.partition("|")[2] if grader.partition("|")[0] == OPEN else grader
    if is_open is None:
        return grader
    return (f"{OPEN}|{rule}" if rule else OPEN) if is_open else rule


def _difficulty(plain: Mapping[str, Any]) -> float | None:
    value = plain.get("difficulty")
    return float(value) if isinstance(value, int | float) and not missing(value) else None


def _named(plain: Mapping[str, Any]) -> str:
    """Return the id of a row that holds a recorded task."""
    return task_id(_card("field", False, _USUAL_NAMES), as_text(plain["id"], "id"))


def _look_for(plain: Mapping[str, Any], name: str, files: MediaFiles) -> int:
    """Count the pictures or videos of a row. Raises `FieldError` for a missing file."""
    if (value := plain.get(name)) is None:
        return 0
    listed = [UNREAD] if value is UNREAD else items(value)
    for item in listed:
        if item is not UNREAD:
            files.named(item)
    return len(listed)


def _told(value: object) -> object:
    """Return what names media, without bytes and base64 of any length."""
    if isinstance(value, str):
        return value[:256]
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return _told(value.get("path")) if isinstance(value, Mapping) else None


def _has_pages(item: object) -> bool:
    """Tell whether a file may give several pictures, so that they are counted when the task is made."""
    return isinstance(item, str) and item.lower().endswith((".pdf", ".tif", ".tiff"))


def _check_places(plain: Mapping[str, Any], pictures: int) -> None:
    """Raise `FieldError` if the question or a choice has a place for a picture that the row does not have."""
    options = plain.get("choices", [plain.get(letter) for letter in "ABCDEFGH"])
    text = f"{plain['question']}\n{options}"
    places = max(text.count(_PLACE), *map(int, re.findall(r"(?i)<image[ _]?(\d{1,4})>", text)), 0)
    if places > pictures:
        counts = f"the question has places for {places} pictures, and the row has {pictures}"
        raise FieldError("images", f"{counts}; one that is no picture's place is written {escape_places(_PLACE)}")


class RowSpot(NamedTuple):
    """The place of a row."""

    table: int
    place: RowPlace


class RowReader:
    """Reads the rows of tables in one folder."""

    def __init__(self, rows: RowTasks, tables: tuple[RowTable, ...], folder: Path) -> None:
        self._rows, self._tables = rows, tables
        self._files = MediaFiles(folder, rows.settings.media, anywhere=True)
        self._media: dict[Path, RowMediaReader] = {}
        self._lock = Lock()

    @property
    def label(self) -> str:
        return self._rows.label

    def scan(self) -> Iterator[tuple[RowSpot, TaskSummary] | RowProblem]:
        for number, table in enumerate(self._tables):
            for place, row in table.scan():
                if isinstance(row, RowProblem):
                    yield row
                    continue
                try:
                    yield RowSpot(number, place), self._rows.summary(row.fields, self._files)
                except FieldError as error:
                    yield row.problem(error.field, error.reason)

    def make(self, spot: RowSpot, store: MediaStore) -> Task:
        row = self._tables[spot.table].read(spot.place)
        with self._lock:
            media = self._media.setdefault(store.root, RowMediaReader(self._files, store))
        try:
            return self._rows.task(row.fields, media)
        except FieldError as error:
            problem = row.problem(error.field, error.reason)
            raise DataError(
                f"{problem}. Correct the row or take it out; `saccade tasks check` lists all of them."
            ) from error
