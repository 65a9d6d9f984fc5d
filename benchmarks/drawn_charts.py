"""Charts as users of Matplotlib draw them, and pictures that are no charts, each with the truth about it.

Every kind is drawn in styles, sizes, fonts, legends, grids, scales and languages chosen by a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any, Final

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from saccade.tasks.worlds import Rng

Values = Mapping[tuple[str, str], float]
"""(label, series) -> value; the series is empty if there is one only."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture and the truth about it."""

    kind: str
    picture: Image.Image
    reads: str
    """What a tool may call it: bar, line or pie; empty if it is none of them."""
    values: Values
    slack: float
    """By how much a value may be off, whatever its size: a hundredth of what the axis shows."""


_STYLES: Final = (
    *("default",) * 6, "ggplot", "bmh", "dark_background", "dark_background", "fivethirtyeight", "grayscale", "classic",
    "Solarize_Light2", "seaborn-v0_8", "seaborn-v0_8-whitegrid", "seaborn-v0_8-darkgrid", "seaborn-v0_8-dark",
    "seaborn-v0_8-ticks", "seaborn-v0_8-pastel", "seaborn-v0_8-talk", "tableau-colorblind10", "petroff10", "fast",
)  # fmt: skip
_LABELS: Final = (
    ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    ("2018", "2019", "2020", "2021", "2022", "2023", "2024"),
    ("Alpha", "Berlin", "Cedar", "Delta", "Egypt", "Forest", "Garden"),
    ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"),
    ("A", "B", "C", "D", "E", "F", "G"),
    ("Public transport", "Private cars", "Bicycles", "Walking", "Car sharing", "Night trains", "Ferries"),
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul"),
)
_HAN: Final = ("北京", "上海", "广州", "深圳", "成都", "武汉", "西安")
_SERIES: Final = (
    ("North", "South", "East", "West"), ("Men", "Women", "Children", "Staff"), ("2021", "2022", "2023", "2024"),
    ("Model A", "Model B", "Baseline", "Ours"), ("Revenue", "Costs", "Profit", "Tax"),
)  # fmt: skip
_TITLES: Final = ("", "", "Harvest by place", "Results 2024", "Sales in thousands of units", "Accuracy (%)")


class _Sheet:
    """A figure with one plot, in a style that the seed chooses."""

    def __init__(self, rng: Rng) -> None:
        from matplotlib.figure import Figure

        self.rng = rng
        width = rng.choice((5.0, 6.4, 6.4, 7.0, 8.0, 10.0))
        self.figure = Figure(
            figsize=(width, rng.choice((4.0, 4.8, 4.8, 5.5))), dpi=rng.choice((72, 80, 100, 100, 120, 150))
        )
        self.axes = self.figure.add_subplot()
        self.axes.set_title(rng.choice(_TITLES))

    def labels(self, least: int = 3, most: int = 7) -> list[str]:
        from matplotlib import font_manager, rcParams

        words = self.rng.choice(_LABELS)
        han = {font.name for font in font_manager.fontManager.ttflist} & {
            "Noto Sans CJK SC",
            "Noto Sans CJK JP",
            "IPAexGothic",
        }
        if han and self.rng.chance(10):
            words, rcParams["font.family"] = _HAN, [min(han)]
        return list(words[: self.rng.integer(least, most)])

    def series(self, most: int = 4) -> list[str]:
        return list(self.rng.choice(_SERIES)[: self.rng.integer(1, most)])

    def magnitude(self) -> float:
        return float(self.rng.choice((0.01, 0.1, 1, 1, 1, 10, 1000, 100_000)))

    def decorate(self, labels: Sequence[str] = (), *, upright: bool = True) -> None:
        """Draw grid and names of the axes, and turn long labels."""
        rng, axes = self.rng, self.axes
        if rng.chance(30):
            axes.grid(visible=True, axis=rng.choice(("both", "x", "y")), linestyle=rng.choice(("-", "--", ":")))
            axes.set_axisbelow(rng.chance(70))
        if rng.chance(40):
            axes.set_ylabel(rng.choice(("Value", "Units sold", "Share (%)")) if upright else "")
            axes.set_xlabel(rng.choice(("Place", "Time (s)", "Group")))
        if labels and upright:
            long = sum(map(len, labels)) > 40
            turn = rng.choice((30, 45, 90)) if long or rng.chance(15) else 0
            for text in axes.get_xticklabels() if turn else ():
                text.set(
                    rotation=turn, ha="right" if turn < 90 and rng.chance(50) else "center", rotation_mode="default"
                )

    def legend(self, names: Sequence[str], *, shown: bool) -> None:
        """Draw a legend inside, outside or below; of one series only now and then."""
        if not shown and not self.rng.chance(30):
            return
        place: dict[str, Any] = self.rng.choice((
            {"loc": "best"}, {"loc": "best"}, {"loc": "upper right"}, {"loc": "upper left"},
            {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}, {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)},
            {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncol": max(2, len(names))},
            {"loc": "lower center", "bbox_to_anchor": (0.5, 1.06), "ncol": 2},
        ))  # fmt: skip
        self.axes.legend(**place, frameon=self.rng.chance(70))

    def note(self) -> None:
        if self.rng.chance(15):
            self.axes.annotate(
                self.rng.choice(("peak", "see text", "n = 40")), (0.5, 0.6), (0.7, 0.8), xycoords="axes fraction",
                textcoords="axes fraction", arrowprops={"arrowstyle": "->"},
            )  # fmt: skip

    def done(self, kind: str, reads: str = "", values: Values | None = None, *, along: str = "y") -> Drawn:
        low, high = self.axes.get_ylim() if along == "y" else self.axes.get_xlim()
        data = BytesIO()
        tight = "tight" if self.rng.chance(70) or self.axes.get_legend() is not None else None
        self.figure.savefig(data, format="png", bbox_inches=tight)
        return Drawn(kind, Image.open(data).convert("RGB"), reads, values or {}, abs(high - low) / 100)


