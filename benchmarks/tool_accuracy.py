"""`python -m benchmarks tool-accuracy`: how often the rule tools of charts and geometry are right, with gold.

Charts are drawn by the world `chart-bar` and by Matplotlib, whose style no rule was made for; diagrams by the world
`geometry`, of the kinds that `image_cdl` knows. Problems in the form of Geometry3K are solved from their annotated
logic forms, if a folder of them is given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image

from benchmarks.drawn_charts import Drawn, Values
from benchmarks.figures import Figure
from saccade.errors import DataError, UnavailableError
from saccade.plugins.vista.chart.tools import ChartOcr
from saccade.plugins.vista.geometry.image_cdl import ImageCdl
from saccade.plugins.vista.geometry.inter_gps import InterGps
from saccade.plugins.vista.geometry.text_cdl import TextCdl
from saccade.plugins.worlds.charts.bars_lines import WORLD as BARS
from saccade.plugins.worlds.charts.bars_lines import ChartBarKnobs, bar_chart
from saccade.plugins.worlds.geometry import WORLD as GEOMETRY
from saccade.plugins.worlds.geometry import GeometryKind, GeometryKnobs
from saccade.tasks.worlds.base import draw_sample, seed_of
from saccade.tasks.worlds.rng import Rng
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext

Progress = Callable[[str], None]
KINDS: Final[tuple[GeometryKind, ...]] = (
    "triangle-angle", "isosceles", "right-triangle", "triangle-area", "rectangle",
)  # fmt: skip
"""Kinds of the world `geometry` that `image_cdl` reads: one polygon with its labels."""
_NEAR: Final = 0.05
_SOLVED: Final = 0.01
PAPER_RATE: Final = 78.3
"""Percent of the 601 test problems that Inter-GPS answers from annotated logic forms, choosing among four (Lu et al.,
ACL 2021, table of results)."""


@dataclass(frozen=True, slots=True)
class AccuracyScale:
    """How many pictures of each sort."""

    charts: int = 60
    plots: int = 40
    diagrams: int = 50


FULL_ACCURACY: Final = AccuracyScale()
QUICK_ACCURACY: Final = AccuracyScale(charts=6, plots=4, diagrams=5)


def measure_accuracy(scale: AccuracyScale, problems: Path | None, on_progress: Progress) -> Sequence[Figure]:
    """Every figure, in percent.

    Raises:
        DataError: the folder of problems holds none.
        UnavailableError: OCR is not installed.
    """
    tool = ChartOcr()
    if missing := tool.needs.missing():
        raise UnavailableError(f"not installed: {', '.join(missing)}. Run: {tool.needs.install}")
    judge = scale.charts >= FULL_ACCURACY.charts
    figures = [
        *_charts("chart-bar", _world_charts(scale.charts), tool, on_progress, target=judge),
        *_charts("Matplotlib bars", _plots(scale.plots), tool, on_progress, target=False),
        _diagrams(scale.diagrams, on_progress),
    ]
    return [*figures, *(_problems(problems, on_progress) if problems is not None else ())]


def _charts(
    name: str, charts: Iterator[tuple[Image.Image, Values]], tool: ChartOcr, on_progress: Progress, *, target: bool
) -> list[Figure]:
    right = asked = complete = count = 0
    for picture, gold in charts:
        count += 1
        on_progress(f"{name} {count}")
        read = _read(tool, picture)
        hits = sum(_is_near(read, key, value) for key, value in gold.items())
        right, asked, complete = right + hits, asked + len(gold), complete + (hits == len(gold))
    met = 100 * right >= 80 * asked if target else None
    return [
        Figure(f"{name}: values within 5 %, of {asked}", percent(right, asked), "%", target="80 %", met=met),
        Figure(f"{name}: charts with all values, of {count}", percent(complete, count), "%"),
    ]


def _read(tool: ChartOcr, picture: Image.Image) -> Values:
    result = _value(tool, {"task": "scg"}, ToolContext({"chart": picture}))
    rows: Any = result.get("rows", ())
    return {(row["label"], row["series"]): row["value"] for row in rows if row["value"] is not None}


def _value(tool: Tool[Any, Any], arguments: object, context: ToolContext) -> Mapping[str, Any]:
    result = tool.call(arguments, context)
    return {} if result.value is None else result.value


def _is_near(read: Values, key: tuple[str, str], gold: float) -> bool:
    value = read.get(key)
    return value is not None and abs(value - gold) <= _NEAR * abs(gold)


def percent(part: int, total: int) -> float:
    """To a tenth; 0 of nothing."""
    return round(100 * part / total, 1) if total else 0.0


def judged(value: Mapping[str, Any], drawn: Drawn) -> Counter[str]:
    """Count the claims of a reading of a chart: its kind, its values and its bars, each right, wrong or unknown.

    A value counts with its label and its series, spaces apart; one that lacks either claims nothing. A bar is right
    where four fifths of it and of one that was drawn are the same pixels.
    """
    counts: Counter[str] = Counter()
    said = value["chart"]
    counts["kind unknown" if said == "unknown" else f"kind {'right' if said == drawn.reads else 'wrong'}"] += 1
    gold = {(_folded(label), _folded(series)): number for (label, series), number in drawn.values.items()}
    named = {series for _, series in gold} - {""}
    claims = {
        (_folded(row["label"]), _folded(row["series"])): row["value"]
        for row in value["rows"]
        if row["value"] is not None and row["label"] and (row["series"] or not named or ("", "") in gold)
    }
    for key, number in claims.items():
        true = gold.get(key)
        if true is None and len(named) == 0:  # the legend of one series names it
            true = gold.get((key[0], ""))
        right = true is not None and abs(number - true) <= max(_NEAR * abs(true), drawn.slack)
        counts[f"values {'right' if right else 'wrong'}"] += 1
    counts["values unknown"] += max(0, len(gold) - counts["values right"])
    return counts


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()


def _world_charts(count: int) -> Iterator[tuple[Image.Image, Values]]:
    knobs = ChartBarKnobs()
    for index in range(count):
        chart = bar_chart(Rng(seed_of(BARS.id, "test", index, knobs)), knobs)
        scale = chart.drawn.scale
        yield chart.picture, {key: float(scale.text(n)) for key, n in chart.drawn.values.items()}


def _plots(count: int) -> Iterator[tuple[Image.Image, Values]]:
    from matplotlib.figure import Figure

    words = ("Alpha", "Berlin", "Cedar", "Delta", "Egypt", "Forest")
    for index in range(count):
        rng = Rng(1000 + index)
        labels = list(words[: rng.integer(3, 6)])
        series = ["North", "South"][: rng.integer(1, 2)]
        values = {(label, name): rng.integer(8, 95) * 10 ** rng.integer(0, 1) for name in series for label in labels}
        figure = Figure(figsize=(rng.integer(5, 8), 4), dpi=rng.choice((80, 100, 120)))
        axes = figure.add_subplot()
        width = 0.7 / len(series)
        for order, name in enumerate(series):
            places = [place + width * (order - (len(series) - 1) / 2) for place in range(len(labels))]
            axes.bar(places, [values[label, name] for label in labels], width, label=name)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_title("Harvest by place")
        if rng.chance(50):
            axes.grid(axis="y")
        if len(series) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.tight_layout()
        data = BytesIO()
        figure.savefig(data, format="png")
        gold = {(label, name if len(series) > 1 else ""): float(value) for (label, name), value in values.items()}
        yield Image.open(data).convert("RGB"), gold


def _diagrams(count: int, on_progress: Progress) -> Figure:
    """Picture and question to the answer, through `image_cdl`, `text_cdl` and `inter_gps`."""
    image_cdl, text_cdl, solver = ImageCdl(), TextCdl(), InterGps()
    knobs = GeometryKnobs(kinds=KINDS)
    right = 0
    for index in range(count):
        on_progress(f"geometry {index + 1}")
        sample = draw_sample(GEOMETRY, "test", index, knobs)
        picture = sample.media["image_0"]
        assert isinstance(picture, Image.Image), "this world draws pictures"
        context = ToolContext({"diagram": picture})
        read, said = _value(image_cdl, {}, context), _value(text_cdl, {"text": sample.question}, context)
        arguments = {
            "text_logic": said.get("logic_forms", ()),
            "diagram_logic": read.get("logic_forms", ()),
            "points": read.get("points"),
        }
        value = _value(solver, arguments, context).get("value")
        right += value is not None and abs(value - float(sample.answer)) <= _SOLVED * abs(float(sample.answer))
    return Figure(f"geometry: answers from picture and question, of {count}", percent(right, count), "%")


def _problems(folder: Path, on_progress: Progress) -> Iterator[Figure]:
    files = sorted(folder.glob("*/logic_form.json"))
    if not files:
        raise DataError(f"{folder} holds no folder with logic_form.json and data.json, as Geometry3K has them.")
    solver, reader = InterGps(), TextCdl()
    solved = worded = 0
    for file in files:
        on_progress(f"problem {file.parent.name}")
        forms, data = (json.loads(path.read_text("utf-8")) for path in (file, file.parent / "data.json"))
        lines = [f"Line({name[0]},{name[1]})" for name in forms["line_instances"] if len(name) == 2]
        arguments = {
            "text_logic": forms["dissolved_text_logic_form"],
            "diagram_logic": [form for form in (*lines, *forms["diagram_logic_form"]) if form],
            # Points whose place is unknown stand at (-1, -1) in these files.
            "points": {name: at for name, at in forms["point_positions"].items() if tuple(at) != (-1, -1)},
        }
        value = _value(solver, arguments, ToolContext({})).get("value")
        gold = data["precise_value"]["ABCD".index(data["answer"])]
        solved += value is not None and abs(value - gold) <= _SOLVED * abs(gold)
        said = _value(reader, {"text": data["compact_text"]}, ToolContext({})).get("logic_forms", ())
        worded += {form.replace(" ", "") for form in said} == {
            form.replace(" ", "") for form in forms["text_logic_form"]
        }
    yield Figure(
        f"Geometry3K: solved from annotated forms, of {len(files)}",
        percent(solved, len(files)),
        "%",
        "Inter-GPS on all 601, a choice of four",
        PAPER_RATE,
        "60 %",
        100 * solved >= 60 * len(files),
    )
    yield Figure(f"Geometry3K: texts read as annotated, of {len(files)}", percent(worded, len(files)), "%")
