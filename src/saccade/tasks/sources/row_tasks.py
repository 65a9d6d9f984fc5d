"""From a row of a user's file to a task: what a scan can say of it, and the whole task when it is wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from saccade.record.task import OPEN, AnswerType, Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.make_task import Draft, draft, make_task, task_id
from saccade.tasks.benchmarks.media_files import MediaFiles
from saccade.tasks.benchmarks.pictures import RowMediaReader, items
from saccade.tasks.benchmarks.problem import FieldError
from saccade.tasks.benchmarks.values import as_text, missing
from saccade.tasks.sources.forms import plain_row
from saccade.tasks.sources.reader import TaskSummary, light_of
from saccade.tasks.sources.recorded import check_media, recorded_task
from saccade.tasks.sources.settings import FieldNames, SourceSettings
from saccade.tasks.sources.tables import UNREAD

_NUMBER = re.compile(r"[-+]?\$?\s?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?%?")
_TASK = "task@0/"
_USUAL_NAMES = FieldNames()


@dataclass(frozen=True, slots=True)
class RowTasks:
    """Makes tasks of the rows of one source."""

    label: str
    """Begins the ids of its tasks, and is their source."""
    settings: SourceSettings

    def light(self, row: Mapping[str, Any], files: MediaFiles) -> TaskSummary:
        """What a row says, its pictures and videos looked for and not opened. Raises `FieldError`."""
        plain = self._plain(row)
        pictures, videos = _look_for(plain, "images", files), _look_for(plain, "videos", files)
        if (recorded := self._recorded(row)) is not None:
            return replace(light_of(recorded), id=self._id(_named(plain)))
        said = draft(plain, _card(*_shape(plain), self.settings.fields))
        if plain.get("images") is not UNREAD:
            _check_places(plain, len(items(plain.get("images", []))))
        kind = _type(said, plain)
        answered, count = said.answer is not None, pictures + videos
        return TaskSummary(self._id(said.id), plain["tags"], kind, answered, count, _grader(plain), videos=videos)

    def task(self, row: Mapping[str, Any], media: RowMediaReader) -> Task:
        """The task. Raises `FieldError`, also for a picture that cannot be used."""
        plain = self._plain(row)
        if (recorded := self._recorded(row)) is not None:
            videos = tuple(media.video(item) for item in items(plain.get("videos", [])))
            check_media(recorded, (*media.images(plain.get("images", [])), *videos))
            return recorded.model_copy(update={"id": self._id(_named(plain))})
        made = make_task(plain, _card(*_shape(plain), self.settings.fields), media)
        _check_places(plain, sum(item.name.startswith("image") for item in made.media))
        said = Draft(made.id, made.question, made.choices, made.answer, made.answer_type, made.split)
        changes = {
            "id": self._id(said.id),
            "source": self.label,
            "answer_type": _type(said, plain),
            "grader": _grader(plain),
            "tags": plain["tags"],
            "difficulty": _difficulty(plain),
        }
        return made.model_copy(update=changes)

    def _recorded(self, row: Mapping[str, Any]) -> Task | None:
        """The task that a row holds as a record, unless the settings say where its parts stand."""
        if "extra_info" not in row or self.settings.fields != _USUAL_NAMES:
            return None
        return recorded_task(row)

    def _plain(self, row: Mapping[str, Any]) -> dict[str, Any]:
        plain = plain_row(row, self.settings.fields)
        if "question" not in plain:
            if not self.settings.question:
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
"""Tag of a task about finding something in a picture, as rewards that pay for looking there know it."""


def _shape(plain: Mapping[str, Any]) -> tuple[str, bool]:
    """Where the choices of a row stand, and whether it has a hint."""
    columns = "A" in plain and "choices" not in plain
    return "columns" if columns else "field" if "choices" in plain else "question", "hint" in plain


@cache
def _card(choices: str, hint: bool, names: FieldNames) -> Card:
    """How a plain row is read."""
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
                "split": "split",
            },
            "graders": {"text": "text@1", "choice": "choice@1"},
        }
    )


def _type(said: Draft, plain: Mapping[str, Any]) -> AnswerType:
    """The type of the answer: as the gold one looks, where nothing says otherwise."""
    if said.answer_type is not AnswerType.TEXT or said.answer is None:
        return said.answer_type
    if said.answer.lower() in ("yes", "no"):
        return AnswerType.YES_NO
    return AnswerType.NUMBER if _NUMBER.fullmatch(said.answer) else AnswerType.TEXT


def _grader(plain: Mapping[str, Any]) -> str:
    rule = as_text(plain.get("grader", ""), "grader")
    return with_open(rule, True) if plain.get("open") else rule


def with_open(grader: str, is_open: bool | None) -> str:
    """`grader` of a task whose answer is open, or is not; None: as it is."""
    rule = grader.partition("|")[2] if grader.partition("|")[0] == OPEN else grader
    if is_open is None:
        return grader
    return (f"{OPEN}|{rule}" if rule else OPEN) if is_open else rule


def _difficulty(plain: Mapping[str, Any]) -> float | None:
    value = plain.get("difficulty")
    return float(value) if isinstance(value, int | float) and not missing(value) else None


def _named(plain: Mapping[str, Any]) -> str:
    """The id of a row that holds its task as a whole."""
    return task_id(_card("field", False, _USUAL_NAMES), as_text(plain["id"], "id"))


def _look_for(plain: Mapping[str, Any], name: str, files: MediaFiles) -> int:
    """How many pictures or videos a row names; raises `FieldError` for a file that is not there."""
    if (value := plain.get(name)) is None:
        return 0
    listed = [UNREAD] if value is UNREAD else items(value)
    for item in listed:
        if item is not UNREAD:
            files.named(item)
    return len(listed)


def _check_places(plain: Mapping[str, Any], pictures: int) -> None:
    """Refuse a question that has places for more pictures than its row has."""
    places = plain["question"].count("<image>")
    if places > pictures:
        raise FieldError("images", f"the question has places for {places} pictures, and the row has {pictures}")
