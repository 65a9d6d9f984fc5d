"""Turn a row into a task by its card, or raise a `FieldError` that names the wrong field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task, right_choices
from saccade.tasks.benchmarks.card import SAME_QUESTION, Card, Fields
from saccade.tasks.benchmarks.row_files import (
    FieldError,
    RowMediaReader,
    as_list,
    as_text,
    first_value,
    list_in_text,
    mapping_in_text,
    matches,
    missing,
    short,
)

_LARGEST = 2**53
"""Limit of coordinates; larger whole numbers may not fit into a float."""
_OVER = 1.05
"""How far relative coordinates may reach over the edge of the picture, since annotators draw over it."""


def evidence(row: Mapping[str, Any], fields: Fields, media: Sequence[NamedMedia]) -> tuple[EvidenceBox, ...]:
    """Read a row's boxes in its first picture, clipped to it, since annotators draw over its edges. Raises `FieldError`
    if a box is no box, or is outside the picture.
    """
    value = first_value(row, fields.boxes)
    if value is None:
        return ()
    picture = next((item for item in media if isinstance(item.part, ImagePart)), None)
    if picture is None or not isinstance(picture.part, ImagePart):
        raise FieldError("boxes", "there are boxes and no picture")
    boxes = _listed(value, row, fields)
    labels = as_list(first_value(row, fields.box_labels) or "")
    if len(labels) != len(boxes):
        labels = [""] * len(boxes)
    size = (picture.part.width, picture.part.height)
    return tuple(
        EvidenceBox(image=picture.name, xyxy=_clipped(box, fields, size), label=as_text(label, "boxes"))
        for box, label in zip(boxes, labels, strict=True)
    )


def gold_in_pixels(answer: str | None, fields: Fields, media: Sequence[NamedMedia]) -> str | None:
    """Return a gold answer that is a box, or several, in pixels and x first; as it is where it counts so already.
    Raises `FieldError` if it is no box, or there is no picture to whose size it is relative.
    """
    if answer is None or (fields.boxes_are == "xyxy" and not fields.boxes_scale):
        return answer
    picture = next((item.part for item in media if isinstance(item.part, ImagePart)), None)
    numbers = list_in_text(answer) or [float(number) for number in re.findall(r"-?[0-9]+(?:\.[0-9]+)?", answer)]
    if picture is None:
        raise FieldError("answer", f"the box {short(answer)} is of a picture, and there is none")
    boxes = numbers if isinstance(numbers[0], list) else [numbers]
    return json.dumps([_clipped(box, fields, (picture.width, picture.height)) for box in boxes])


def _listed(value: object, row: Mapping[str, Any], fields: Fields) -> list[Any]:
    """Return the boxes of any form that `Fields.boxes` names."""
    if isinstance(value, str):
        listed = list_in_text(value)
        value = value if listed is None else listed
    if isinstance(value, Mapping) and "bbox" not in value:
        held = {str(key): box for key, box in value.items() if not missing(box)}
        value = _of_table(held, first_value(row, fields.box_keys) or ()) if fields.box_keys else list(held.values())
    if missing(value):
        return []
    boxes = as_list(value)
    if not isinstance(boxes[0], list | tuple | Mapping):
        boxes = [boxes]
    return [box.get("bbox") if isinstance(box, Mapping) else box for box in boxes]


def _of_table(table: Mapping[str, Any], keys: object) -> list[Any]:
    wanted = [as_text(key, "box_keys") for key in as_list(keys)]
    lost = [key for key in wanted if key not in table]
    if lost:
        raise FieldError("boxes", f"there is no box {', '.join(lost)} in {short(table)}")
    return [table[key] for key in wanted]


def _clipped(box: object, fields: Fields, size: tuple[int, int]) -> tuple[float, float, float, float]:
    numbers = [float(side) for side in box if _is_number(side)] if isinstance(box, list | tuple) else []
    if len(numbers) != 4:
        raise FieldError("boxes", f"{short(box)} is no box of four numbers")
    x0, y0, x1, y1 = numbers if fields.boxes_are != "yxyx" else (numbers[1], numbers[0], numbers[3], numbers[2])
    if fields.boxes_are == "xywh":
        x1, y1 = x0 + x1, y0 + y1
    if scale := fields.boxes_scale:
        if max(x1, y1) > scale * _OVER:
            raise FieldError("boxes", f"{short(box)} goes beyond {scale}, to which `boxes_scale` says that it counts")
        (x0, x1), (y0, y1) = (
            (low * side / scale, high * side / scale) for low, high, side in ((x0, x1, size[0]), (y0, y1, size[1]))
        )
    x0, x1 = (min(max(x, 0.0), float(size[0])) for x in (x0, x1))
    y0, y1 = (min(max(y, 0.0), float(size[1])) for y in (y0, y1))
    if not (x0 < x1 and y0 < y1):
        raise FieldError("boxes", f"{short(box)} holds nothing of a picture of {size[0]}x{size[1]} pixels")
    return x0, y0, x1, y1


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < _LARGEST
    return isinstance(value, float) and isfinite(value)


# Letters before options are removed if all have them in order (dialects write letters anew), else kept.

_HEAD = re.compile(r"\n?\s*(?:Choices?|Options?)\s*:\s*(?=\(?A\s*[.:)])", re.IGNORECASE)
_AT_LINE = re.compile(r"\n\s*(?=\(?A\s*[.:)])")
_ASKED = re.compile(
    r"\n\s*(?:Please )?(?:answer|select|choose|provide)\b[^\n]*\b(?:letters?|options?|choices?)\b[^\n]*\s*$", re.I
)
_MARK = r"(?:^|(?<=[\n;,])|(?<=\s))\s*\(?{letter}\s*[.:)]\s*"


def choices_of(row: Mapping[str, Any], fields: Fields) -> tuple[str, ...]:
    """Read the choices outside the question: a list, columns or a text with letters; by default the card's. Raises
    `FieldError` if they are there and cannot be read.
    """
    columns = _from_columns(row) if fields.choices_from == "columns" else ()
    if columns:
        return columns
    value = first_value(row, fields.choices)
    if value is None:
        return fields.default_choices
    listed = _as_options(value)
    if listed is None:
        raise FieldError("choices", f"{short(value)} is no list of options")
    texts = tuple(as_text(item, "choices").strip() for item in listed if not missing(item))
    return _without_letters(texts)


def split_question(question: str) -> tuple[str, tuple[str, ...]]:
    """Split a question that ends in its options into question and options.

    A last line that asks for the letter is removed too, since dialects ask in their own words.
    """
    if "B" not in question:  # two options at least have their letters
        return question, ()
    original, question = question, _ASKED.sub("", question)
    for head in (_HEAD, _AT_LINE):
        places = list(head.finditer(question))
        if places:
            options = lettered(question[places[-1].end() :])
            if options:
                return question[: places[-1].start()].rstrip(), options
    return original, ()


def lettered(text: str) -> tuple[str, ...]:
    """Return the options of a text such as `A.

    3; B. 4` or one line for each; none unless they begin at `A` and go to `B`.
    """
    starts: list[tuple[int, int]] = []
    for letter in ascii_uppercase:
        mark = re.compile(_MARK.format(letter=letter)).search(text, starts[-1][1] if starts else 0)
        if mark is None or (not starts and text[: mark.start()].strip()):
            break
        starts.append((mark.start(), mark.end()))
    if len(starts) < 2:
        return ()
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return tuple(text[begin:end].strip().rstrip(";,").strip() for (_, begin), end in zip(starts, ends, strict=True))


def _from_columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return fields `A`, `B`, ... up to the last that has a value; one that is empty before it is a fault."""
    present = [letter for letter in ascii_uppercase if not missing(row.get(letter))]
    expected = list(ascii_uppercase[: len(present)])
    if present != expected:
        raise FieldError("choices", f"there are the columns {', '.join(present)}, but not all before the last")
    return tuple(as_text(row[letter], letter).strip() for letter in present)


