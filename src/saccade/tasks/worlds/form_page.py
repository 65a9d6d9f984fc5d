"""World `form-page`: a filled-in order form; a field, a number of pieces, a price, what a line costs, how many lines.

The questions are of the families of DocVQA (Mathew et al., 2021): what stands beside a printed word. Nothing is
handwritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import form_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, Colour, blank, font, put_text
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.words import THINGS

FormKind = Literal["field", "pieces", "price", "cost", "lines"]
KINDS: tuple[FormKind, ...] = ("field", "pieces", "price", "cost", "lines")
_FIELDS = ("Invoice number", "Customer code", "Order date", "Postcode", "Reference", "Account", "Delivery date")
_TITLES = ("Order form", "Delivery note", "Invoice", "Receipt of goods")
_LETTERS = "BCDEGHKMNPRS"
"""Capitals that do not touch each other."""
_PAPERS: tuple[Colour, ...] = ((255, 255, 255), (252, 250, 240), (240, 244, 250))
_INK: Colour = (20, 20, 26)
_RULE: Colour = (150, 154, 164)
_SIZE = 18
_LEFT, _MIDDLE, _RIGHT = 36, 290, 430


class FormPageKnobs(Knobs):
    """How much stands on a form, and what is asked."""

    fields: int = Field(5, ge=2, le=7)
    """Most fields; at least two."""
    lines: int = Field(6, ge=2, le=8)
    """Most lines of goods; at least two."""
    kinds: tuple[FormKind, ...] = Field(KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of goods; the price is in cents."""

    name: str
    pieces: int
    cents: int

    @property
    def price(self) -> str:
        return f"${self.cents // 100}.{self.cents % 100:02d}"


def draw(rng: Rng, knobs: FormPageKnobs) -> WorldSample:
    """One form and a question about it."""
    kind = rng.choice(knobs.kinds)
    fields = [(name, _filled(rng, name)) for name in rng.sample(_FIELDS, rng.integer(2, knobs.fields))]
    names = rng.sample(THINGS, rng.integer(2, knobs.lines))
    lines = [_Line(name, rng.integer(2, 48), rng.integer(25, 4900)) for name in names]
    pitch = rng.integer(30, 38)
    size = (rng.integer(560, 680), 130 + pitch * (len(fields) + len(lines) + 2))
    picture, pen = blank(size, rng.choice(_PAPERS))
    put_text(pen, (_LEFT, 28), rng.choice(_TITLES), font(26, "sans-bold"), _INK)
    places: dict[str, Box] = {}
    y = 84
    for name, value in fields:
        places[name] = _row(pen, y, (name, value), (_LEFT, _MIDDLE))
        y += pitch
    y += pitch // 2
    _row(pen, y, ("Goods", "Pieces", "Price"), (_LEFT, _MIDDLE, _RIGHT), bold=True)
    pen.line((_LEFT, y + pitch - 10, size[0] - 30, y + pitch - 10), fill=_RULE, width=2)
    for line in lines:
        y += pitch
        places[line.name] = _row(pen, y, (line.name, str(line.pieces), line.price), (_LEFT, _MIDDLE, _RIGHT))
    question, answer, end, used = _ask(rng, kind, fields, lines)
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=AnswerType.TEXT if kind == "field" else AnswerType.NUMBER,
        program=compose(reading, form_reading, last='grey = np.asarray(image_0.convert("L"))\n' + end),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=places[name], label=name) for name in used),
        difficulty=round((len(fields) + len(lines)) / 15, 3),
        tags=(kind, f"{len(lines)} lines"),
    )


def _filled(rng: Rng, name: str) -> str:
    """What stands in a field: a date, or a code of letters and digits."""
    if name.endswith("date"):
        return f"{rng.integer(2015, 2029)}-{rng.integer(1, 12):02d}-{rng.integer(1, 28):02d}"
    if name == "Postcode":
        return str(rng.integer(10_000, 99_999))
    return f"{rng.choice(_LETTERS)}{rng.choice(_LETTERS)}-{rng.integer(1000, 99_999)}"


def _row(
    pen: ImageDraw.ImageDraw, y: int, texts: tuple[str, ...], columns: tuple[int, ...], *, bold: bool = False
) -> Box:
    """Print texts in one row; the box around them."""
    face = font(_SIZE, "sans-bold" if bold else "sans")
    # On one line: the top of capitals is the same, that of small letters is not.
    boxes = []
    for text, x in zip(texts, columns, strict=True):
        left, top, right, bottom = (int(edge) for edge in face.getbbox(text))
        pen.text((x - left, y), text, font=face, fill=_INK)
        boxes.append((x, y + top, x + right - left, y + bottom))
    return boxes[0][0] - 2, min(box[1] for box in boxes) - 2, boxes[-1][2] + 2, max(box[3] for box in boxes) + 2


def _ask(
    rng: Rng, kind: FormKind, fields: list[tuple[str, str]], lines: list[_Line]
) -> tuple[str, str, str, tuple[str, ...]]:
    """Question, answer, end of the program, and the rows that show the answer."""
    if kind == "field":
        name, value = rng.choice(fields)
        question = rng.choice(("What is the {0} on this page?", "Which {0} does the page give?")).format(name.lower())
        return question, value, f"print(cells_after(grey, {name!r})[0])", (name,)
    if kind == "lines":
        end = "print(rows_below(grey, 'Goods'))"
        names = tuple(line.name for line in lines)
        return "How many lines of goods does the page list?", str(len(lines)), end, names
    line = rng.choice(lines)
    start = f"pieces, price = map(number, cells_after(grey, {line.name!r}))\nprint(pieces, price)\n"
    if kind == "pieces":
        question = f"How many pieces of {line.name} does the page list?"
        return question, str(line.pieces), start + "print(show(pieces))", (line.name,)
    if kind == "price":
        question = f"What does one piece of {line.name} cost, in dollars? Give two decimals."
        return question, line.price[1:], start + 'print(format(price, ".2f"))', (line.name,)
    total = line.pieces * line.cents
    question = f"What do all listed pieces of {line.name} cost together, in dollars? Give two decimals."
    answer = f"{total // 100}.{total % 100:02d}"
    return question, answer, start + 'print(format(pieces * price, ".2f"))', (line.name,)


WORLD = World("form-page@1", "Fields, prices and sums from a printed order form.", FormPageKnobs, draw)
