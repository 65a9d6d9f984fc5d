"""Evaluations from Python: the documented example as it stands, data frames, mistakes, a running event loop."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import saccade
from saccade.errors import SettingsError, UnavailableError
from saccade.evals.api import Evaluation
from saccade.models.scripted import ScriptedModel

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_documented_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python runnable\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "runs/report.html" in printed
    assert (tmp_path / "runs/report.html").stat().st_size > 50_000
    assert "paired permutation test" in printed
    run = names["run"]
    assert isinstance(run, Evaluation)
    assert len(run.rows) == len(run.records()) == 12
    assert run.summary.k == 2
    assert run.records()[0]["id"] == run.rows[0].id


def test_what_was_chosen_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "script.json").write_text('["<answer>\\\\boxed{A}</answer>"]')
    model = f"scripted:{tmp_path / 'script.json'}"
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", n=1, workers=1)
    assert run.settings.dialect == "pyvision"
    assert f"{model} is asked in the dialect pyvision: the default" in caplog.text


async def test_it_works_inside_an_event_loop_and_continues(tmp_path: Path) -> None:
    def evaluate(n: int) -> Evaluation:
        model = ScriptedModel(["<answer>A</answer>"], name="one")
        return saccade.evaluate(["circled-letter"], model=model, out=tmp_path / "run", dialect="direct", n=n, workers=1)

    assert len(evaluate(1).rows) == 1
    assert len(evaluate(2).rows) == 2, "the first is there already"


def test_mistakes_are_named(tmp_path: Path) -> None:
    model = ScriptedModel([])
    with pytest.raises(
        SettingsError, match=r"(?s)2 mistake.*dialekt: no such setting\. Did you mean 'dialect'"
    ) as seen:
        saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialekt="direct", k=0)
    assert "k: " in str(seen.value)
    with pytest.raises(SettingsError, match="no run"):
        saccade.open_evaluation(tmp_path)


def test_a_data_frame_has_the_samples_as_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(lambda messages: "<answer>A</answer>", name="a")
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialect="direct", n=3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="pip install pandas"):
        run.frame()
    # What pandas is called with, where it is not installed; with it the next lines are its own.
    seen = SimpleNamespace(from_records=lambda records, index: (index, [record[index] for record in records]))
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=seen))
    assert run.frame() == ("id", [row.id for row in run.rows])


def test_pandas_is_loaded_for_a_data_frame_alone() -> None:
    code = "import sys; import saccade.evals.api; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pandas" not in run.stdout.split()


def test_a_real_data_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    model = ScriptedModel(lambda messages: "<answer>A</answer>", name="a")
    run = saccade.evaluate("circled-letter", model=model, out=tmp_path / "run", dialect="direct", n=3)
    frame = run.frame()
    assert list(frame.index) == [row.id for row in run.rows]
    assert frame.correct.mean() == run.summary.total.avg
