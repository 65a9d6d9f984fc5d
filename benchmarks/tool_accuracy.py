"""`python -m benchmarks tool-accuracy`: how often the rule tools of charts and geometry are right, with gold.

Charts are drawn by the world `chart-bar` and by Matplotlib in its own styles, diagrams by the world `geometry`, and
pictures that are no charts with them. What a tool says is right, wrong or unknown; of what it says at most 2 % may be
wrong. Problems in the form of Geometry3K, if a folder of them is given, are solved from their annotated logic forms,
and their diagrams are read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import dist
from pathlib import Path
from typing import Any, Final

from PIL import Image

from benchmarks.drawn_charts import Drawn, Values, drawn_charts
from benchmarks.figures import Figure
from saccade.errors import DataError, UnavailableError
from saccade.plugins.vista.chart.tools import ChartDet, ChartOcr
from saccade.plugins.vista.geometry.figure import read_term
from saccade.plugins.vista.geometry.image_cdl import ImageCdl
from saccade.plugins.vista.geometry.inter_gps import InterGps
from saccade.plugins.vista.geometry.measures import POLYGONS
from saccade.plugins.vista.geometry.text_cdl import TextCdl
from saccade.plugins.vista.ocr import Ocr
from saccade.plugins.worlds.charts.bars_lines import WORLD as BARS
from saccade.plugins.worlds.charts.bars_lines import ChartBarKnobs, bar_chart
from saccade.plugins.worlds.geometry import KINDS as ALL_KINDS
from saccade.plugins.worlds.geometry import WORLD as GEOMETRY
from saccade.plugins.worlds.geometry import GeometryKind, GeometryKnobs
from saccade.tasks.worlds import Rng, draw_sample, seed_of
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext

Progress = Callable[[str], None]
KINDS: Final[tuple[GeometryKind, ...]] = (
    "triangle-angle", "isosceles", "right-triangle", "triangle-area", "rectangle",
)  # fmt: skip
"""Kinds of the world `geometry` that `image_cdl` reads: one polygon with its labels."""
_NEAR: Final = 0.05
_SOLVED: Final = 0.01
_SAME_POINT: Final = 12.0
"""Pixels."""
PAPER_RATE: Final = 78.3
"""Percent of the 601 test problems that Inter-GPS answers from annotated logic forms, choosing among four (Lu et al.,
ACL 2021, table of results)."""


@dataclass(frozen=True, slots=True)
class AccuracyScale:
    """How many pictures of each sort."""

    charts: int = 60
    drawn: int = 4
    """Of every kind of `drawn_charts`."""
    diagrams: int = 50
    seed: int = 0
    """Of `drawn_charts`: the rules have seen the charts of few seeds."""


FULL_ACCURACY: Final = AccuracyScale()
QUICK_ACCURACY: Final = AccuracyScale(charts=6, drawn=1, diagrams=5)
MOST_WRONG: Final = 2
"""Percent of the claims of a tool."""


def measure_accuracy(scale: AccuracyScale, problems: Path | None, on_progress: Progress) -> Sequence[Figure]:
    """Measure every figure, in percent.

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
        *_styles(scale.drawn, (tool, ChartDet()), on_progress, scale.seed),
        *_diagrams(scale.diagrams, on_progress),
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
    """Return the percentage, to a tenth; 0 of nothing."""
    return round(100 * part / total, 1) if total else 0.0


def judged(value: Mapping[str, Any], drawn: Drawn) -> Counter[str]:
    """Count the claims of a reading of a chart: its kind and its values, each right, wrong or unknown.

    A value counts with its label and its series, spaces and case apart; one that lacks either claims nothing. It is
    right within 5 %, or within a hundredth of what the axis shows.
    """
    counts: Counter[str] = Counter()
    said = value["chart"]
    if said != "unknown" or drawn.reads:
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


