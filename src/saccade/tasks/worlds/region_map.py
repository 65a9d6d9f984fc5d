"""World `region-map`: a map whose regions are coloured by class, with a legend; value, comparison, count and extreme.

The questions are of the families of MapQA (Chang et al., 2022). Regions are the fields of a bent grid, with
whole-number corners and a border of ink around each; a field has one colour of the legend and its name on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import ImageDraw
from pydantic import Field

from saccade.record.task import AnswerType, EvidenceBox
from saccade.tasks.worlds import map_reading, reading
from saccade.tasks.worlds.base import Knobs, World, WorldSample
from saccade.tasks.worlds.canvas import Box, Colour, blank, font, put_text, put_text_centred, text_size
from saccade.tasks.worlds.program import compose
from saccade.tasks.worlds.rng import Rng

MapKind = Literal["class", "higher", "count", "highest"]
KINDS: tuple[MapKind, ...] = ("class", "higher", "count", "highest")
_NAMES = (
    *("Alba", "Brem", "Cora", "Dorn", "Elba", "Fara", "Gant", "Hela", "Isk", "Jura", "Kent", "Lund", "Mora", "Nord"),
    *("Oslo", "Pera", "Rima", "Sola", "Tarn", "Ural", "Vara", "Wels", "Yser", "Zeta"),
)
_TITLES = ("People per square mile", "Rain in inches", "Farms per district", "Schools per district", "Sunny days")
# Light to dark, told apart at a glance; black letters can be read on all of them.
_PALETTES: tuple[tuple[Colour, ...], ...] = (
    ((226, 240, 252), (166, 206, 240), (106, 168, 222), (70, 130, 200)),
    ((252, 236, 214), (250, 200, 140), (244, 160, 80), (226, 116, 40)),
    ((228, 246, 226), (170, 222, 166), (110, 190, 110), (60, 154, 76)),
)
_SEA: Colour = (244, 246, 248)
_INK: Colour = (24, 24, 28)
_SWATCH = 24
_PITCH = 40


class RegionMapKnobs(Knobs):
    """How many regions there are, and what is asked."""

    columns: int = Field(4, ge=2, le=5)
    """Most columns of the grid; at least two."""
    rows: int = Field(4, ge=2, le=4)
    kinds: tuple[MapKind, ...] = Field(KINDS, min_length=1)


@dataclass(frozen=True, slots=True)
class _Map:
    names: tuple[str, ...]
    classes: dict[str, int]
    """Of each region, 0 for the lightest."""
    fields: dict[str, Box]
    """Around the name of each region, inside it."""
    legend: tuple[str, ...]
    swatches: tuple[Box, ...]


def draw(rng: Rng, knobs: RegionMapKnobs) -> WorldSample:
    """One map and a question about it."""
    kind = rng.choice(knobs.kinds)
    columns, rows = rng.integer(2, knobs.columns), rng.integer(2, knobs.rows)
    names = tuple(rng.sample(_NAMES, columns * rows))
    palette = rng.choice(_PALETTES)
    classes = _classes(rng, names, alone=kind == "highest")
    pitch = (rng.integer(104, 124), rng.integer(84, 100))
    size = (columns * pitch[0] + 240, max(rows * pitch[1] + 110, 80 + 4 * _PITCH))
    picture, pen = blank(size, _SEA)
    put_text_centred(pen, (size[0] // 2, 26), rng.choice(_TITLES), font(20, "sans-bold"), _INK)
    fields = _regions(rng, pen, (columns, rows), pitch, [(name, palette[classes[name]]) for name in names])
    step = rng.choice((10, 20, 25, 50, 100))
    legend = tuple(f"{number * step} to {(number + 1) * step - 1}" for number in range(4))
    swatches = []
    for number, text in enumerate(legend):
        x, y = size[0] - 176, 64 + number * _PITCH
        pen.rectangle((x, y, x + _SWATCH - 1, y + _SWATCH - 1), fill=palette[number])
        put_text(pen, (x + _SWATCH + 12, y + 4), text, font(18), _INK)
        swatches.append((x, y, x + _SWATCH, y + _SWATCH))
    drawn = _Map(names, classes, fields, legend, tuple(swatches))
    question, answer, lines, used = _ask(rng, kind, drawn)
    choices = {"class": legend, "highest": names}.get(kind, ())
    types = {"class": AnswerType.CHOICE, "highest": AnswerType.CHOICE, "higher": AnswerType.YES_NO}
    return WorldSample(
        question=question,
        media={"image_0": picture},
        answer=answer,
        answer_type=types.get(kind, AnswerType.NUMBER),
        choices=choices,
        program=compose(reading, map_reading, last='rgb = np.asarray(image_0.convert("RGB"))\n' + lines),
        evidence=tuple(EvidenceBox(image="image_0", xyxy=fields[name], label=name) for name in used),
        difficulty=round(len(names) / 20, 3),
        tags=(kind, f"{len(names)} regions"),
        notes={"legend": "\n".join(f"{' '.join(map(str, palette[n]))} {text}" for n, text in enumerate(legend))},
    )


def _classes(rng: Rng, names: tuple[str, ...], *, alone: bool) -> dict[str, int]:
    """A class for each region, of two kinds at least; the darkest for one alone, or for any number."""
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
        pen.line([*points, points[0], points[1]], fill=_INK, width=2)
        middle = sum(px for px, _ in points) // 4, sum(py for _, py in points) // 4
        width, height = text_size(name, face)
        put_text_centred(pen, middle, name, face, _INK)
        reach = (width // 2 + 12, height // 2 + 12)
        boxes[name] = (middle[0] - reach[0], middle[1] - reach[1], middle[0] + reach[0], middle[1] + reach[1])
    return boxes


def _ask(rng: Rng, kind: MapKind, drawn: _Map) -> tuple[str, str, str, tuple[str, ...]]:
    """Question, answer, end of the program, and the regions that show the answer."""
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


WORLD = World("region-map@1", "Classes, comparisons, counts and extremes from a coloured map.", RegionMapKnobs, draw)