def _amounts(rng: Rng, count: int, scale: float) -> list[float]:
    return [rng.integer(8, 95) * scale for _ in range(count)]


def _table(
    labels: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[float]]
) -> dict[tuple[str, str], float]:
    """Return the values, under no name of a series where there is one only."""
    return {
        (label, name if len(names) > 1 else ""): float(value)
        for name, row in zip(names, rows, strict=True)
        for label, value in zip(labels, row, strict=True)
    }


def _look(rng: Rng) -> dict[str, Any]:
    return rng.choice(({}, {}, {}, {"edgecolor": "black"}, {"edgecolor": "white"}, {"alpha": 0.7}, {"hatch": "//"}))


def _bars(
    sheet: _Sheet, *, kind: str, most: int = 1, stacked: bool = False, lying: bool = False, log: bool = False
) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    labels, names = sheet.labels(), sheet.series(most) if most > 1 else ["only"]
    if most > 1 and len(names) < 2:
        names = ["North", "South"]
    scale = 1.0 if log else sheet.magnitude()
    rows = [
        [float(10 ** (rng.integer(5, 45) / 10)) for _ in labels] if log else _amounts(rng, len(labels), scale)
        for _ in names
    ]
    if kind == "bars below zero":
        rows = [[value * rng.choice((1, 1, -1)) for value in row] for row in rows]
    places, width = np.arange(len(labels)), rng.choice((0.5, 0.6, 0.8, 0.8))
    draw, look, foot = (axes.barh if lying else axes.bar), _look(rng), np.zeros(len(labels))
    if rng.chance(15) and most == 1 and not log:
        look = {**look, "xerr" if lying else "yerr": 3 * scale, "capsize": 3}
    for order, (name, row) in enumerate(zip(names, rows, strict=True)):
        if stacked:
            below: dict[str, Any] = {"left" if lying else "bottom": foot}
            made = draw(places, row, width, label=name, **below, **look)
            foot = foot + np.array(row)
        else:
            thick = width / len(names)
            made = draw(places + thick * (order - (len(names) - 1) / 2), row, thick, label=name, **look)
        if rng.chance(20) and "yerr" not in look and "xerr" not in look:
            axes.bar_label(made, fmt="%g", label_type="center" if stacked else "edge")
    (axes.set_yticks if lying else axes.set_xticks)(places, labels)
    if log:
        (axes.set_xscale if lying else axes.set_yscale)("log")
    elif rng.chance(10) and not stacked and kind != "bars below zero":
        lowest = 0.8 * min(map(min, rows))
        (axes.set_xlim if lying else axes.set_ylim)(lowest, 1.1 * max(map(max, rows)))
    sheet.decorate(labels, upright=not lying)
    sheet.legend(names, shown=most > 1)
    sheet.note()
    return sheet.done(kind, "bar", _table(labels, names, rows), along="x" if lying else "y")