def _as_options(value: object) -> list[Any] | None:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, Mapping):
        return _of_mapping(value)
    if not isinstance(value, str):
        return None
    if value.lstrip().startswith("["):
        return list_in_text(value)
    if value.lstrip().startswith("{"):
        mapping = mapping_in_text(value)
        return None if mapping is None else _of_mapping(mapping)
    return list(lettered(value) or _letter_and_space(value)) or None


def _of_mapping(options: Mapping[Any, Any]) -> list[Any]:
    """Return the options of `{"A": "cat", "B": "dog"}`, by their letters.

    Options without a value at the end are none.
    """
    by_letter = {str(key).strip(" ().:").upper(): option for key, option in options.items() if not missing(option)}
    letters = list(ascii_uppercase[: len(by_letter)])
    if sorted(by_letter) != letters or len(by_letter) < 2:
        raise FieldError("choices", f"the keys of {short(dict(options))} are not the letters from A on")
    return [by_letter[letter] for letter in letters]


def _letter_and_space(text: str) -> tuple[str, ...]:
    """Return the options of a text with a line for each, all with their letter and no mark behind it, as `A red`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= len(ascii_uppercase):
        return ()
    own = all(line.startswith(f"{letter} ") for letter, line in zip(ascii_uppercase, lines, strict=False))
    return tuple(line[2:].strip() for line in lines) if own else ()


def _without_letters(options: tuple[str, ...]) -> tuple[str, ...]:
    if len(options) < 2 or len(options) > len(ascii_uppercase):
        return options
    bare = []
    for letter, option in zip(ascii_uppercase, options, strict=False):
        mark = re.match(rf"\(?{letter}(?:\s*[.:)]+\s+|\)\s*|\.\s*)(?=\S)", option)
        if mark is None:
            return options
        bare.append(option[mark.end() :])
    return tuple(bare)


_LONGEST_ID = 200
_PLACEHOLDERS = ("<image>", "<video>")
_NUMBERED = re.compile(r"<image[ _]?(\d{1,4})>", re.IGNORECASE)
"""The spellings of `<image 1>`."""


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
    """Read a row's task without its media. Raises `FieldError` as `make_task`."""
    question, choices = _question(row, card)
    answer_type = _answer_type(row, card, choices)
    answer = _answer(row, card, choices)
    if answer_type is AnswerType.CHOICE:
        _check_choice(answer, choices)
    own = as_text(_needed(row, card.fields.id, "id"), "id")
    split = as_text(first_value(row, card.fields.split) or card.split, "split")
    return Draft(task_id(card, own), question, choices, answer, answer_type, split)


