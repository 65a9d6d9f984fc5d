r"""Load rows on which published models were trained, which hold more than a question and its answer.

`llava-final`   conversations whose reply ends in the answer (MathV360K, GeoQA+ of InternVL)
`llava-cot`     conversations whose reply has the answer in its part CONCLUSION (LLaVA-CoT)
`solution`      the answer in tags, as `<answer>B</answer>`, under `answer` or `solution` (SpaceR, LongVILA, R1-V)
`thyme`         question with the lines about its picture, response with code and answer, first the picture that the
                question shows and then those that code made (Thyme-SFT)
`thyme-rl`      the same question with a solution (Thyme-RL)
`pyvision-rl`   verl's rows, also with the question in the trainer's prompt alone (PyVision-RL)
`pyvision-sft`  conversations whose first turn is the whole prompt (PyVision-RL's SFT rows)
`dialogue`      dialogues up to some turn, as a list or as its text; `_ends` says whether it ends in an `answer`
                (CodeDance-SFT, Mini-o3-Coldstart)
`mmpr`          a chosen and a rejected response, of which the chosen one ends in the answer (MMPR)
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy
from PIL import Image

from saccade.errors import DataError
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.rows import RowLoader, first_match, from_llava, from_verl
from saccade.tasks.benchmarks.row_files import (
    FieldError,
    RowProblem,
    SourceRow,
    first_value,
    list_in_text,
    missing,
    short,
)

_ARRAYS: Final = {
    (f"numpy.{core}.{module}", name)
    for core in ("core", "_core")
    for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
}
_ALLOWED: Final = _ARRAYS | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


class _Rows(pickle.Unpickler):
    """Reads rows and arrays. A pickle can name any function to be called; this one calls only what makes arrays."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which rows of pictures and texts need not")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


class PickledRows:
    """Reads pickled lists of rows, as of GeoQA, GeoQA+ and UniGeo; the array `image` of a row becomes a picture."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            place = {"_file": file.stem, "_folder": file.parent.name, "_above": file.parent.parent.name}
            for number, row in enumerate(_read(file)):
                if not isinstance(row, Mapping):
                    yield RowProblem(file.name, number, "row", "it is no table of fields")
                    continue
                try:
                    fields = {**row, "image": _picture(row.get("image")), "_row": number, **place}
                except FieldError as error:
                    yield RowProblem(file.name, number, error.field, error.reason)
                    continue
                yield SourceRow(file.name, number, fields)

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(len(_read(file)) for file in files)


def _read(file: Path) -> list[Any]:
    try:
        with file.open("rb") as data:
            rows = _Rows(data, encoding="latin1").load()
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{file} is not read: {error}. Download it again, or convert it to JSON lines.") from error
    if not isinstance(rows, list):
        raise DataError(f"{file} holds no list of rows. Name another file.")
    return rows


def _picture(value: object) -> object:
    if not isinstance(value, numpy.ndarray):
        return value
    if (
        value.dtype.kind not in "uif"
        or value.ndim not in (2, 3)
        or (value.ndim == 3 and value.shape[2] not in (1, 3, 4))
    ):
        raise FieldError("images", f"an array {value.shape} of {value.dtype} is no picture")
    if value.dtype.kind == "f" and not numpy.isfinite(value).all():
        raise FieldError("images", "the picture has numbers that are none")
    plain = numpy.clip(value, 0, 255).astype(numpy.uint8)
    return Image.fromarray(plain[:, :, 0] if plain.ndim == 3 and plain.shape[2] == 1 else plain)


PICKLED = PickledRows()
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_CONCLUSION = re.compile(r"<CONCLUSION>(.*?)</CONCLUSION>", re.DOTALL | re.IGNORECASE)
_SAID = re.compile(r"\b(?:final |correct )?answer\s*(?:is|:)\s*[:：]?\s*([^\n]+)", re.IGNORECASE)
_SAID_IN_CHINESE = re.compile(r"答案\s*(?:是|为|选|[:：])+\s*([^\n]+)")


def final_answer(text: str) -> str | None:
    r"""Return the last answer marked by tags, `\boxed{}` or "answer is"; None if none is marked."""
    for pattern in (_TAGGED, _BOXED, _SAID, _SAID_IN_CHINESE):
        marked = pattern.findall(text)
        if marked:
            answer = str(marked[-1]).strip()
            inner = _BOXED.findall(answer)
            plain = str(inner[-1]) if inner else answer
            return plain.strip().strip("*").rstrip(".。").strip() or None
    return None


Row = Mapping[str, Any]

_PATH_LINE = re.compile(r"\n\s*### User Image Path:")
_USER_QUESTION = re.compile(r"\*user question:?\*:?\s*(?:Answer the following [^\n]*\n)?", re.IGNORECASE)
_REMINDER = re.compile(r"\n\s*Remember to place the final answer.*\Z", re.DOTALL)
_OUR_QUESTION = re.compile(r"\nQuestion:\s*\n")
_LABEL = re.compile(r"\A\s*(?:<image>\s*)*(?:Question:\s*)+")
_MMPR_QUESTION = re.compile(r"\A(?:<image>\s*)*Your task is to answer the question below\b.*?\bQuestion:\s*", re.DOTALL)


def from_llava_final(row: Row) -> Row:
    """Read like `from_llava`; the answer is what the reply marks as such."""
    plain = from_llava(row)
    return {**plain, "answer": _marked(plain["answer"], "the reply")}


def from_llava_cot(row: Row) -> Row:
    """Read like `from_llava`; the answer is the reply's part CONCLUSION, or what that marks as the answer."""
    plain = from_llava(row)
    parts = _CONCLUSION.findall(plain["answer"]) if isinstance(plain["answer"], str) else []
    if not parts or not parts[-1].strip():
        raise FieldError("answer", f"the reply has no part CONCLUSION: {short(plain['answer'])}")
    return {**plain, "answer": final_answer(parts[-1]) or parts[-1].strip()}