def _lines(
    sheet: _Sheet, *, kind: str, most: int = 1, marked: bool = False, log: bool = False, numbers: bool = False
) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    names = sheet.series(most) if most > 1 else ["only"]
    if most > 1 and len(names) < 2:
        names = ["North", "South"]
    labels = [] if numbers else sheet.labels()
    places = np.arange(rng.integer(5, 30)) * rng.choice((0.5, 1, 10)) if numbers else np.arange(len(labels))
    scale = 1.0 if log else sheet.magnitude()
    rows = [
        [float(10 ** (rng.integer(5, 45) / 10)) if log else value for value in _amounts(rng, len(places), scale)]
        for _ in names
    ]
    for name, row in zip(names, rows, strict=True):
        style: dict[str, Any] = {"linestyle": rng.choice(("-", "-", "--", ":", "-."))}
        if marked:
            style |= {"marker": rng.choice("os^Dx*"), "markersize": rng.integer(4, 9)}
            style |= {"markerfacecolor": "white"} if rng.chance(15) else {}
        axes.plot(places, row, label=name, **style)
    if labels:
        axes.set_xticks(places, labels)
    if log:
        axes.set_yscale("log")
    sheet.decorate(labels)
    sheet.legend(names, shown=most > 1)
    sheet.note()
    if numbers:
        sheet.figure.draw_without_rendering()
        ticks = [text for text in axes.get_xticklabels() if places[0] <= text.get_position()[0] <= places[-1]]
        labels = [text.get_text() for text in ticks]
        at = [float(text.get_position()[0]) for text in ticks]
        rows = [list(np.interp(at, places, row)) for row in rows]
    return sheet.done(kind, "line", _table(labels, names, rows))


def _pie(sheet: _Sheet, *, kind: str, hole: bool = False) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    labels = sheet.labels(2, 6)
    sizes = [float(rng.integer(8, 60)) for _ in labels]
    look: dict[str, Any] = {"startangle": rng.choice((0, 90, 140))}
    if hole:
        look["wedgeprops"] = {"width": rng.choice((0.3, 0.4, 0.5))}
    elif rng.chance(30):
        look["wedgeprops"] = {"edgecolor": "white"}
    if rng.chance(50):
        look |= {"autopct": "%1.1f%%"} | ({"pctdistance": 0.8} if hole else {})
    if rng.chance(10):
        look["shadow"] = True
    if rng.chance(12) and not hole:
        look["explode"] = [0.1, *[0] * (len(sizes) - 1)]
    if rng.chance(40):
        axes.pie(sizes, **look)
        beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        axes.legend(labels=labels, **(beside if rng.chance(50) else {"loc": "best"}))
    else:
        axes.pie(sizes, labels=labels, **look)
    total = sum(sizes)
    drawn = sheet.done(
        kind, "pie", {(label, ""): 100 * size / total for label, size in zip(labels, sizes, strict=True)}
    )
    return Drawn(kind, drawn.picture, "pie", drawn.values, 1.0)


