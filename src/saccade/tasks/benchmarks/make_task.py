"""A row becomes a task, as its card says; or a `FieldError` names the field that is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import AnswerType, NamedMedia, Task
from saccade.tasks.benchmarks.boxes import evidence
from saccade.tasks.benchmarks.card import SAME_QUESTION, Card
from saccade.tasks.benchmarks.options import choices_of, split_question
from saccade.tasks.benchmarks.pictures import RowMediaReader
from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import as_list, as_text, first_value, matches

_LONGEST_ID = 200
_PLACEHOLDERS = ("<image>", "<video>")
_TIGHT_PLACEHOLDER = re.compile(r"<image(\d{1,4})>")


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before its media are read."""

    id: str
    question: str
    choices: tuple[str, ...]
    answer: str | None
    answer_type: AnswerType
    split: str


def draft(row: Mapping[str, Any], card: Card) -> Draft:
    """What a row says of its task without its media. Raises `FieldError` as `make_task`."""
    question, choices = _question(row, card)
    answer_type = _answer_type(row, card, choices)
    answer = _answer(row, card, choices)
    if answer_type is AnswerType.CHOICE:
        _check_choice(answer, choices)
    own = as_text(_needed(row, card.fields.id, "id"), "id")
    split = as_text(first_value(row, card.fields.split) or card.split, "split")
    return Draft(task_id(card, own), question, choices, answer, answer_type, split)


def make_task(row: Mapping[str, Any], card: Card, media: RowMediaReader) -> Task:
    """The task of a row. The same row, card and media give an equal task.

    Raises:
        FieldError: a field of the task cannot be had.
        UnavailableError: the row has a video, and what reads videos is not installed.
    """
    said = draft(row, card)
    parts = _media(row, card, media)
    fields = {
        "id": said.id,
        "question": said.question,
        "media": parts,
        "choices": said.choices,
        "answer": said.answer,
        "answer_type": said.answer_type,
        "evidence": evidence(row, card.fields, parts),
        "source": card.id,
        "split": said.split,
        "tags": tags_of(row, card, said.question, parts),
    }
    try:
        return Task.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise FieldError(".".join(map(str, first["loc"])) or "task", first["msg"]) from error


def task_id(card: Card, own: str) -> str:
    """The id of the task whose row is called `own`; the end of a very long one is its sha256."""
    full = f"{card.id}/{card.part}/{own}" if card.part else f"{card.id}/{own}"
    return full if len(full) <= _LONGEST_ID else f"{full[:150]}-{sha256(full.encode()).hexdigest()[:32]}"


def _question(row: Mapping[str, Any], card: Card) -> tuple[str, tuple[str, ...]]:
    """The question and the choices. What looks like options inside a question is none if no gold answer names one."""
    text = _without_placeholders(as_text(_needed(row, card.fields.question, "question"), "question").strip())
    if not text:
        raise FieldError("question", "it has no words")
    question, choices = text, choices_of(row, card.fields)
    if card.fields.choices_from == "question":
        question, choices = split_question(text)
        if choices and not _names_one(row, card, choices):
            question, choices = text, ()
    hint = first_value(row, card.fields.hint)
    if hint is not None:
        question = f"{as_text(hint, 'hint').strip()}\n{question}"
    return _TIGHT_PLACEHOLDER.sub(r"<image \1>", question), choices


def _without_placeholders(text: str) -> str:
    """A question without the marks before and after it that stand for its media; those inside it stay."""
    for mark in _PLACEHOLDERS:
        while text.startswith(mark):
            text = text.removeprefix(mark).strip()
        while text.endswith(mark):
            text = text.removesuffix(mark).strip()
    return text


def _names_one(row: Mapping[str, Any], card: Card, choices: Sequence[str]) -> bool:
    try:
        return _answer(row, card, choices) in choices
    except FieldError:
        return False


def _answer_type(row: Mapping[str, Any], card: Card, choices: Sequence[str]) -> AnswerType:
    for case in card.cases:
        if matches(row, case.when):
            return case.answer_type
    return AnswerType.CHOICE if choices else card.answer_type


