"""Use tools that measure pixels: colours, shares, and shapes that are counted."""

from __future__ import annotations

import colorsys
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from saccade.plugins.worlds.canvas import COLOURS, Colour
from saccade.plugins.worlds.experts.plays import ExpertPart, Move, Script, Seen, can_crop, crop
from saccade.plugins.worlds.experts.scene import Box, around
from saccade.record.content import Answer, ToolCall
from saccade.tools.context import ToolContext
from saccade.tools.registry import TOOLS
from saccade.training.sft.synth.settings import ExpertStopped

# Describe a strategy with typed tools: which tools it calls, which samples it fits, what it reads off their results.
#
# It is a generator as any script, but does not answer: it returns the answer that the tools lead to, or None where they
# lead to none, and how many calls it took.


class Consulted(NamedTuple):
    """Result of the tools."""

    answer: str | None
    calls: int


Consulting = Generator[Move, Seen, Consulted]


@dataclass(frozen=True, slots=True)
class ToolStrategy:
    """Answers a kind of question with typed tools."""

    name: str
    tools: tuple[str, ...]
    """In the order in which they are called, one call each: all must be on offer."""
    fits: Callable[[ExpertPart], bool]
    play: Callable[[ExpertPart], Consulting]

    def possible(self, part: ExpertPart, left: int) -> bool:
        """Tell whether it fits the sample, its tools are on offer, and its calls and an answer fit in `left` turns."""
        return (
            not part.actions.codes
            and part.actions.tools.issuperset(self.tools)
            and len(self.tools) < left
            and self.fits(part)
        )


def use(
    part: ExpertPart, tool: str, arguments: Mapping[str, JsonValue], occasion: str = "consult"
) -> Generator[Move, Seen, Seen]:
    """Call a tool and give back what came of it. Raises `ExpertStopped`: the call failed."""
    call = ToolCall(name=tool, arguments=dict(arguments))
    seen = yield Move(call, part.thoughts.say(occasion, tool=tool))
    if seen.error is not None:
        raise ExpertStopped(f"the tool {tool} failed on {part.scene.task.id}: {seen.error}")
    return seen


def result_of(seen: Seen) -> dict[str, Any]:
    """Return the JSON that a result opens with. Raises `ExpertStopped`: it opens with none."""
    try:
        found = json.loads(seen.text.partition("\n")[0])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ExpertStopped(f"a tool gave no result that can be read: {seen.text[:100]!r}")
    return found


def named_picture(part: ExpertPart) -> dict[str, JsonValue]:
    """Return the argument that names the task's first picture; often left out where there is only one."""
    scene = part.scene
    name = next(iter(scene.pictures))
    return {} if len(scene.pictures) == 1 and scene.rng.chance(50) else {"image": scene.shown_as[name]}


def inside(part: ExpertPart, box: Box, least: int, most: int) -> list[JsonValue]:
    """Return a box a few pixels inside `box`, not exactly in its middle."""
    left, top = (part.scene.rng.integer(least, most) for _ in range(2))
    return [box[0] + left, box[1] + top, box[2] - left, box[3] - top]


def is_world(*names: str, kinds: tuple[str, ...] = ()) -> Callable[[ExpertPart], bool]:
    """Return a test whether a sample is of one of these worlds, and of one of these kinds if any are named."""
    return lambda part: part.scene.world in names and (not kinds or part.scene.kind in kinds)


def near(text: str, gold: str, part: float) -> bool:
    """Return whether two texts are numbers that differ by at most `part` of the second."""
    try:
        return abs(float(text) - float(gold)) <= part * abs(float(gold))
    except ValueError:
        return False


_CORNERS: Final = {3: "triangle", 4: "square", 5: "pentagon"}
_PAPER: Final = 245
"""A level of brightness below white paper and above every ink."""
_ODDS: Final = 0.02
"""By how much of a channel's range hue, saturation and value may differ from a colour that is looked for."""


