"""World `table-arithmetic`: a drawn table and a question that needs some of its numbers and a little arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

from PIL import Image, ImageDraw
from pydantic import Field

from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import (
    ANIMALS,
    BOOKS,
    DAYS,
    FOODS,
    MONTHS,
    PEOPLE,
    PLACES,
    THINGS,
    Box,
    Colour,
    Lettering,
    blank,
    font,
    put_label,
    text_size,
)
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

# Draws a table: a title, a row of headers, a column of labels and columns of values; with lines, stripes or bare.


@dataclass(frozen=True, slots=True)
class TableTexts:
    """The texts of a table."""

    title: str
    headers: tuple[str, ...]
    """The first is that of the labels."""
    rows: tuple[tuple[str, ...], ...]
    """The first text of each is its label."""


@dataclass(frozen=True, slots=True)
class _Style:
    line: Colour
    head: Colour
    stripe: Colour
    ink: Colour
    rules: str
    """`grid`, `rows` or `none`: which lines are drawn."""
    text_size: int
    bold_head: bool


_SHADES: tuple[tuple[Colour, Colour, Colour], ...] = (
    ((196, 86, 104), (255, 214, 222), (255, 240, 243)),
    ((86, 122, 176), (208, 224, 246), (238, 244, 252)),
    ((20, 20, 20), (255, 255, 255), (255, 255, 255)),
    ((110, 150, 100), (216, 234, 208), (242, 248, 238)),
    ((170, 140, 80), (246, 232, 196), (252, 247, 234)),
    ((150, 150, 150), (228, 228, 228), (244, 244, 244)),
)


def draw_table(rng: Rng, grid: TableTexts) -> tuple[Image.Image, list[list[Box]]]:
    """Return the picture, and the boxes of the cells of `grid.rows` in their order."""
    style = _style(rng)
    face = font(style.text_size)
    bold = font(style.text_size, "sans-bold" if style.bold_head else "sans")
    pad, height = rng.integer(10, 20), style.text_size + rng.integer(12, 20)
    widths = [
        max(text_size(grid.headers[i], bold)[0], *(text_size(row[i], face)[0] for row in grid.rows)) + 2 * pad
        for i in range(len(grid.headers))
    ]
    title_face = font(style.text_size + 2, "sans-bold")
    widths[-1] += max(0, text_size(grid.title, title_face)[0] + 2 * pad - sum(widths))
    left, top = rng.integer(8, 40), rng.integer(8, 30)
    picture, pen = blank((sum(widths) + 2 * left, (len(grid.rows) + 2) * height + 2 * top), (255, 255, 255))
    right = left + sum(widths)
    pen.rectangle((left, top, right, top + 2 * height), fill=style.head)
    put_label(pen, ((left + right) // 2, top + height // 2), grid.title, Lettering(title_face, style.ink))
    edges = [left + sum(widths[:i]) for i in range(len(widths) + 1)]
    for i, header in enumerate(grid.headers):
        middle = (edges[i] + edges[i + 1]) // 2
        put_label(pen, (middle, top + height + height // 2), header, Lettering(bold, style.ink))
    boxes = []
    flush = rng.chance(60)
    for index, row in enumerate(grid.rows):
        y = top + (index + 2) * height
        if index % 2:
            pen.rectangle((left, y, right, y + height), fill=style.stripe)
        boxes.append([(edges[i], y, edges[i + 1], y + height) for i in range(len(row))])
        for i, text in enumerate(row):
            align: Literal["left", "middle"] = "left" if i == 0 and flush else "middle"
            x = edges[0] + pad if align == "left" else (edges[i] + edges[i + 1]) // 2
            put_label(pen, (x, y + height // 2), text, Lettering(face, style.ink), align)
    _rules(pen, style, edges, [top, *(top + (i + 1) * height for i in range(len(grid.rows) + 2))])
    return picture, boxes


def _style(rng: Rng) -> _Style:
    line, head, stripe = rng.choice(_SHADES)
    ink = rng.choice(((0, 0, 0), (34, 38, 48), (50, 34, 30)))
    rules = rng.choice(("grid", "grid", "rows", "none"))
    paper = stripe if rng.chance(50) else (255, 255, 255)
    return _Style(line, head, paper, ink, rules, rng.integer(14, 20), rng.chance(70))


def _rules(pen: ImageDraw.ImageDraw, style: _Style, edges: list[int], rows: list[int]) -> None:
    if style.rules == "none":
        return
    for y in rows:
        pen.line((edges[0], y, edges[-1], y), fill=style.line)
    if style.rules == "grid":
        for x in (edges[0], edges[-1]):
            pen.line((x, rows[0], x, rows[-1]), fill=style.line)
        for x in edges[1:-1]:
            # The title spans all columns.
            pen.line((x, rows[1], x, rows[-1]), fill=style.line)


# Questions of table arithmetic: each kind fills a table of its own and asks about it.
#
# The tables and questions are of the families of TabMWP (Lu et al., 2023): totals, differences, means, ranges, medians,
# rates of change, counts, fractions, probabilities and purchases.


TableKind = Literal[
    "total", "difference", "mean", "range", "median", "rate", "count", "extreme", "fraction", "probability", "purchase"
]
KINDS: Final[tuple[TableKind, ...]] = get_args(TableKind)


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """A table, a question about it, and where the answer stands."""

    grid: TableTexts
    question: str
    answer: str
    answer_type: AnswerType
    lines: str
    """End of the program; `grey` is defined before it."""
    used: tuple[tuple[int, int], ...]
    """(row, column) of the cells that the answer needs."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Log:
    """A table of one value for each label."""

    title: str
    head: str
    value: str
    labels: tuple[str, ...]
    low: int
    high: int