def make_task(row: Mapping[str, Any], card: Card, media: RowMediaReader) -> Task:
    """Make the task of a row, deterministically. Raises `FieldError` if a field of the task cannot be had,
    `UnavailableError` if the row has a video, and what reads videos is not installed.
    """
    said = draft(row, card)
    parts = _media(row, card, media)
    is_box = said.answer_type is AnswerType.BOX
    fields = {
        "id": said.id,
        "question": said.question,
        "media": parts,
        "choices": said.choices,
        "answer": gold_in_pixels(said.answer, card.fields, parts) if is_box else said.answer,
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
    """Return the id of the task whose row is called `own`; the end of a very long one is its sha256."""
    full = f"{card.id}/{card.part}/{own}" if card.part else f"{card.id}/{own}"
    return full if len(full) <= _LONGEST_ID else f"{full[:150]}-{sha256(full.encode()).hexdigest()[:32]}"


def _question(row: Mapping[str, Any], card: Card) -> tuple[str, tuple[str, ...]]:
    """Return the question and the choices.

    What looks like options inside a question is none if no gold answer names one.
    """
    choices = tuple(_NUMBERED.sub(r"<image \1>", choice) for choice in choices_of(row, card.fields))
    text = as_text(_needed(row, card.fields.question, "question"), "question").strip()
    if not any(_PLACEHOLDERS[0] in choice for choice in choices):  # else its own are the first ones
        text = _without_placeholders(text)
    if not text:
        raise FieldError("question", "it has no words")
    question = text
    if card.fields.choices_from == "question":
        question, inside = split_question(text)
        if inside and _names_one(row, card, inside):
            choices = inside
        else:
            question = text
    choices = choices or next((case.choices for case in card.cases if case.choices and matches(row, case.when)), ())
    hint = first_value(row, card.fields.hint)
    if hint is not None:
        question = f"{as_text(hint, 'hint').strip()}\n{question}"
    return _NUMBERED.sub(r"<image \1>", question), choices


def _without_placeholders(text: str) -> str:
    """Return a question without the marks before and after it that stand for its media; those inside it stay."""
    for mark in _PLACEHOLDERS:
        while text.startswith(mark):
            text = text.removeprefix(mark).strip()
        while text.endswith(mark):
            text = text.removesuffix(mark).strip()
    return text


def _names_one(row: Mapping[str, Any], card: Card, choices: Sequence[str]) -> bool:
    try:
        return bool(right_choices(_answer(row, card, choices), choices))
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
        first = 1 if card.fields.answer_is == "index-1" else 0
        return _gold([_by_index(one, first, choices) for one in as_list(value)])
    or_text = card.fields.answer_is == "letter-or-text"
    text = as_text(value, "answer").strip()
    several = [] if text in choices else _several(text, choices if or_text else ())
    return _gold([_by_letter(one, choices, or_text) for one in several or [text]])


_LETTERS = re.compile(r"\(?[A-Z]\)?(?:(?:\s?[,;/&+|、，]\s?|\s?and\s|\s)?(?:and\s)?\(?[A-Z]\)?)+\.?")


def _several(text: str, texts: Sequence[str]) -> list[str]:
    """Read the letters or texts of a gold answer that names several choices (`A, C`, `AC`, `["A", "C"]`), else none."""
    if text.startswith("["):
        return [as_text(item, "answer").strip() for item in list_in_text(text) or ()]
    parts = [part.strip() for part in text.split(",")]
    named = parts if len(parts) > 1 and all(part in texts for part in parts) else []
    spelled = text.strip("{}[]")
    if not spelled.isalpha() and not named and not re.search("[a-z]{2}", spelled):
        spelled = spelled.upper()
    letters = re.findall("[A-Z]", spelled) if _LETTERS.fullmatch(spelled) else []
    return letters if len(letters) > 1 and len(set(letters)) == len(letters) else named


def _gold(named: Sequence[str]) -> str:
    """Return the gold answer of a task in which these choices are right."""
    distinct = list(dict.fromkeys(named))
    return distinct[0] if len(distinct) == 1 else json.dumps(distinct, ensure_ascii=False)


def _check_choice(answer: str | None, choices: Sequence[str]) -> None:
    if not choices:
        raise FieldError("choices", "the card says that there are some, and the row has none")
    if answer is not None and not right_choices(answer, choices):
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
    """Return what a row names as its media; None where its card names no such field."""
    return first_value(row, names) if optional or not names else _needed(row, names, field)


def tags_of(
    row: Mapping[str, Any], card: Card, question: str, media: Sequence[NamedMedia] | None = None
) -> tuple[str, ...]:
    """Return the tags of a row; those that its media decide are left out where `media` is None. Raises `FieldError`."""
    tags = [(name, first_value(row, names)) for name, names in card.fields.tags.items()]
    if card.fields.group != (SAME_QUESTION,):
        tags.append(("group", first_value(row, card.fields.group)))
    elif media is not None:
        same = "\0".join([question, *(item.part.sha256 for item in media)])
        tags.append(("group", sha256(same.encode()).hexdigest()[:16]))
    tags.append(("variant", first_value(row, card.fields.variant)))
    said = [(name, value) for name, value in tags if value is not None]
    return tuple(f"{name}={one}" for name, value in said for one in _tags(value, name, card.fields.tag_lists))


def _tags(value: object, name: str, lists: Sequence[str]) -> Sequence[str]:
    text = _tag(value, name)
    if name not in lists:
        return (text,)
    return [*dict.fromkeys(part for one in text.split(",") if (part := one.strip()))]


def _tag(value: object, name: str) -> str:
    return ", ".join(as_text(item, name) for item in as_list(value))


def _needed(row: Mapping[str, Any], names: Sequence[str], field: str) -> Any:
    value = first_value(row, names)
    if value is None:
        raise FieldError(field, f"the row has no value for {' or '.join(names)}")
    return value