def from_solution(row: Row) -> Row:
    """Return `answer` without its tags; a text without tags as it is."""
    value = first_value(row, ("answer", "solution", "ground_truth"))
    if not isinstance(value, str):
        return row
    tagged = "<answer>" in value or "\\boxed" in value
    return {**row, "answer": _marked(value, "the solution") if tagged else value.strip()}


def from_thyme(row: Row) -> Row:
    """Return the question only, its own pictures, and the answer in which the response ends."""
    question = row.get("question")
    if not isinstance(question, str):
        raise FieldError("question", "the row has no text `question`")
    shown = max(1, question.count("<image>"))
    images = row.get("image", row.get("images"))
    return {
        **row,
        "question": _PATH_LINE.split(question)[0].strip(),
        "images": images[:shown] if isinstance(images, list) else images,
        "answer": _marked(row.get("response"), "the response"),
    }


def from_thyme_rl(row: Row) -> Row:
    """Return the question only, without the lines about its picture."""
    question = first_value(row, ("question", "problem"))
    return {**row, "question": _PATH_LINE.split(question)[0].strip()} if isinstance(question, str) else row


def from_pyvision_rl(row: Row) -> Row:
    """Read like `from_verl`; a question that is in the prompt only is read without the trainer's template around it."""
    plain = from_verl(row)
    extra = row.get("extra_info")
    own = row.get("question") or (extra.get("question") if isinstance(extra, Mapping) else None)
    return plain if own else {**plain, "question": _asked(plain.get("question")) or plain.get("question")}


def from_pyvision_sft(row: Row) -> Row:
    """Return the question in the prompt that the first turn is, the first pictures, and the answer of the last turn."""
    turns = row.get("conversations")
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, Mapping) for turn in turns):
        raise FieldError("conversations", "it is no list of turns with a prompt and a reply")
    texts = [turn.get("content", turn.get("value")) for turn in turns if turn.get("role", turn.get("from")) != "system"]
    prompt = texts[0]
    if not isinstance(prompt, str):
        raise FieldError("conversations", "its first turn has no text")
    question = _asked(prompt)
    if question is None:
        raise FieldError("question", f"the prompt marks no question: {short(prompt[-80:])}")
    kind = "videos" if "<video>" in prompt else "images"
    media = row.get(kind)
    count = prompt.count("<video>" if kind == "videos" else "<image>")
    return {
        **row,
        "question": question,
        kind: media[:count] if isinstance(media, list) else media,
        "answer": _marked(texts[-1], "the last turn"),
    }


def from_dialogue(row: Row) -> Row:
    """Return the question and the pictures of the first user's turn, and the answer that the last turn marks.

    `_ends` is `answer`, or `before` for a row that ends before it.
    """
    turns = first_value(row, ("conversations", "messages"))
    turns = list_in_text(turns) if isinstance(turns, str) else turns
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise FieldError("conversations", f"it is no list of turns: {short(turns)}")
    said = [(turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))) for turn in turns]
    said = [(role, text) for role, text in said if role != "system"]
    if len(said) < 2 or said[0][0] not in ("human", "user") or not all(isinstance(text, str) for _, text in said):
        raise FieldError("conversations", "it does not begin with a question of human or user, and a reply")
    question, (role, last) = said[0][1], said[-1]
    images, shown = row.get("images"), max(1, question.count("<image>"))
    ends = role in ("gpt", "assistant") and bool(_TAGGED.search(last) or _BOXED.search(last))
    plain = {"question": _LABEL.sub("", question), "_ends": "answer" if ends else "before"}
    answer = {"answer": final_answer(last)} if ends else {}
    return {**row, **plain, **answer, "images": images[:shown] if isinstance(images, list) else images}


def from_mmpr(row: Row) -> Row:
    """Take the question without the request around it, and the answer named or at the end of the chosen response."""
    question = row.get("question")
    answer = first_value(row, ("answer", "ground_truth"))
    asked = _MMPR_QUESTION.sub("", question).strip() if isinstance(question, str) else question
    return {
        **row,
        "question": asked,
        "answer": _marked(row.get("chosen"), "the chosen one") if missing(answer) else answer,
    }


def _asked(prompt: object) -> str | None:
    """Return the question inside a whole prompt of PyVision's or of our own; None if none is marked."""
    if not isinstance(prompt, str):
        return None
    for mark in (_USER_QUESTION, _OUR_QUESTION):
        parts = mark.split(prompt)
        if len(parts) > 1:
            return _REMINDER.sub("", parts[-1]).strip()
    return None


def _marked(text: object, where: str) -> str:
    answer = final_answer(text) if isinstance(text, str) else None
    if answer is None:
        raise FieldError("answer", f"{where} marks no final answer: {short(text)}")
    return answer


LLAVA_FINAL = RowLoader(from_llava_final)
LLAVA_COT = RowLoader(from_llava_cot)
SOLUTION = RowLoader(from_solution)
THYME = RowLoader(from_thyme)
THYME_RL = RowLoader(from_thyme_rl)
PYVISION_RL = RowLoader(from_pyvision_rl)
PYVISION_SFT = RowLoader(from_pyvision_sft)
MMPR = RowLoader(from_mmpr)
DIALOGUE = RowLoader(from_dialogue)
