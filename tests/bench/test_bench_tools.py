"""`saccade bench tools` at its smallest: each tool in both ways, the detector with random weights among them."""

from __future__ import annotations

import os

import pytest

from saccade.bench.tool_calls import ToolScale, measure_tools
from saccade.tools.setup import VARIABLE


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_tool_is_measured_in_workers_and_served(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr")
    pytest.importorskip("transformers")
    monkeypatch.delenv(VARIABLE, raising=False)
    figures = measure_tools(ToolScale(episodes=(1,), cheap_calls=4, ocr_calls=2))
    names = [figure.name for figure in figures]
    assert len(names) == 6
    assert "grounding_dino, 1 episodes, worker processes (random weights)" in names
    assert "grounding_dino, 1 episodes, served (random weights)" in names
    assert all(figure.value > 0 and figure.other for figure in figures)
    assert VARIABLE not in os.environ
