"""The benchmark of an evaluation does its work and says so; no figure is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from benchmarks import evaluation
from benchmarks.__main__ import app
from benchmarks.evaluation import EvalScale
from saccade.cli.main import run
from saccade.errors import SandboxError
from saccade.record.content import Answer


@linux_only
@pytest.mark.slow
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "QUICK_EVAL", EvalScale(at_once=4, samples=4, rounds=2, bare_samples=16, stored=50))
    file = tmp_path / "eval.json"
    assert run(app, ["eval", "--quick", "--out", str(file)], "benchmarks") == 0
    code, straight, served, bare, growth, again = json.loads(file.read_text())["figures"]
    assert code["value"] > 0
    assert code["other"] == straight["value"]
    assert 0 < bare["value"] <= bare["other"] == 80
    assert served["value"] > 0
    assert growth["other"] > 0
    assert 0 < again["value"] < 60


def test_samples_that_do_not_do_their_work_are_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "Answer", lambda text: Answer(text="3"))
    with pytest.raises(SandboxError, match="did not do their work"):
        evaluation._play(tmp_path / "a", evaluation.WITHOUT, 2, 2)