def _value(part: ExpertPart) -> Consulting:
    mean = yield from _mean(part, 0, "consult")
    return Consulted(", ".join(str(round(channel)) for channel in mean), 1)


def _same(part: ExpertPart) -> Consulting:
    first = yield from _mean(part, 0, "consult")
    second = yield from _mean(part, 1, "then")
    return Consulted("yes" if first == second else "no", 2)


def _mean(part: ExpertPart, number: int, occasion: str) -> Generator[Move, Seen, list[float]]:
    name, box, _ = part.scene.evidence[number]
    arguments: dict[str, JsonValue] = {"image": part.scene.shown_as[name], "box": inside(part, box, 5, 7)}
    seen = yield from use(part, "color_stats", arguments, occasion)
    return [float(channel) for channel in result_of(seen)["mean"]]


def _share(part: ExpertPart) -> Consulting:
    asked = next(name for name in COLOURS if f" is {name}?" in part.scene.task.question)
    seen = yield from use(part, "color_mask", {**named_picture(part), **colour_range(COLOURS[asked])})
    return Consulted(str(round(100 * result_of(seen)["fraction"])), 1)


def _shapes(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "contours", {**named_picture(part), "level": _PAPER})
    asked = next(name for name in ("circle", *_CORNERS.values()) if f"{name}s" in part.scene.task.question)
    found = [_CORNERS.get(item["corners"], "circle") for item in result_of(seen)["contours"]]
    return Consulted(str(found.count(asked)), 1)


def _contact(part: ExpertPart) -> Consulting:
    seen = yield from use(part, "contours", {**named_picture(part), "level": _PAPER, "limit": 2})
    return Consulted("yes" if result_of(seen)["count"] == 1 else "no", 1)


def colour_range(colour: Colour, turn: float = 360 * _ODDS) -> dict[str, JsonValue]:
    """Return the arguments of `color_mask` that mean this colour and little next to it; `turn` is in degrees of hue."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in colour))
    low, high = (round((360 * hue + sign * turn) % 360, 1) for sign in (-1, 1))
    made: dict[str, JsonValue] = {"hue": [low, high]}
    for name, middle in (("saturation", saturation), ("value", value)):
        made[name] = [round(max(0.0, middle - _ODDS), 3), round(min(1.0, middle + _ODDS), 3)]
    return made


_PIXELS: Final = (
    ToolStrategy("the colour of a patch", ("color_stats",), is_world("pixel-colour", kinds=("value",)), _value),
    ToolStrategy("two colours", ("color_stats", "color_stats"), is_world("pixel-colour", kinds=("same",)), _same),
    ToolStrategy("the share of a colour", ("color_mask",), is_world("pixel-colour", kinds=("share",)), _share),
    ToolStrategy("outlines and their corners", ("contours",), is_world("shape-count", kinds=("scatter",)), _shapes),
    ToolStrategy("one outline or two", ("contours",), is_world("touching-circles"), _contact),
)

# Use the tools of geometry: the diagram as statements, the text as statements, and the solver.

_POLYGONS: Final = ("triangle-angle", "isosceles", "right-triangle", "triangle-area", "rectangle")
_CLOSE: Final = 0.005
"""A figure that was fitted has the asked value to within this part of it."""
_LENGTH: Final = re.compile(r"Equals\(LengthOf\(Line\((\w),(\w)\)\),([\d.]+)\)")


def _solved(part: ExpertPart, reads: str = "") -> Consulting:
    """Solve the diagram with what the text says; `reads` is a tool of text that the episode shows, too."""
    question = part.scene.task.question
    asks_goal = reads == "goal_cdl"
    if asks_goal:
        seen = yield from use(part, reads, {"text": question})
        if result_of(seen)["logic_form"] is None:
            return Consulted(None, 1)
    diagram = yield from _diagram(part, "then" if asks_goal else "consult")
    if not diagram["logic_forms"]:
        return Consulted(None, 1 + asks_goal)
    if reads == "text_cdl":
        text = result_of((yield from use(part, reads, {"text": question}, "then")))["logic_forms"]
    else:
        text = _statements(part)
    arguments = {"text_logic": text, "diagram_logic": diagram["logic_forms"], "points": diagram["points"]}
    seen = yield from use(part, "inter_gps", arguments, "then")
    solved = re.match(r"Solved: (-?[\d.e+]+\d)", seen.text)
    answer = solved[1] if solved else None
    if answer is not None and near(answer, part.scene.answer, _CLOSE):
        answer = part.scene.answer  # the number of digits that is asked for
    return Consulted(answer, 3 if reads else 2)


def _statements(part: ExpertPart) -> list[str]:
    """Read the question as logic forms, its goal last, without a call that the episode shows."""
    tool = TOOLS.load("text_cdl")()
    read = tool.run(tool.arguments(text=part.scene.task.question), ToolContext({}))
    return list(read.value.logic_forms)


def _diagram(part: ExpertPart, occasion: str = "consult") -> Any:
    seen = yield from use(part, "image_cdl", named_picture(part), occasion)
    return result_of(seen) if seen.text.startswith("{") else {"logic_forms": []}


def _circle(part: ExpertPart) -> Consulting:
    """Read the radius or the diameter, and work out the rest by a formula, with the question's value of pi."""
    diagram = yield from _diagram(part)
    found = next((match for form in diagram["logic_forms"] if (match := _LENGTH.fullmatch(form))), None)
    if found is None:
        return Consulted(None, 1)
    radius = Decimal(found[3]) / (1 if "O" in (found[1], found[2]) else 2)
    pi = Decimal("3.14")
    exact = pi * radius * radius if "area" in part.scene.task.question else 2 * pi * radius
    return Consulted(str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP)), 1)


