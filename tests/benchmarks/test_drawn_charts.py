"""What the tools of charts say of charts in every style of Matplotlib, and of pictures that are none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.plugins.vista.engine import chart_ocr

from benchmarks.drawn_charts import KINDS, Drawn, drawn_charts
from benchmarks.tool_accuracy import MOST_WRONG, diagram_claims, judged
from saccade.plugins.vista.chart.tools import ChartDet
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.base import Tool
from saccade.tools.context import ToolContext

needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")


def said(tool: Tool[Any, Any], drawn: Drawn) -> Counter[str]:
    result = tool.call({"task": "scg"}, ToolContext({"chart": drawn.picture}))
    assert result.ok, result.problem
    assert result.value is not None
    return judged(result.value, drawn)


def total(tool: Tool[Any, Any], each: int, seed: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Counter[str]:
    return sum((said(tool, drawn) for drawn in drawn_charts(each, seed, kinds)), Counter[str]())


def test_charts_are_the_same_for_one_seed_and_others_for_another() -> None:
    one, again, other = (next(drawn_charts(1, seed, ("grouped bars",))) for seed in (3, 3, 4))
    assert one.picture.tobytes() == again.picture.tobytes()
    assert one.values == again.values
    assert one.values != other.values
    assert len(one.values) >= 6


@needs_engine
def test_a_few_charts_are_read_or_unknown() -> None:
    counts = total(chart_ocr(), 1, 5, ("stacked bars", "heatmap"))
    assert counts["kind wrong"] + counts["values wrong"] == 0
    assert counts["kind right"] >= 1
    assert counts["values right"] >= 4


def test_shapes_without_text_are_taken_for_no_chart_that_they_are_not() -> None:
    others = ("scatter", "box plot", "flow diagram", "coloured shapes")
    assert total(ChartDet(), 1, 6, others)["kind wrong"] == 0
    assert total(ChartDet(), 1, 6, ("bars", "grouped bars"))["kind right"] >= 1


@needs_engine
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_at_most_two_in_a_hundred_claims_are_wrong_and_plain_charts_are_read() -> None:
    counts = total(chart_ocr(), 8, 1)
    for what in ("kind", "values"):
        assert 100 * counts[f"{what} wrong"] <= MOST_WRONG * (counts[f"{what} right"] + counts[f"{what} wrong"])
    assert counts["values right"] >= counts["values unknown"] * 0.8
    bare = total(ChartDet(), 8, 1)
    assert 100 * bare["kind wrong"] <= MOST_WRONG * bare["kind right"]


BARS = Drawn("bars", None, "bar", {("Mon", ""): 40.0, ("Sea wall", ""): 80.0}, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chart", "rows", "counts"),
    [
        ("bar", [("Mon", "", 41.9), ("seawall", "", 80)], {"kind right": 1, "values right": 2}),
        ("line", [("Mon", "", 43)], {"kind wrong": 1, "values wrong": 1, "values unknown": 2}),
        ("unknown", [("Mon", "", None), ("", "", 80)], {"kind unknown": 1, "values unknown": 2}),
        ("bar", [("M", "", 40)], {"kind right": 1, "values wrong": 1, "values unknown": 2}),
        ("bar", [("Mon", "only", 40)], {"kind right": 1, "values right": 1, "values unknown": 1}),
    ],
)
def test_claims_are_right_wrong_or_unknown(
    chart: str, rows: list[tuple[str, str, float | None]], counts: dict[str, int]
) -> None:
    table = [{"label": label, "series": series, "value": value} for label, series, value in rows]
    assert +judged({"chart": chart, "rows": table}, BARS) == counts


def test_claims_about_a_diagram_are_held_against_its_annotation() -> None:
    forms = {
        "point_positions": {"P": [0, 0], "Q": [100, 0], "R": [0, 80]}, "line_instances": ["PQ", "PR", "QR"],
        "diagram_logic_form": ["Equals(LengthOf(Line(Q, P)), 5)", "Perpendicular(Line(R,P), Line(P,Q))", ""],
    }  # fmt: skip
    read = {
        "points": {"A": [12, 9], "B": [113, 10], "C": [11, 90]},
        "logic_forms": ["Triangle(A,B,C)", "Perpendicular(Line(B,A),Line(A,C))", "Equals(LengthOf(Line(A,B)),5)"],
    }
    assert +diagram_claims(read, forms, set()) == {"claims right": 3}
    assert diagram_claims(read, forms, {"P"})["claims wrong"] == 1  # named A, though it says P
    read["logic_forms"] = ["Equals(LengthOf(Line(A,C)),5)"]
    assert diagram_claims(read, forms, set())["claims wrong"] == 1
    assert diagram_claims({"logic_forms": (), "points": {}}, forms, set()) == {"claims unknown": 1}
