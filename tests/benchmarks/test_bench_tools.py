"""The benchmarks of tools: what a call takes, served too, and how often it is right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.tool_accuracy import QUICK_ACCURACY, _world_charts, measure_accuracy
from benchmarks.tools import ToolScale, measure_tools
from saccade.errors import DataError
from saccade.plugins.vista.ocr import Ocr
from saccade.tools.setup import VARIABLE


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_tool_is_measured_in_workers_and_served(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr")
    pytest.importorskip("transformers")
    monkeypatch.delenv(VARIABLE, raising=False)
    figures = measure_tools(ToolScale(episodes=(1,), cheap_calls=4, ocr_calls=2))
    names = [figure.name for figure in figures]
    assert len(names) == 9
    assert "ocr alone, CPU time of a call" in names
    assert "grounding_dino, 1 episodes, worker processes (random weights)" in names
    assert "grounding_dino, 1 episodes, served (random weights)" in names
    assert all(figure.value > 0 for figure in figures)
    assert all(figure.other for figure in figures if figure.unit != "ms")
    assert VARIABLE not in os.environ


needs_engine = pytest.mark.skipif(bool(Ocr.needs.missing()), reason="the extra `ocr` is not installed")


def test_charts_are_the_same_each_time_and_have_their_values() -> None:
    one, two = next(_world_charts(1)), next(_world_charts(1))
    assert isinstance(one[0], Image.Image)
    assert one[0].tobytes() == two[0].tobytes()
    assert one[1] == two[1]
    assert len(one[1]) >= 3


@pytest.mark.slow
@needs_engine
def test_figures(tmp_path: Path) -> None:
    problem = tmp_path / "problems" / "1"
    problem.mkdir(parents=True)
    forms = {
        "text_logic_form": ["Find(y)"], "dissolved_text_logic_form": ["Find(y)"], "line_instances": ["AB", "AC", "BC"],
        "diagram_logic_form": ["Perpendicular(Line(A,C),Line(B,C))", "Equals(LengthOf(Line(A,B)),10)",
                               "Equals(MeasureOf(Angle(A,B,C)),60)", "Equals(LengthOf(Line(A,C)),y)"],
        "point_positions": {"A": [0, 0], "B": [-1, -1], "C": [0, 100]},
    }  # fmt: skip
    (problem / "logic_form.json").write_text(json.dumps(forms))
    data = {"compact_text": "Find y.", "precise_value": [5, 8.660254, 10, 12], "answer": "B"}
    (problem / "data.json").write_text(json.dumps(data))
    out = tmp_path / "figures.json"
    run = CliRunner().invoke(
        app, ["tool-accuracy", "--quick", "--problems", str(tmp_path / "problems"), "--out", str(out)]
    )
    assert run.exit_code == 0, run.output
    figures = {figure["name"].partition(",")[0]: figure["value"] for figure in json.loads(out.read_text())["figures"]}
    assert figures["chart-bar: values within 5 %"] >= 80
    assert figures["Geometry3K: solved from annotated forms"] == 100
    assert figures["Geometry3K: texts read as annotated"] == 100


@needs_engine
def test_a_folder_without_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.tool_accuracy._charts", lambda *a, **k: [])
    monkeypatch.setattr("benchmarks.tool_accuracy._styles", lambda *a: [])
    monkeypatch.setattr("benchmarks.tool_accuracy._diagrams", lambda *a: [])
    with pytest.raises(DataError, match=r"holds no folder"):
        measure_accuracy(QUICK_ACCURACY, tmp_path, lambda what: None)