_GEOMETRY: Final = (
    ToolStrategy("diagram and solver", ("image_cdl", "inter_gps"), is_world("geometry", kinds=_POLYGONS), _solved),
    ToolStrategy(
        "diagram, text and solver",
        ("image_cdl", "text_cdl", "inter_gps"),
        is_world("geometry", kinds=_POLYGONS),
        partial(_solved, reads="text_cdl"),
    ),
    ToolStrategy(
        "goal, diagram and solver",
        ("goal_cdl", "image_cdl", "inter_gps"),
        is_world("geometry", kinds=_POLYGONS),
        partial(_solved, reads="goal_cdl"),
    ),
    ToolStrategy("a circle's measure", ("image_cdl",), is_world("geometry", kinds=("circle",)), _circle),
)

# Use tools that measure and read coloured maps, lit solids and rows of small pictures.

_SWATCHES: Final = 200
"""Pixels at the right of a map that the legend takes."""
_TURN: Final = 8
"""Degrees of hue by which the shades of a solid may differ."""
_STRONG: Final = 0.3
"""Saturation above that of floors and papers."""


def _legend(part: ExpertPart) -> list[tuple[Colour, str]]:
    """Return the colour and text of each class, lightest first, as the expert sees them in the picture."""
    rows = (line.split(" ", 3) for line in part.scene.notes["legend"].splitlines())
    return [((int(red), int(green), int(blue)), text) for red, green, blue, text in rows]


def _region(part: ExpertPart, number: int, occasion: str) -> Generator[Move, Seen, int]:
    """Find the class of a region by the mean colour of a strip next to its name."""
    name, (x0, y0, _, y1), _ = part.scene.evidence[number]
    strip: list[JsonValue] = [x0 + 1, y0 + 2, x0 + 9, y1 - 2]
    seen = yield from use(part, "color_stats", {"image": part.scene.shown_as[name], "box": strip, "bins": 1}, occasion)
    mean = result_of(seen)["mean"]
    legend = _legend(part)
    return min(
        range(len(legend)), key=lambda place: sum(abs(a - b) for a, b in zip(legend[place][0], mean, strict=True))
    )


def _class(part: ExpertPart) -> Consulting:
    found = yield from _region(part, 0, "consult")
    return Consulted(_legend(part)[found][1], 1)