def _histogram(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    sample = [sum(rng.integer(0, 1000) for _ in range(6)) / 1000 for _ in range(rng.choice((100, 1000)))]
    edge: dict[str, Any] = {"edgecolor": "black"} if rng.chance(50) else {}
    counts, edges, _ = axes.hist(sample, bins=rng.choice((6, 10, 20)), **edge)
    sheet.decorate()
    sheet.figure.draw_without_rendering()
    values = {}
    for text in axes.get_xticklabels():
        place = int(np.searchsorted(edges, text.get_position()[0])) - 1
        if 0 <= place < len(counts):
            values[text.get_text(), ""] = float(counts[place])
    return sheet.done("histogram", "bar", values)


def _scatter(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    names = sheet.series(3)
    for name in names:
        count = rng.integer(8, 120)
        x, y = (np.array([rng.integer(0, 1000) for _ in range(count)]) / 10 for _ in range(2))
        axes.scatter(
            x,
            y + x * rng.integer(0, 1),
            s=rng.choice((10, 20, 36, 80)),
            label=name,
            marker=rng.choice("os^"),
            alpha=rng.choice((1, 0.6)),
        )
    sheet.decorate()
    sheet.legend(names, shown=len(names) > 1)
    return sheet.done("scatter")


def _area(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    names = sheet.series(3)
    if len(names) < 2:
        names = ["North", "South"]
    labels = sheet.labels()
    axes.stackplot(range(len(labels)), *[_amounts(rng, len(labels), 1.0) for _ in names], labels=names)
    axes.set_xticks(range(len(labels)), labels)
    sheet.decorate(labels)
    sheet.legend(names, shown=True)
    return sheet.done("stacked area")


def _boxes(sheet: _Sheet) -> Drawn:
    rng = sheet.rng
    labels = sheet.labels()
    groups = [[rng.integer(0, 60) + rng.integer(0, 60) for _ in range(40)] for _ in labels]
    sheet.axes.boxplot(groups, patch_artist=rng.chance(60), tick_labels=labels)
    sheet.decorate(labels)
    return sheet.done("box plot")


def _heatmap(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    labels, names = sheet.labels(), list(rng.choice(_SERIES))
    cells = np.array([[rng.integer(0, 99) for _ in labels] for _ in names])
    image = axes.imshow(cells, cmap=rng.choice(("viridis", "Blues", "coolwarm")), aspect=rng.choice(("auto", "equal")))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks(range(len(names)), names)
    if rng.chance(60):
        sheet.figure.colorbar(image)
    for (row, column), value in np.ndenumerate(cells) if rng.chance(50) else ():
        axes.text(column, row, str(value), ha="center", va="center", color="white")
    return sheet.done("heatmap")


def _two_axes(sheet: _Sheet) -> Drawn:
    """Draw bars or a line, and a line on a second axis."""
    rng, axes = sheet.rng, sheet.axes
    labels = sheet.labels()
    first = _amounts(rng, len(labels), 1.0)
    second = _amounts(rng, len(labels), rng.choice((0.1, 20, 500)))
    bars = rng.chance(60)
    if bars:
        axes.bar(range(len(labels)), first, label="Sales")
    else:
        axes.plot(range(len(labels)), first, "C0-o", label="Sales")
    other = axes.twinx()
    other.plot(range(len(labels)), second, "C1-o", label="Growth")
    axes.set_xticks(range(len(labels)), labels)
    axes.legend(loc="upper left")
    if rng.chance(60):
        other.legend(loc="upper right")
    gold = {
        (label, name): value
        for label, a, b in zip(labels, first, second, strict=True)
        for name, value in (("Sales", a), ("", a), ("Growth", b))
    }
    if not bars:
        gold = {key: value for key, value in gold.items() if key[1]}
    return sheet.done("two value axes", "bar" if bars else "line", gold)


def _panels(sheet: _Sheet) -> Drawn:
    """Draw two plots side by side: nothing says which of them a reading is of."""
    rng, figure = sheet.rng, sheet.figure
    figure.clear()
    for axes in figure.subplots(1, 2):
        labels = sheet.labels(3, 4)
        axes.bar(labels, _amounts(rng, len(labels), sheet.magnitude()))
        sheet.axes = axes
    figure.tight_layout()
    return sheet.done("two panels", "bar")


def _cells(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    labels, names = sheet.labels(), sheet.series()
    axes.axis("off")
    rows = [[str(rng.integer(0, 999)) for _ in names] for _ in labels]
    axes.table(
        rows,
        rowLabels=labels,
        colLabels=names,
        loc="center",
        colColours=["#9fc5e8"] * len(names) if rng.chance(50) else None,
    )
    return sheet.done("table")


def _flow(sheet: _Sheet) -> Drawn:
    rng, axes = sheet.rng, sheet.axes
    axes.axis("off")
    places = [(rng.integer(0, 2) * 0.35 + 0.1, 0.85 - 0.25 * row) for row in range(4)]
    for word, (x, y) in zip(rng.choice(_LABELS[:3]), places, strict=False):
        axes.text(
            x,
            y,
            word,
            bbox={"boxstyle": rng.choice(("round", "square", "circle")), "fc": rng.choice(("C0", "C1", "lightblue"))},
        )
    for a, b in pairwise(places):
        axes.annotate("", b, a, arrowprops={"arrowstyle": "->"})
    return sheet.done("flow diagram")


def _photo(sheet: _Sheet) -> Drawn:
    """Draw blurred patches of many colours, like a photograph out of focus, with sharp things in it."""
    rng = sheet.rng
    noise = Image.fromarray(rng.bytes_array(12, 16, 3)).resize((640, 480), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(noise)
    for _ in range(rng.integer(2, 12)):
        x, y, colour = rng.integer(0, 560), rng.integer(0, 400), tuple(rng.integer(0, 255) for _ in range(3))
        (pen.rectangle if rng.chance(50) else pen.ellipse)(
            (x, y, x + rng.integer(20, 160), y + rng.integer(20, 160)), fill=colour
        )
    return Drawn("photo", noise.filter(ImageFilter.GaussianBlur(rng.integer(0, 2))), "", {}, 0)


def _shapes(sheet: _Sheet) -> Drawn:
    """Draw squares, discs and sectors on plain paper."""
    rng = sheet.rng
    picture = Image.new("RGB", (480, 360), "white")
    pen = ImageDraw.Draw(picture)
    for _ in range(rng.integer(2, 9)):
        x, y, side = rng.integer(0, 400), rng.integer(0, 280), rng.integer(20, 110)
        colour = rng.choice(("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"))
        sort = rng.integer(0, 2)
        if sort == 0:
            pen.rectangle((x, y, x + side, y + side), fill=colour)
        elif sort == 1:
            pen.ellipse((x, y, x + side, y + side), fill=colour)
        else:
            pen.polygon([(x, y), (x + side, y), (x, y + side)], fill=colour)
    return Drawn("coloured shapes", picture, "", {}, 0)


KINDS: Final[Mapping[str, Callable[[_Sheet], Drawn]]] = {
    "bars": lambda sheet: _bars(sheet, kind="bars"),
    "grouped bars": lambda sheet: _bars(sheet, kind="grouped bars", most=4),
    "stacked bars": lambda sheet: _bars(sheet, kind="stacked bars", most=4, stacked=True),
    "lying bars": lambda sheet: _bars(sheet, kind="lying bars", lying=True),
    "lying stacked bars": lambda sheet: _bars(sheet, kind="lying stacked bars", most=3, stacked=True, lying=True),
    "bars below zero": lambda sheet: _bars(sheet, kind="bars below zero"),
    "bars on a log axis": lambda sheet: _bars(sheet, kind="bars on a log axis", log=True),
    "line": lambda sheet: _lines(sheet, kind="line"),
    "line with markers": lambda sheet: _lines(sheet, kind="line with markers", marked=True),
    "lines": lambda sheet: _lines(sheet, kind="lines", most=4),
    "lines with markers": lambda sheet: _lines(sheet, kind="lines with markers", most=4, marked=True),
    "lines over numbers": lambda sheet: _lines(sheet, kind="lines over numbers", most=3, numbers=True),
    "lines on a log axis": lambda sheet: _lines(sheet, kind="lines on a log axis", most=3, marked=True, log=True),
    "pie": lambda sheet: _pie(sheet, kind="pie"),
    "donut": lambda sheet: _pie(sheet, kind="donut", hole=True),
    "histogram": _histogram,
    "two value axes": _two_axes,
    "two panels": _panels,
    "scatter": _scatter,
    "stacked area": _area,
    "box plot": _boxes,
    "heatmap": _heatmap,
    "table": _cells,
    "flow diagram": _flow,
    "photo": _photo,
    "coloured shapes": _shapes,
}


def drawn_charts(each: int, seed: int = 0, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Drawn]:
    """Yield `each` pictures of every kind, the same for the same seed and version of Matplotlib."""
    from matplotlib import rc_context, style

    for kind in kinds:
        for number in range(each):
            rng = Rng(1_000_003 * seed + 1009 * list(KINDS).index(kind) + number)
            with rc_context(), style.context(rng.choice(_STYLES)):
                yield KINDS[kind](_Sheet(rng))