def _styles(each: int, tools: Sequence[Tool[Any, Any]], on_progress: Progress, seed: int) -> Iterator[Figure]:
    """Yield claims about kinds, values and bars of charts in every style, of each kind of chart and of all."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for number, drawn in enumerate(drawn_charts(each, seed)):
        on_progress(f"{drawn.kind} {number + 1}")
        for tool in tools:
            read = judged(_value(tool, {"task": "scg"}, ToolContext({"chart": drawn.picture})), drawn)
            for kind in (drawn.kind, "all"):
                counts.setdefault((tool.name, kind), Counter()).update(read)
    for (name, kind), count in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] == "all")):
        for what in ("kind", "values") if name == ChartOcr.name else ("kind",):
            yield from _shares(f"{name}, {kind}: {what}", count, what, judge=kind == "all")


def _shares(name: str, count: Counter[str], what: str, *, judge: bool) -> Iterator[Figure]:
    """Yield how much of what could be said was said rightly and not at all, and how much of what was said is wrong."""
    right, wrong, unknown = (count[f"{what} {end}"] for end in ("right", "wrong", "unknown"))
    yield Figure(
        f"{name}, right of {right + unknown}; {wrong} wrong of {right + wrong} claims",
        percent(right, right + unknown),
        "%",
        "wrong claims",
        percent(wrong, right + wrong),
        f"at most {MOST_WRONG} % wrong" if judge else "",
        100 * wrong <= MOST_WRONG * (right + wrong) if judge else None,
    )


def _diagrams(count: int, on_progress: Progress) -> Iterator[Figure]:
    """Go from picture and question to the answer, through `image_cdl`, `text_cdl` and `inter_gps`."""
    image_cdl, text_cdl, solver = ImageCdl(), TextCdl(), InterGps()
    for name, kinds in (("one polygon", KINDS), ("every kind", ALL_KINDS)):
        knobs, counts = GeometryKnobs(kinds=kinds), Counter[str]()
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
            value, answer = _value(solver, arguments, context).get("value"), float(sample.answer)
            near = value is not None and abs(value - answer) <= _SOLVED * abs(answer)
            counts["answers unknown" if value is None else f"answers {'right' if near else 'wrong'}"] += 1
        yield from _shares(f"geometry, {name}: answers from picture and question", counts, "answers", judge=False)


def diagram_claims(read: Mapping[str, Any], forms: Mapping[str, Any], printed: Set[str]) -> Counter[str]:
    """Count what `image_cdl` says of a diagram of Geometry3K that its annotation has, and what it has not.

    Points are the annotated ones where one shift brings all of them together; names count where they are printed.
    """
    counts: Counter[str] = Counter()
    if not read["logic_forms"]:
        return Counter({"claims unknown": 1})
    gold = {name: at for name, at in forms["point_positions"].items() if tuple(at) != (-1, -1)}
    names = max((_matched(read["points"], gold, shift) for shift in _shifts(read["points"], gold)), key=len)
    counts["claims wrong"] += sum(name not in names for name in read["points"])
    counts["claims wrong"] += sum(names[name] != name for name in names if {name, names[name]} & printed)
    lines = {frozenset(line) for line in forms["line_instances"]}
    annotated = {_canonical(form, {}) for form in forms["diagram_logic_form"] if form}
    for form in read["logic_forms"]:
        term = read_term(form)
        if term.head in POLYGONS:
            corners = [names.get(name, "") for name in term.names]
            right = all({frozenset(pair)} <= lines for pair in zip(corners, [*corners[1:], corners[0]], strict=True))
        else:
            right = _canonical(form, names) in annotated
        counts[f"claims {'right' if right else 'wrong'}"] += 1
    return counts


def _shifts(
    points: Mapping[str, Sequence[float]], gold: Mapping[str, Sequence[float]]
) -> Iterator[tuple[float, float]]:
    return ((a[0] - b[0], a[1] - b[1]) for a in points.values() for b in gold.values())


def _matched(
    points: Mapping[str, Sequence[float]], gold: Mapping[str, Sequence[float]], shift: tuple[float, float]
) -> dict[str, str]:
    """Return the annotated point within a few pixels of each, moved."""
    found = {}
    for name, at in points.items():
        moved = (at[0] - shift[0], at[1] - shift[1])
        nearest = min(gold, key=lambda other: dist(gold[other], moved))
        if dist(gold[nearest], moved) <= _SAME_POINT:
            found[name] = nearest
    return found


def _canonical(form: str, names: Mapping[str, str]) -> str:
    """Return a form with annotated names, lines by the alphabet and angles from their earlier end."""

    def ordered(match: re.Match[str]) -> str:
        points = [names.get(name.strip(), name.strip()) for name in match[2].split(",")]
        return f"{match[1]}({','.join(min(points, points[::-1]))})"

    text = re.sub(r"(Line|Angle)\(([^()]*)\)", ordered, form.replace(" ", ""))
    pair = re.fullmatch(r"Perpendicular\((Line\(.*?\)),(Line\(.*?\))\)", text)
    return f"Perpendicular({','.join(sorted(pair.groups()))})" if pair else text


def _problems(folder: Path, on_progress: Progress) -> Iterator[Figure]:
    files = sorted(folder.glob("*/logic_form.json"))
    if not files:
        raise DataError(f"{folder} holds no folder with logic_form.json and data.json, as Geometry3K has them.")
    solver, reader, image_cdl, ocr = InterGps(), TextCdl(), ImageCdl(), Ocr()
    solved = worded = 0
    claims: Counter[str] = Counter()
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
        if (picture := file.parent / "img_diagram.png").is_file():
            context = ToolContext({"diagram": Image.open(picture).convert("RGB")})
            letters = {line["text"] for line in _value(ocr, {}, context)["lines"] if len(line["text"]) == 1}
            claims += diagram_claims(_value(image_cdl, {}, context), forms, letters)
    yield from _shares("Geometry3K: what image_cdl says of a diagram", claims, "claims", judge=True)
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