def _higher(part: ExpertPart) -> Consulting:
    first = yield from _region(part, 0, "consult")
    second = yield from _region(part, 1, "then")
    return Consulted("yes" if first > second else "no", 2)


def _regions(part: ExpertPart) -> Consulting:
    colour = next(colour for colour, text in _legend(part) if part.scene.task.question.endswith(f"range {text}?"))
    seen = yield from use(part, "color_mask", {**named_picture(part), **colour_range(colour), "min_area": 300})
    return Consulted(str(result_of(seen)["parts"] - 1), 1)  # the legend's own patch


def _highest(part: ExpertPart) -> Consulting:
    name, picture = next(iter(part.scene.pictures.items()))
    land: list[JsonValue] = [0, 0, picture.width - _SWATCHES, picture.height]
    where: dict[str, JsonValue] = {"image": part.scene.shown_as[name]}
    seen = yield from use(part, "color_mask", {**where, "box": land, **colour_range(_legend(part)[-1][0])})
    box = result_of(seen)["box"]
    if box is None:
        return Consulted(None, 1)
    read = yield from use(part, "ocr", {**where, "box": box}, "then")
    return Consulted(str(result_of(read)["text"]).strip(), 2)


def _solids(part: ExpertPart) -> Consulting:
    return Consulted(str((yield from _parts(part, _asked_colour(part), "consult"))), 1)


def _left(part: ExpertPart) -> Consulting:
    everything = yield from _parts(part, None, "consult")
    taken = yield from _parts(part, _asked_colour(part), "then")
    return Consulted(str(everything - taken), 2)


def _asked_colour(part: ExpertPart) -> Colour:
    return next(colour for name, colour in COLOURS.items() if f" {name} things" in part.scene.task.question)


def _parts(part: ExpertPart, colour: Colour | None, occasion: str) -> Generator[Move, Seen, int]:
    """Count the things that have the hue of a colour, or any hue at all."""
    hue = {} if colour is None else {"hue": colour_range(colour, _TURN)["hue"]}
    arguments: dict[str, JsonValue] = {**named_picture(part), **hue, "saturation": [_STRONG, 1.0], "min_area": 100}
    seen = yield from use(part, "color_mask", arguments, occasion)
    return int(result_of(seen)["parts"])


def _counted(part: ExpertPart, rows: int) -> Consulting:
    """Read how many a picture stands for, and count the pictures of one row or of two."""
    read = yield from use(part, "ocr", {**named_picture(part), "min_confidence": 0.3})
    worth = re.search(r"=\s*(\d+)", str(result_of(read)["text"]))
    if worth is None:
        return Consulted(None, 1)
    counts = []
    for name, box, _ in part.scene.evidence[:rows]:
        where: dict[str, Any] = {"image": part.scene.shown_as[name], "box": list(box)}
        seen = yield from use(part, "color_mask", {**where, "saturation": [_STRONG, 1.0], "min_area": 60}, "then")
        counts.append(int(result_of(seen)["parts"]))
    count = counts[0] if rows == 1 else abs(counts[0] - counts[1])
    return Consulted(str(int(worth[1]) * count), 1 + rows)


def _mapped(*kinds: str) -> Any:
    fits = is_world("region-map", kinds=kinds)
    return lambda part: fits(part) and "legend" in part.scene.notes


_SCENES: Final = (
    ToolStrategy("the class of a region", ("color_stats",), _mapped("class"), _class),
    ToolStrategy("the classes of two regions", ("color_stats", "color_stats"), _mapped("higher"), _higher),
    ToolStrategy("regions of a class", ("color_mask",), _mapped("count"), _regions),
    ToolStrategy("the region of a class", ("color_mask", "ocr"), _mapped("highest"), _highest),
    ToolStrategy("solids of a colour", ("color_mask",), is_world("solid-scene", kinds=("count",)), _solids),
    ToolStrategy(
        "solids of other colours", ("color_mask", "color_mask"), is_world("solid-scene", kinds=("left",)), _left
    ),
    ToolStrategy(
        "a row of pictures", ("ocr", "color_mask"), is_world("pictograph", kinds=("value",)), partial(_counted, rows=1)
    ),
    ToolStrategy(
        "two rows of pictures",
        ("ocr", "color_mask", "color_mask"),
        is_world("pictograph", kinds=("difference",)),
        partial(_counted, rows=2),
    ),
)

