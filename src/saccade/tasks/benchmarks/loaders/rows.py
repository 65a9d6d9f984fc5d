"""Load published layouts of data sets as rows, one for each question.

`rows` reads them as they are: Hugging Face parquet, JSON lines, VISTA's lists, TabMWP's and MathVista's objects,
VSI-Bench. `llava` and `verl` first bring conversations and training rows into plain fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from saccade.core.registry import Registry, has_members
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.row_files import FieldError, RowProblem, SourceRow, as_text, count_rows, read_rows

# Define loaders, which turn files in a folder into rows, and load them by id.


class Loader(Protocol):
    """Reads data sets of one layout."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        """Return the data set's files in `folder` in reading order; none if it is not there."""

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        """Yield the rows, always in the same order, or the problem of a broken row. Raises `DataError` if a file as a
        whole cannot be read, `UnavailableError` if a needed package is not installed.
        """

    def count(self, files: tuple[Path, ...]) -> int:
        """Count the rows, for a progress bar. Raises as `rows`."""


def first_match(folder: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files of the first pattern that matches any, sorted."""
    for pattern in patterns:
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        if files:
            return tuple(files)
    return ()


LOADERS: Final = Registry[Loader](
    "loaders",
    {
        "rows@1": "saccade.tasks.benchmarks.loaders.rows:ROWS",
        "vlmevalkit@1": "saccade.tasks.benchmarks.loaders.rows:VLMEVALKIT",
        "llava@1": "saccade.tasks.benchmarks.loaders.rows:LLAVA",
        "verl@1": "saccade.tasks.benchmarks.loaders.rows:VERL",
        "folders@1": "saccade.tasks.benchmarks.loaders.rows:FOLDERS",
        "beside@1": "saccade.tasks.benchmarks.loaders.rows:BESIDE",
        "llava-final@1": "saccade.tasks.benchmarks.loaders.training_rows:LLAVA_FINAL",
        "llava-cot@1": "saccade.tasks.benchmarks.loaders.training_rows:LLAVA_COT",
        "solution@1": "saccade.tasks.benchmarks.loaders.training_rows:SOLUTION",
        "thyme@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME",
        "thyme-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME_RL",
        "pyvision-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_RL",
        "pyvision-sft@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_SFT",
        "dialogue@1": "saccade.tasks.benchmarks.loaders.training_rows:DIALOGUE",
        "mmpr@1": "saccade.tasks.benchmarks.loaders.training_rows:MMPR",
        "pickled@1": "saccade.tasks.benchmarks.loaders.training_rows:PICKLED",
        "iconqa@1": "saccade.tasks.benchmarks.loaders.rows:PROBLEMS",
        "iconqa-folders@1": "saccade.tasks.benchmarks.loaders.rows:PICTURE_CHOICES_FOLDERS",
        "ai2d@1": "saccade.tasks.benchmarks.loaders.rows:AI2D",
    },
    has_members(("find", "rows", "count")),
)


def load_loader(name: str) -> Loader:
    """Load the loader that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`). Raises
    `RegistryError` if nothing has that id (suggests the nearest), it cannot be imported, or it is no loader.
    """
    return LOADERS.load(name)


Adapt = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Adds plain fields to a row. Raises `FieldError` if the row is not as the format says."""


def as_it_is(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row, unchanged."""
    return row


@dataclass(frozen=True, slots=True)
class RowLoader:
    """Rows of files, one question each."""

    adapt: Adapt = as_it_is

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            for row in read_rows(file):
                yield row if isinstance(row, RowProblem) else self._adapted(row)

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(map(count_rows, files))

    def _adapted(self, row: SourceRow) -> SourceRow | RowProblem:
        try:
            return replace(row, fields=self.adapt(row.fields))
        except FieldError as error:
            return row.problem(error.field, error.reason)


def from_llava(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read `question` and `answer` from `conversations` of `from` and `value`: the first two turns, human then gpt."""
    turns = row.get("conversations")
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise FieldError("conversations", "it is no list of turns")
    said = [(turn.get("from"), turn.get("value")) for turn in turns if turn.get("from") != "system"]
    roles = [role for role, _ in said[:2]]
    if roles not in (["human", "gpt"], ["user", "assistant"]):
        raise FieldError("conversations", "it does not begin with a question of human and an answer of gpt")
    question, answer = (text for _, text in said[:2])
    return {**row, "question": question, "answer": answer}


def from_verl(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read `question` and `answer` from `extra_info`, `reward_model` and, without a question, `prompt` or `messages`.

    The question of a prompt is its last user message, with all that the trainer's template added.
    """
    extra, reward = _mapping(row, "extra_info"), _mapping(row, "reward_model")
    question = extra.get("question") or _last_user(row.get("prompt") or row.get("messages"))
    answer = reward.get("ground_truth", extra.get("answer"))
    index = extra.get("index")
    plain = {
        "question": question,
        "answer": answer,
        "id": extra.get("id") or (None if index is None else f"{row.get('data_source') or 'row'}-{index}"),
    }
    return {**row, **{name: value for name, value in plain.items() if value is not None}}


def _last_user(prompt: object) -> object:
    messages = prompt if isinstance(prompt, list) else []
    texts = [m.get("content") for m in messages if isinstance(m, Mapping) and m.get("role") == "user"]
    return texts[-1] if texts else None


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


ROWS = RowLoader()
LLAVA = RowLoader(from_llava)
VERL = RowLoader(from_verl)

# Data sets with a small JSON file for each question.
#
# `folders`: a folder for each question with `data.json`, as Geometry3K has it; `logic_form.json` is read into the field
# `logic_form`, `_folder` is the folder's path in the data set. `beside`: a picture and a JSON file of the same name, as
# V* has it; `_image` is the picture's path, `_folder` the folder's.

_PICTURES = (".jpg", ".jpeg", ".png", ".webp")

SidecarReader = Callable[[Path], Mapping[str, Any]]
"""What lies next to a question's file, as further fields."""


@dataclass(frozen=True, slots=True)
class FolderLoader:
    """One question for each file that the card's pattern matches."""

    beside: SidecarReader

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        """See `Loader.find`; numbered names are in the order of their numbers."""
        return tuple(sorted(first_match(folder, card.loader.files), key=_natural))

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for number, file in enumerate(files):
            name = f"{file.parent.name}/{file.name}"
            try:
                fields = {**read_object(file), **self.beside(file)}
            except FieldError as error:
                yield RowProblem(name, number, error.field, error.reason)
                continue
            yield SourceRow(name, number, {**fields, "_row": number, "_file": file.stem, "_folder": file.parent.name})

    def count(self, files: tuple[Path, ...]) -> int:
        return len(files)


def logic_form(file: Path) -> Mapping[str, Any]:
    """Return Geometry3K's logic form of the question next to it, where there is one."""
    form = file.with_name("logic_form.json")
    return {"logic_form": read_object(form)} if form.is_file() else {}


def picture(file: Path) -> Mapping[str, Any]:
    """Return the path, from the folder's parent, of the picture with the file's name."""
    for suffix in _PICTURES:
        if file.with_suffix(suffix).is_file():
            return {"_image": f"{file.parent.name}/{file.stem}{suffix}"}
    raise FieldError("images", f"there is no picture {file.stem}{{{','.join(_PICTURES)}}} beside {file.name}")


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises `FieldError` if it holds none."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FieldError("row", f"{file.name} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise FieldError("row", f"{file.name} is no JSON object")
    return data


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in path.parts)


FOLDERS = FolderLoader(logic_form)
BESIDE = FolderLoader(picture)


class Ai2d:
    """AI2D as its authors publish it: `questions/<picture>.json` with all questions about a picture, and `images/`.

    Questions whose options are labels in the picture have `abcLabel`.
    """

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        number = 0
        for file in files:
            try:
                data = read_object(file)
                questions = data.get("questions")
                if not isinstance(questions, Mapping):
                    raise FieldError("question", "there is no table `questions`")
            except FieldError as error:
                yield RowProblem(file.name, number, error.field, error.reason)
                number += 1
                continue
            for question, about in questions.items():
                fields = {"imageName": data.get("imageName"), "question": question, "_row": number, "_file": file.stem}
                if isinstance(about, Mapping):
                    yield SourceRow(file.name, number, {**about, **fields})
                else:
                    yield RowProblem(file.name, number, "choices", f"nothing is said about the question {question!r}")
                number += 1

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(1 for _ in self.rows(files))


AI2D = Ai2d()


# IconQA: `problems.json` with a row for each key, or a folder for each question. A choice that is a picture becomes
# `<image N>`, the Nth picture of the task.


def from_problems(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adapt a row of `problems.json`; its pictures are in `iconqa/<split>/<type>/<key>/`."""
    place = [as_text(row.get(name) or "", name) for name in ("split", "ques_type", "_key")]
    if not all(place):
        raise FieldError(
            "images", "the row does not say its split, type and key, which name the folder of its pictures"
        )
    return {**row, **_pictures(row, "/".join(place))}


def beside(file: Path) -> Mapping[str, Any]:
    """Return further fields of the question whose `data.json` this is."""
    steps = [file.parents[2].name, file.parents[1].name, file.parents[0].name]
    row = read_object(file)
    return {"split": steps[0], "ques_type": steps[1], "_key": steps[2], **_pictures(row, "/".join(steps))}


def _pictures(row: Mapping[str, Any], folder: str) -> dict[str, Any]:
    own = f"{folder}/{row.get('image') or 'image.png'}"
    choices = row.get("choices") or []
    if not isinstance(choices, list):
        raise FieldError("choices", "it is no list")
    if not choices or not all(isinstance(one, str) and one.endswith((".png", ".jpg", ".jpeg")) for one in choices):
        return {"images": [own]}
    images = [own, *(f"{folder}/{choice}" for choice in choices)]
    return {"images": images, "choices": [f"<image {number}>" for number in range(2, len(images) + 1)]}


PROBLEMS = RowLoader(from_problems)
PICTURE_CHOICES_FOLDERS = FolderLoader(beside)
_LONGEST_INDEX = 64
_COPIES = 1_000_000


class VlmEvalKit:
    """VLMEvalKit's TSV: `index`, `image` or `image_path`, `question`, often `hint`, `A`, `B`, ..., `answer`.

    `image` is base64, a list of these, or the index of another row with the same picture, which a second reading of the
    file looks up. As VLMEvalKit has it, a cell of at most 64 characters is an index (`vlmeval/dataset/image_base.py`).
    """

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            shared: dict[str, str] | None = None
            for row in read_rows(file):
                row = _counted(row)
                if isinstance(row, SourceRow) and (wanted := picture_index(row.fields)) is not None:
                    shared = _shared_images(file) if shared is None else shared
                    yield _resolved(row, wanted, shared)
                else:
                    yield row

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(map(count_rows, files))


def _counted(row: SourceRow | RowProblem) -> SourceRow | RowProblem:
    """Add the field `_copy`: 0, or which rotation of an earlier row's options a row is, as in MMBench's own files.

    There the index of a copy is that of its question and the number of the rotation times a million.
    """
    index = row.fields.get("index") if isinstance(row, SourceRow) else None
    if not isinstance(row, SourceRow) or isinstance(index, bool) or not str(index).isdecimal():
        return row
    return replace(row, fields={**row.fields, "_copy": int(str(index)) // _COPIES})


def picture_index(fields: Mapping[str, Any]) -> str | None:
    """Return the `image` cell of a row if it is so short that it may be the index of the row with the picture."""
    image = fields.get("image")
    short = isinstance(image, str) and 0 < len(image) <= _LONGEST_INDEX and "index" in fields
    return image if short and isinstance(image, str) else None


def _resolved(row: SourceRow, wanted: str, shared: Mapping[str, str]) -> SourceRow | RowProblem:
    image = shared.get(wanted)
    if image is not None:
        return replace(row, fields={**row.fields, "image": image})
    if not wanted.isalnum():
        return row  # the path of a file
    return row.problem("image", f"it is that of row {wanted!r}, which is not there or has none of its own")


def _shared_images(file: Path) -> dict[str, str]:
    """Return the pictures to which other rows refer, by the index of the row that has them."""
    rows = (row.fields for row in read_rows(file) if isinstance(row, SourceRow))
    wanted = {reference for fields in rows if (reference := picture_index(fields)) is not None}
    again = (row.fields for row in read_rows(file) if isinstance(row, SourceRow))
    return {
        str(fields["index"]): fields["image"]
        for fields in again
        if picture_index(fields) is None and str(fields.get("index")) in wanted and isinstance(fields.get("image"), str)
    }


VLMEVALKIT = VlmEvalKit()