def _answer(row: Mapping[str, Any], card: Card, choices: Sequence[str]) -> str | None:
    if choices and card.fields.answer_is == "first-choice":
        return choices[0]
    if card.fields.without_answers and first_value(row, card.fields.answer) is None:
        return None
    value = _needed(row, card.fields.answer, "answer")
    if not choices or card.fields.answer_is == "text":
        text = as_text(value, "answer").strip()
        return card.fields.answer_names.get(text, text)
    if card.fields.answer_is in ("index-0", "index-1"):
        return _by_index(value, 1 if card.fields.answer_is == "index-1" else 0, choices)
    return _by_letter(as_text(value, "answer").strip(), choices, card.fields.answer_is == "letter-or-text")


def _check_choice(answer: str | None, choices: Sequence[str]) -> None:
    if not choices:
        raise FieldError("choices", "the card says that there are some, and the row has none")
    if answer is not None and answer not in choices:
        raise FieldError("answer", f"{short(answer)} is none of the choices {short(list(choices))}")


def _by_index(value: object, first: int, choices: Sequence[str]) -> str:
    text = as_text(value, "answer")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 0 <= int(text) - first < len(choices):
        raise FieldError(
            "answer", f"{short(value)} is no number of a choice, from {first} to {len(choices) - 1 + first}"
        )
    return choices[int(text) - first]


def _by_letter(text: str, choices: Sequence[str], or_text: bool) -> str:
    letter = re.fullmatch(r"\(?([A-Za-z])\)?\.?", text)
    index = ascii_uppercase.index(letter[1].upper()) if letter else len(choices)
    named = choices[index] if index < len(choices) else None
    written = text if or_text and text in choices else None
    if named is not None and written is not None and named != written:
        raise FieldError("answer", f"{text!r} is the letter of {named!r} and the text of another choice")
    gold = written if written is not None else named
    if gold is None:
        raise FieldError("answer", f"{short(text)} names none of the {len(choices)} choices")
    return gold


def _media(row: Mapping[str, Any], card: Card, media: RowMediaReader) -> tuple[NamedMedia, ...]:
    parts: list[NamedMedia] = []
    optional = card.media == "text"
    if (named := _media_value(row, card.fields.images, "images", optional)) is not None:
        images: tuple[ImagePart, ...] = media.images(named)
        parts += [NamedMedia(name=f"image_{number}", part=part) for number, part in enumerate(images)]
    if (named := _media_value(row, card.fields.videos, "videos", optional)) is not None:
        videos: list[VideoPart] = [media.video(v) for v in as_list(named)]
        parts += [NamedMedia(name=f"video_{number}", part=part) for number, part in enumerate(videos)]
    if not parts and card.media != "text":
        raise FieldError("media", "it names no picture and no video")
    return tuple(parts)


def _media_value(row: Mapping[str, Any], names: Sequence[str], field: str, optional: bool) -> Any:
    """What a row names as its media; None where its card names no such field."""
    return first_value(row, names) if optional or not names else _needed(row, names, field)


def tags_of(
    row: Mapping[str, Any], card: Card, question: str, media: Sequence[NamedMedia] | None = None
) -> tuple[str, ...]:
    """The tags of a row; those that its media decide are left out where `media` is None. Raises `FieldError`."""
    tags = [(name, first_value(row, names)) for name, names in card.fields.tags.items()]
    if card.fields.group != (SAME_QUESTION,):
        tags.append(("group", first_value(row, card.fields.group)))
    elif media is not None:
        same = "\0".join([question, *(item.part.sha256 for item in media)])
        tags.append(("group", sha256(same.encode()).hexdigest()[:16]))
    tags.append(("variant", first_value(row, card.fields.variant)))
    return tuple(f"{name}={_tag(value, name)}" for name, value in tags if value is not None)


def _tag(value: object, name: str) -> str:
    return ", ".join(as_text(item, name) for item in as_list(value))


def _needed(row: Mapping[str, Any], names: Sequence[str], field: str) -> Any:
    value = first_value(row, names)
    if value is None:
        raise FieldError(field, f"the row has no value for {' or '.join(names)}")
    return value