# Read a table off the lines that OCR gives, and work out the answers to questions of tables, in the wordings of the
# worlds `table-arithmetic` and `form-page`.

TextRow = list[str]
_NUMBER: Final = re.compile(r"\$?-?\d[\d,]*(?:\.\d+)?%?")
Rows = Sequence[TextRow]


def number_in(text: str) -> float | None:
    """Return the number that a text is, with its signs of thousands and of money left out; None if it is none."""
    bare = text.replace(" ", "")
    return float(re.sub(r"[$,%]", "", bare)) if _NUMBER.fullmatch(bare) else None


def text_rows(lines: Sequence[Mapping[str, Any]]) -> list[TextRow]:
    """Return the texts of lines (`text`, `box`) in rows from top to bottom, each from left to right."""
    rows: list[list[Mapping[str, Any]]] = []
    for line in sorted(lines, key=lambda item: item["box"][1] + item["box"][3]):
        middle = (line["box"][1] + line["box"][3]) / 2
        last = rows[-1][-1]["box"] if rows else None
        if last is not None and last[1] < middle < last[3]:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [[str(item["text"]) for item in sorted(row, key=lambda item: item["box"][0])] for row in rows]


def answer_of(question: str, rows: Rows) -> str | None:
    """Work out a question about a table; None where the rows do not tell, or the wording is unknown."""
    for pattern, work_out in _QUESTIONS:
        if found := re.search(pattern, question):
            try:
                return work_out(rows, *found.groups())
            except (LookupError, ValueError, ZeroDivisionError):
                return None
    return None


def _number_at(rows: Rows, label: str) -> float:
    """Return the number in the row of a label. Raises LookupError if there is none."""
    return _numbers_of(rows, label)[-1]


def _numbers_of(rows: Rows, label: str) -> list[float]:
    valued = {row[0]: row for row in rows if len(row) > 1 and _numbers(row)}
    close = get_close_matches(label, valued, 1, 0.7)
    return _numbers(valued[close[0]])


def _numbers(row: TextRow) -> list[float]:
    return [value for value in map(number_in, row[1:]) if value is not None]


def _column(rows: Rows) -> list[float]:
    return [value for row in rows for value in _numbers(row)]


def _shown(value: float) -> str:
    return f"{value:.6g}"


def _two(work_out: Callable[[float, float], float]) -> Callable[..., str]:
    return lambda rows, a, b: _shown(work_out(_number_at(rows, a), _number_at(rows, b)))


def _of_all(rows: Rows, kind: str) -> str:
    values = _column(rows)
    return _shown(
        {"mean": sum(values) / len(values), "range": max(values) - min(values), "median": median(values)}[kind]
    )


def _most(rows: Rows, word: str) -> str:
    values = {row[0]: _numbers(row)[-1] for row in rows if _numbers(row)}
    return (max if word == "most" else min)(values, key=lambda label: values[label])


def _chance(rows: Rows, label: str, column: str) -> str:
    head = next(row for row in rows if column in row and not _numbers(row))
    return str(Fraction(int(_numbers_of(rows, label)[head.index(column) - 1]), int(sum(_column(rows)))))


def _field(rows: Rows, label: str) -> str:
    named = {row[0].casefold(): row[1] for row in rows if len(row) == 2}
    return named[get_close_matches(label.casefold(), named, 1, 0.8)[0]]


def _of_goods(work_out: Callable[[float, float], str]) -> Callable[..., str]:
    """Answer with the pieces and the price of a line of goods."""
    return lambda rows, label: work_out(*_numbers_of(rows, label))


