"""World `form-page`: a filled-in order form; a field, a number of pieces, a price, what a line costs, how many lines.

The questions are of the families of DocVQA (Mathew et al., 2021): what stands next to a printed word. Nothing is
handwritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw
from pydantic import Field

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import THINGS, Box, Colour, blank, font, put_text, put_text_centred, text_size
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

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
    """Return one form and a question about it."""
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
        program=compose(reading, last='grey = np.asarray(image_0.convert("L"))\n' + end),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=places[name], label=name) for name in used),
        difficulty=round((len(fields) + len(lines)) / 15, 3),
        tags=(kind, f"{len(lines)} lines"),
    )


def _filled(rng: Rng, name: str) -> str:
    """Draw the content of a field: a date, or a code of letters and digits."""
    if name.endswith("date"):
        return f"{rng.integer(2015, 2029)}-{rng.integer(1, 12):02d}-{rng.integer(1, 28):02d}"
    if name == "Postcode":
        return str(rng.integer(10_000, 99_999))
    return f"{rng.choice(_LETTERS)}{rng.choice(_LETTERS)}-{rng.integer(1000, 99_999)}"


def _row(
    pen: ImageDraw.ImageDraw, y: int, texts: tuple[str, ...], columns: tuple[int, ...], *, bold: bool = False
) -> Box:
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
    """Return question, answer, end of the program, and the rows that show the answer."""
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

# World `region-map`: a map whose regions are coloured by class, with a legend; value, comparison, count and extreme.
#
# The questions are of the families of MapQA (Chang et al., 2022). Regions are the fields of a bent grid, with
# whole-number corners and a border of ink around each; a field has one colour of the legend and its name on it.

MapKind = Literal["class", "higher", "count", "highest"]
REGION_MAP_KINDS: tuple[MapKind, ...] = ("class", "higher", "count", "highest")
_NAMES = (
    *("Alba", "Brem", "Cora", "Dorn", "Elba", "Fara", "Gant", "Hela", "Isk", "Jura", "Kent", "Lund", "Mora", "Nord"),
    *("Oslo", "Pera", "Rima", "Sola", "Tarn", "Ural", "Vara", "Wels", "Yser", "Zeta"),
)
_REGION_MAP_TITLES = (
    "People per square mile", "Rain in inches", "Farms per district", "Schools per district", "Sunny days",
)  # fmt: skip
# Light to dark, told apart at a glance; black letters can be read on all of them.
_PALETTES: tuple[tuple[Colour, ...], ...] = (
    ((226, 240, 252), (166, 206, 240), (106, 168, 222), (70, 130, 200)),
    ((252, 236, 214), (250, 200, 140), (244, 160, 80), (226, 116, 40)),
    ((228, 246, 226), (170, 222, 166), (110, 190, 110), (60, 154, 76)),
)
_SEA: Colour = (244, 246, 248)
_REGION_MAP_INK: Colour = (24, 24, 28)
_SWATCH = 24
_PITCH = 40


class RegionMapKnobs(Knobs):
    """How many regions there are, and what is asked."""

    columns: int = Field(4, ge=2, le=5)
    """Most columns of the grid; at least two."""
    rows: int = Field(4, ge=2, le=4)
    kinds: tuple[MapKind, ...] = Field(REGION_MAP_KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class _Map:
    names: tuple[str, ...]
    classes: dict[str, int]
    """Of each region, 0 for the lightest."""
    fields: dict[str, Box]
    """Around the name of each region, inside it."""
    legend: tuple[str, ...]
    swatches: tuple[Box, ...]


def draw_region_map(rng: Rng, knobs: RegionMapKnobs) -> WorldSample:
    """Return one map and a question about it."""
    kind = rng.choice(knobs.kinds)
    columns, rows = rng.integer(2, knobs.columns), rng.integer(2, knobs.rows)
    names = tuple(rng.sample(_NAMES, columns * rows))
    palette = rng.choice(_PALETTES)
    classes = _classes(rng, names, alone=kind == "highest")
    pitch = (rng.integer(104, 124), rng.integer(84, 100))
    size = (columns * pitch[0] + 240, max(rows * pitch[1] + 110, 80 + 4 * _PITCH))
    picture, pen = blank(size, _SEA)
    put_text_centred(pen, (size[0] // 2, 26), rng.choice(_REGION_MAP_TITLES), font(20, "sans-bold"), _REGION_MAP_INK)
    fields = _regions(rng, pen, (columns, rows), pitch, [(name, palette[classes[name]]) for name in names])
    step = rng.choice((10, 20, 25, 50, 100))
    legend = tuple(f"{number * step} to {(number + 1) * step - 1}" for number in range(4))
    swatches = []
    for number, text in enumerate(legend):
        x, y = size[0] - 176, 64 + number * _PITCH
        pen.rectangle((x, y, x + _SWATCH - 1, y + _SWATCH - 1), fill=palette[number])
        put_text(pen, (x + _SWATCH + 12, y + 4), text, font(18), _REGION_MAP_INK)
        swatches.append((x, y, x + _SWATCH, y + _SWATCH))
    drawn = _Map(names, classes, fields, legend, tuple(swatches))
    question, answer, lines, used = _ask_region_map(rng, kind, drawn)
    choices = {"class": legend, "highest": names}.get(kind, ())
    types = {"class": AnswerType.CHOICE, "highest": AnswerType.CHOICE, "higher": AnswerType.YES_NO}
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=types.get(kind, AnswerType.NUMBER),
        choices=choices,
        program=compose(reading, last='rgb = np.asarray(image_0.convert("RGB"))\n' + lines),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=fields[name], label=name) for name in used),
        difficulty=round(len(names) / 20, 3),
        tags=(kind, f"{len(names)} regions"),
        notes={"legend": "\n".join(f"{' '.join(map(str, palette[n]))} {text}" for n, text in enumerate(legend))},
    )


def _classes(rng: Rng, names: tuple[str, ...], *, alone: bool) -> dict[str, int]:
    """Return a class for each region, of two kinds at least; the darkest for one, or for any number."""
    top = rng.choice(names)
    found = {name: rng.integer(0, 2 if alone else 3) for name in names}
    found[top] = 3
    if all(number == 3 for number in found.values()):
        found[next(name for name in names if name != top)] = rng.integer(0, 2)
    return found


def _regions(
    rng: Rng,
    pen: ImageDraw.ImageDraw,
    shape: tuple[int, int],
    pitch: tuple[int, int],
    regions: list[tuple[str, Colour]],
) -> dict[str, Box]:
    """Draw the fields of a bent grid; the box of each name with a little of the region around it."""
    columns, rows = shape
    corners = {
        (x, y): (30 + x * pitch[0] + rng.integer(-11, 11), 64 + y * pitch[1] + rng.integer(-9, 9))
        for x in range(columns + 1)
        for y in range(rows + 1)
    }
    face, boxes = font(18), {}
    for number, (name, colour) in enumerate(regions):
        x, y = number % columns, number // columns
        points = [corners[x, y], corners[x + 1, y], corners[x + 1, y + 1], corners[x, y + 1]]
        pen.polygon(points, fill=colour)
        pen.line([*points, points[0], points[1]], fill=_REGION_MAP_INK, width=2)
        middle = sum(px for px, _ in points) // 4, sum(py for _, py in points) // 4
        width, height = text_size(name, face)
        put_text_centred(pen, middle, name, face, _REGION_MAP_INK)
        reach = (width // 2 + 12, height // 2 + 12)
        boxes[name] = (middle[0] - reach[0], middle[1] - reach[1], middle[0] + reach[0], middle[1] + reach[1])
    return boxes


def _ask_region_map(rng: Rng, kind: MapKind, drawn: _Map) -> tuple[str, str, str, tuple[str, ...]]:
    """Return question, answer, end of the program, and the regions that show the answer."""
    classes, legend = drawn.classes, drawn.legend
    if kind == "class":
        name = rng.choice(drawn.names)
        question = rng.choice(("Which range of the legend is {0} in?", "What does the map say for {0}?")).format(name)
        return question, legend[classes[name]], f"print(class_of(rgb, {name!r}, {list(legend)!r}))", (name,)
    if kind == "higher":
        first = rng.choice(drawn.names)
        other = rng.choice([name for name in drawn.names if classes[name] != classes[first]])
        lines = (
            f"legend = {list(legend)!r}\n"
            f"found = [legend.index(class_of(rgb, name, legend)) for name in {[first, other]!r}]\nprint(found)\n"
            'print("yes" if found[0] > found[1] else "no")'
        )
        answer = "yes" if classes[first] > classes[other] else "no"
        return f"Is the value for {first} higher than the one for {other}?", answer, lines, (first, other)
    if kind == "count":
        number = rng.choice(sorted(set(classes.values())))
        used = tuple(name for name in drawn.names if classes[name] == number)
        lines = f"print(regions_of(rgb, {legend[number]!r}))"
        return f"How many regions are in the range {legend[number]}?", str(len(used)), lines, used
    top = next(name for name in drawn.names if classes[name] == 3)
    lines = (
        f"found = {{name: class_of(rgb, name, {list(legend)!r}) for name in {list(drawn.names)!r}}}\nprint(found)\n"
        f"print(next(name for name, text in found.items() if text == {legend[3]!r}))"
    )
    return "Which region is in the highest range?", top, lines, (top,)


REGION_MAP_WORLD = World(
    "region-map@1", "Classes, comparisons, counts and extremes from a coloured map.", RegionMapKnobs, draw_region_map
)