_YEARS = ("2014", "2015", "2016", "2017", "2018", "2019", "2020", "2021")
_LOGS: Final = (
    _Log("A week of reading", "Day", "Pages", DAYS, 8, 240),
    _Log("Runs before the race", "Day", "Kilometers", DAYS, 2, 30),
    _Log("The hotel at the lake", "Month", "Guests", MONTHS, 120, 2400),
    _Log("A club of collectors", "Name", "Stamps", PEOPLE, 20, 900),
    _Log("Cards of the class", "Name", "Cards", PEOPLE, 2, 80),
    _Log("Recycling at school", "Team", "Cans", ANIMALS, 10, 150),
    _Log("Seen from the tower", "Animal", "Sightings", ANIMALS, 1, 60),
    _Log("Harvest of the farm", "Crop", "Baskets", FOODS, 4, 90),
    _Log("A walk through town", "Place", "Photos", PLACES, 3, 120),
    _Log("The school library", "Shelf", "Books", BOOKS, 40, 700),
)
_YEARLY: Final = (
    _Log("A small baseball team", "Year", "Wins", _YEARS, 5, 60),
    _Log("A chess club in town", "Year", "Members", _YEARS, 20, 300),
)
_SHOPS = ("Toy corner", "Gifts and more", "The attic shop")
_COLOURS = ("White", "Brown", "Spotted", "Green", "Black", "Grey", "Yellow", "Purple")
_SIZES = ("Small", "Large", "Broken", "Huge", "Tiny", "Medium")
_PATTERNS = ("Plain", "Striped", "Dotted", "Checked", "Floral")
_TWO_WAY: Final = (
    ("Shells on the beach", _COLOURS, _SIZES, "shell"),
    ("Shirts in a shop", ("Cotton", "Wool", "Linen", "Silk", "Denim", "Fleece"), _PATTERNS, "shirt"),
    ("Riders at the stable", ("Beginner", "Expert", "Trainer"), DAYS, "rider"),
    ("Tickets of the museum", PLACES, ("Adult", "Child", "Group", "Student"), "ticket"),
    ("Beads in a box", _COLOURS, ("Glass", "Wood", "Metal", "Bone", "Clay"), "bead"),
    ("Kites of the club", _PATTERNS, _SIZES, "kite"),
)


def table_question(rng: Rng, kind: TableKind, most_rows: int) -> TableQuestion:
    """Return a table with at most `most_rows` rows of values (at least 4), and a question of a kind about it."""
    return _MAKERS[kind](rng, most_rows)


def _fill(rng: Rng, log: _Log, most_rows: int) -> tuple[tuple[str, ...], list[int]]:
    count = rng.integer(4, min(most_rows, len(log.labels)))
    if log.labels in (DAYS, MONTHS, _YEARS):
        start = rng.integer(0, len(log.labels) - count)
        labels = log.labels[start : start + count]
    else:
        labels = tuple(rng.sample(log.labels, count))
    return labels, rng.sample(range(log.low, log.high + 1), count)


def _grid(rng: Rng, log: _Log, labels: tuple[str, ...], values: list[int]) -> TableTexts:
    form = "{:,}" if rng.chance(60) else "{}"
    rows = zip(labels, map(form.format, values), strict=True)
    return TableTexts(log.title, (log.head, log.value), tuple(rows))