def _lines(rows: Rows) -> str:
    head = next(place for place, row in enumerate(rows) if "pieces" in map(str.casefold, row))
    return str(len(rows) - head - 1)


_QUESTIONS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (r"do (.+) and (.+) have together", _two(lambda a, b: a + b)),
    (r"are there for (.+) than for (.+)\?", _two(lambda a, b: a - b)),
    (r"the (mean|range|median) of", _of_all),
    (r"per year between (.+) and (.+)\?", _two(lambda a, b: b - a)),
    (r"at least (\d+)", lambda rows, limit: str(sum(value >= int(limit) for value in _column(rows)))),
    (r"has the (most|fewest)", _most),
    (r"belongs to the row (.+) and the column (.+)\? Give", _chance),
    (
        r"belongs to (.+)\? Give",
        lambda rows, label: str(Fraction(int(_number_at(rows, label)), int(sum(_column(rows))))),
    ),
    (r"What is the (.+) on this page\?", _field),
    (r"Which (.+) does the page give\?", _field),
    (r"lines of goods does the page list", _lines),
    (r"many pieces of (.+) does the page list", _of_goods(lambda pieces, price: _shown(pieces))),
    (r"one piece of (.+) cost", _of_goods(lambda pieces, price: f"{price:.2f}")),
    (r"all listed pieces of (.+) cost", _of_goods(lambda pieces, price: f"{pieces * price:.2f}")),
    (
        r"do (\d+) pieces of (.+) and one of (.+) cost",
        lambda rows, n, a, b: f"{int(n) * _number_at(rows, a) + _number_at(rows, b):.2f}",
    ),
)
_MEASURED: Final = 0.01
"""By how much of a chart's largest value one that was measured may differ from the step of the axis that it means."""
_CHARTS: Final = ("chart-bar", "chart-line", "chart-pie")
_ROWS: Final = ("field", "pieces", "price", "cost")
"""Kinds of questions about a form that one row of it answers."""
_OF_LABELS: Final = (
    r"for (.+) larger than for (.+)\?", r"for (.+) and (.+)\?", r"share of (.+) larger than that of (.+)\?",
    r"for (.+) in this chart\?", r"for (.+)\?", r"whole is (.+)\?",
)  # fmt: skip
Values = Mapping[str, float]
"""Label -> value of the series that is asked about."""


def _read(part: ExpertPart, *, cut: bool = False, rows: bool = False) -> Consulting:
    """Read the picture, or the evidence once it is cut out: the text is the answer, or its rows tell it."""
    faint: dict[str, JsonValue] = {"min_confidence": 0.3} if rows else {}
    seen = yield from _cut_and_read(part) if cut else use(part, "ocr", {**named_picture(part), **faint})
    found = result_of(seen)
    answer = answer_of(part.scene.task.question, text_rows(found["lines"])) if rows else str(found["text"])
    return Consulted(answer, 1 + cut)


def _cut_and_read(part: ExpertPart) -> Generator[Move, Seen, Seen]:
    """Cut the evidence out, and read the picture that comes back."""
    scene = part.scene
    name, box, _ = scene.evidence[0]
    picture = scene.pictures[name]
    cut = around(scene.rng, box, (picture.width, picture.height))
    yield from use(part, "crop", {"image": scene.shown_as[name], "box": list(cut), "scale": 2})
    # The next number: the pictures of the question come first.
    return (yield from use(part, "ocr", {"image": f"{scene.opening.label}{scene.opening.pictures}"}, "then"))


def _chart(part: ExpertPart) -> Consulting:
    scene = part.scene
    seen = yield from use(part, "chartocr", {**named_picture(part), "task": "scg"})
    rows = rows_of(seen.text)
    found = charted(scene.task.question, scene.task.choices, rows)
    if found is not None and number_in(scene.answer) is not None and number_in(found) is not None:
        largest = max(abs(number_in(row[-1]) or 0.0) for row in rows)
        if abs(float(found) - float(scene.answer)) <= _MEASURED * largest:
            found = scene.answer  # the step of the axis that is nearest to what was measured
    return Consulted(found, 1)