def _pair(rng: Rng, most_rows: int, *, total: bool) -> TableQuestion:
    log = rng.choice(_LOGS)
    labels, values = _fill(rng, log, most_rows)
    i, j = sorted(rng.sample(range(len(labels)), 2), key=lambda row: -values[row])
    a, b, noun = labels[i], labels[j], log.value.lower()
    if total:
        question = f"How many {noun} do {a} and {b} have together in the table?"
        answer, word = values[i] + values[j], "together"
    else:
        question = f"According to the table, how many more {noun} are there for {a} than for {b}?"
        answer, word = values[i] - values[j], "more"
    lines = (
        f"a = row_numbers(grey, {a!r})[0]\nb = row_numbers(grey, {b!r})[0]\nprint(a, b)\n"
        f'sign = {{"together": 1, "more": -1}}[{word!r}]\nprint(show(a + sign * b))'
    )
    used = ((i, 1), (j, 1))
    return TableQuestion(_grid(rng, log, labels, values), question, str(answer), AnswerType.NUMBER, lines, used)


def _column(rng: Rng, most_rows: int, kind: TableKind) -> TableQuestion:
    log = rng.choice(_LOGS)
    labels, values = _fill(rng, log, most_rows)
    if kind == "median" and len(values) % 2 == 0:
        labels, values = labels[1:], values[1:]
    if kind == "mean":
        # The mean comes out whole.
        values[0] += -sum(values) % len(values)
    answer = {
        "mean": sum(values) // len(values),
        "range": max(values) - min(values),
        "median": sorted(values)[len(values) // 2],
    }[kind]
    question = rng.choice(
        (f"What is the {kind} of the numbers in the table?", f"Find the {kind} of the numbers of {log.value.lower()}.")
    )
    lines = f"{_ALL}{_FORMULAS}print(show(formulas[{kind!r}]))"
    used = tuple((row, 1) for row in range(len(values)))
    return TableQuestion(_grid(rng, log, labels, values), question, str(answer), AnswerType.NUMBER, lines, used)


_ALL = "numbers = all_numbers(grey)\nprint(numbers)\n"
_FORMULAS = """\
formulas = {
    "mean": sum(numbers) / len(numbers),
    "range": max(numbers) - min(numbers),
    "median": sorted(numbers)[len(numbers) // 2],
}
"""


def _rate(rng: Rng, most_rows: int) -> TableQuestion:
    log = rng.choice(_YEARLY)
    labels, values = _fill(rng, log, most_rows)
    i = rng.integer(0, len(labels) - 2)
    a, b = labels[i], labels[i + 1]
    question = f"What was the rate of change of the number of {log.value.lower()} per year between {a} and {b}?"
    lines = f"print(show(row_numbers(grey, {b!r})[0] - row_numbers(grey, {a!r})[0]))"
    answer = str(values[i + 1] - values[i])
    used = ((i, 1), (i + 1, 1))
    return TableQuestion(_grid(rng, log, labels, values), question, answer, AnswerType.NUMBER, lines, used)


def _count(rng: Rng, most_rows: int) -> TableQuestion:
    log = rng.choice(_LOGS)
    labels, values = _fill(rng, log, most_rows)
    limit = rng.choice(sorted(values)[1:])
    question = f"How many rows of the table have at least {limit} {log.value.lower()}?"
    used = tuple((row, 1) for row, value in enumerate(values) if value >= limit)
    lines = _ALL + f"print(sum(number >= {limit} for number in numbers))"
    grid = _grid(rng, log, labels, values)
    return TableQuestion(grid, question, str(len(used)), AnswerType.NUMBER, lines, used)


def _extreme(rng: Rng, most_rows: int) -> TableQuestion:
    log = rng.choice(_LOGS)
    labels, values = _fill(rng, log, most_rows)
    word, function = rng.choice((("most", max), ("fewest", min)))
    row = values.index(function(values))
    question = f"Which {log.head.lower()} has the {word} {log.value.lower()}?"
    lines = (
        f"found = {{label: row_numbers(grey, label)[0] for label in {list(labels)!r}}}\n"
        f'print(found)\npick = {{"most": max, "fewest": min}}[{word!r}]\nprint(pick(found, key=found.get))'
    )
    grid = _grid(rng, log, labels, values)
    return TableQuestion(grid, question, labels[row], AnswerType.CHOICE, lines, ((row, 1),), labels)


def _fraction(rng: Rng, most_rows: int) -> TableQuestion:
    log = rng.choice([log for log in _LOGS if log.high < 1000])
    labels, _ = _fill(rng, log, most_rows)
    values = [rng.integer(2, 24) for _ in labels]
    row = rng.integer(0, len(labels) - 1)
    noun = log.value.lower()
    question = f"What fraction of all {noun} in the table belongs to {labels[row]}? Give it in lowest terms."
    lines = _ALL + f"part = row_numbers(grey, {labels[row]!r})[0]\nprint(ratio(part, sum(numbers)))"
    used = tuple((index, 1) for index in range(len(labels)))
    return _ratio(rng, Fraction(values[row], sum(values)), question, lines, (_grid(rng, log, labels, values), used))


def _probability(rng: Rng, most_rows: int) -> TableQuestion:
    title, rows, columns, noun = rng.choice(_TWO_WAY)
    rows, columns = (tuple(rng.sample(names, rng.integer(2, min(3, len(names))))) for names in (rows, columns))
    values = [[rng.integer(1, 15) for _ in columns] for _ in rows]
    i, j = rng.integer(0, len(rows) - 1), rng.integer(0, len(columns) - 1)
    question = (
        f"One {noun} of the table is picked at random. What is the probability that it belongs to the row "
        f"{rows[i]} and the column {columns[j]}? Give a fraction in lowest terms."
    )
    lines = f"{_ALL}part = value_at(grey, {rows[i]!r}, {columns[j]!r})\nprint(ratio(part, sum(numbers)))"
    grid = TableTexts(
        title, ("Kind", *columns), tuple((name, *map(str, line)) for name, line in zip(rows, values, strict=True))
    )
    used = tuple((row, column + 1) for row in range(len(rows)) for column in range(len(columns)))
    return _ratio(rng, Fraction(values[i][j], sum(map(sum, values))), question, lines, (grid, used))


def _ratio(
    rng: Rng, ratio: Fraction, question: str, lines: str, table: tuple[TableTexts, tuple[tuple[int, int], ...]]
) -> TableQuestion:
    """Return a question whose answer is a fraction, free or with three wrong choices."""
    grid, used = table
    if rng.chance(50):
        return TableQuestion(grid, question, str(ratio), AnswerType.TEXT, lines, used)
    wrong: list[Fraction] = []
    while len(wrong) < 3:
        above, below = max(1, ratio.numerator + rng.integer(-3, 3)), ratio.denominator + rng.integer(-3, 5)
        if 0 < above <= below and Fraction(above, below) not in (ratio, *wrong):
            wrong.append(Fraction(above, below))
    choices = tuple(map(str, rng.shuffled([ratio, *wrong])))
    return TableQuestion(grid, question, str(ratio), AnswerType.CHOICE, lines, used, choices)


def _purchase(rng: Rng, most_rows: int) -> TableQuestion:
    count = rng.integer(4, min(most_rows, len(THINGS)))
    items = tuple(rng.sample(THINGS, count))
    cents = [rng.integer(15, 2400) for _ in items]
    i, j = rng.sample(range(count), 2)
    pieces = rng.integer(2, 9)
    total = pieces * cents[i] + cents[j]
    question = f"How much do {pieces} pieces of {items[i]} and one of {items[j]} cost together, in dollars?"
    lines = (
        f"a = row_numbers(grey, {items[i]!r})[0]\nb = row_numbers(grey, {items[j]!r})[0]\n"
        f'print(a, b)\nprint(format({pieces} * a + b, ".2f"))'
    )
    rows = tuple((item, f"${price // 100}.{price % 100:02d}") for item, price in zip(items, cents, strict=True))
    grid = TableTexts(rng.choice(_SHOPS), ("Item", "Price"), rows)
    answer = f"{total // 100}.{total % 100:02d}"
    return TableQuestion(grid, question, answer, AnswerType.NUMBER, lines, ((i, 1), (j, 1)))


_MAKERS: Final[dict[TableKind, Callable[[Rng, int], TableQuestion]]] = {
    "total": lambda rng, rows: _pair(rng, rows, total=True),
    "difference": lambda rng, rows: _pair(rng, rows, total=False),
    "mean": lambda rng, rows: _column(rng, rows, "mean"),
    "range": lambda rng, rows: _column(rng, rows, "range"),
    "median": lambda rng, rows: _column(rng, rows, "median"),
    "rate": _rate,
    "count": _count,
    "extreme": _extreme,
    "fraction": _fraction,
    "probability": _probability,
    "purchase": _purchase,
}


class TableKnobs(Knobs):
    """How long a table may be, and what is asked."""

    rows: int = Field(7, ge=4, le=8)
    """Most rows of values; at least four."""
    kinds: tuple[TableKind, ...] = KINDS


def draw(rng: Rng, knobs: TableKnobs) -> WorldSample:
    """Return one table and a question about it."""
    kind = rng.choice(knobs.kinds)
    asked = table_question(rng, kind, knobs.rows)
    picture, boxes = draw_table(rng, asked.grid)
    start = 'grey = grey_of(np.asarray(image_0.convert("RGB")))\n'
    return WorldSample(
        question=asked.question,
        media={"image_0": picture},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, last=start + asked.lines),
        evidence=tuple(
            EvidenceBox(image="image_0", xyxy=boxes[row][column], label=asked.grid.rows[row][0])
            for row, column in asked.used
        ),
        difficulty=min(1.0, len(asked.used) / 9),
        tags=(kind, "choice" if asked.choices else "free"),
    )


WORLD = World("table-arithmetic@3", "Sums, means, fractions, prices and more from a drawn table.", TableKnobs, draw)