def rows_of(text: str) -> list[TextRow]:
    """Return the rows of the table that `chartocr` writes: label, series if there are several, value."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
    return [row for row in rows if number_in(row[-1]) is not None]


def charted(question: str, choices: Sequence[str], rows: Sequence[TextRow]) -> str | None:
    """Work out a question about a chart from these values; None where they do not tell."""
    several = sorted({row[1] for row in rows if len(row) == 3})
    series = next((name for name in several if re.search(rf"\bof {re.escape(name)}\b", question)), "")
    if several and not series:
        return None
    values = {row[0]: number_in(row[-1]) or 0.0 for row in rows if not several or row[1] == series}
    if not values:
        return None
    if asked := re.search(r"(?:above|larger than) ([\d.]+)%?\?", question):
        return str(sum(value > float(asked[1]) for value in values.values()))
    if asked := re.search(r"\b(largest|smallest)\b", question):
        label = (max if asked[1] == "largest" else min)(values, key=lambda name: values[name])
        return next(iter(get_close_matches(label, choices, 1)), label)
    return _of_labels(question, values)


def _of_labels(question: str, values: Values) -> str | None:
    for pattern in _OF_LABELS:
        if asked := re.search(pattern, question):
            found = [value for name in asked.groups() if (value := _looked_up(values, name)) is not None]
            if len(found) < len(asked.groups()):
                return None
            return f"{found[0] if len(found) == 1 else abs(found[0] - found[1]):.4g}"
    return None


def _looked_up(values: Values, name: str) -> float | None:
    """Return the value of a label, or of one that reads nearly the same, as tools misread letters."""
    close = get_close_matches(name, values, 1, 0.6)
    return values[close[0]] if close else None


_READING: Final = (
    ToolStrategy("a word", ("ocr",), is_world("rotated-dark-text", kinds=("rotated",)), _read),
    ToolStrategy(
        "a word, cut out", ("crop", "ocr"), is_world("rotated-dark-text", kinds=("rotated",)), partial(_read, cut=True)
    ),
    ToolStrategy("a table", ("ocr",), is_world("table-arithmetic"), partial(_read, rows=True)),
    ToolStrategy("a form", ("ocr",), is_world("form-page"), partial(_read, rows=True)),
    ToolStrategy(
        "a row of a form", ("crop", "ocr"), is_world("form-page", kinds=_ROWS), partial(_read, cut=True, rows=True)
    ),
    ToolStrategy("a chart", ("chartocr",), is_world(*_CHARTS), _chart),
)

# Calls of tools that measure, read or solve, and an answer from their results. Where the tools lead to no answer, or to
# one that the expert sees to be wrong, it says so, looks itself if a turn is left for a crop, and answers what it sees.

_STRATEGIES: tuple[ToolStrategy, ...] = (*_PIXELS, *_SCENES, *_READING, *_GEOMETRY)


def strategies_for(part: ExpertPart, left: int) -> list[ToolStrategy]:
    """List the strategies whose tools are on offer and that answer this question within `left` turns."""
    return [item for item in _STRATEGIES if item.possible(part, left)]


def consult(part: ExpertPart, left: int) -> Script:
    """Call the tools of a strategy that fits, and answer.

    Raises `ExpertStopped`: no strategy fits, or a call failed.
    """
    scene, strategies = part.scene, strategies_for(part, left)
    if not strategies:
        raise ExpertStopped(f"no tool answers {scene.task.id} in {scene.dialect.id}")
    found = yield from scene.rng.choice(strategies).play(part)
    if found.answer is not None and found.answer.casefold() == scene.answer.casefold():
        yield Move(Answer(text=found.answer), part.thoughts.say("consulted", answer=found.answer))
    elif can_crop(part, left - found.calls):
        yield from crop(part, left - found.calls, part.thoughts.say("doubt"))
    else:
        yield Move(Answer(text=scene.answer), part.thoughts.say("by_eye", answer=scene.answer))
