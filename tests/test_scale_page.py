"""docs/scale.md is what its tool makes of the stored figures, and the tool's arithmetic is right."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scale_page", ROOT / "tools" / "scale_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale_page"] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_figures(tool: ModuleType) -> None:
    text = tool.PAGE.read_text(encoding="utf-8")
    assert tool.page(text, tool.stored()) == text, "run tools/scale_page.py"
    with pytest.raises(SystemExit, match="no place for hosts"):
        tool.page(text.replace("<!-- end of hosts -->", ""), tool.stored())


def test_the_rate_of_a_gpu_is_that_of_its_memory(tool: ModuleType) -> None:
    """By hand: 7B has 72 GB less 16.58 GB of weights for keys and values, 57,344 bytes a token."""
    rate = tool.Rate(tool.POLICIES[0])
    assert rate.context == 700 + 999 + 4.5 * 1299 + 150
    assert rate.policy.cache == 57_344
    assert rate.episodes == pytest.approx(55.42e9 / (7694.5 * 57_344))
    assert rate.step == pytest.approx(72e9 / 3.35e12 / 0.5)  # all memory in use is read for a token
    assert rate.turns == pytest.approx(rate.episodes / rate.step / 300)
    two = tool.Rate(tool.POLICIES[1])
    assert two.episodes == pytest.approx((144e9 - 67e9) / (7694.5 * 262_144))


def full(report: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """With all that the command writes."""
    empty = {"value": 0.0, "unit": "", "beside": "its sandboxes", "other": None, "target": "", "met": None}
    machine = {"processor": "EPYC", "cores": 2, "memory_gib": 8.0, "python": "3.11", "load": 0.1, "busy": False}
    return {"machine": machine, "figures": [empty | row for row in report["figures"]]}


def test_the_largest_of_each_figure_counts(tool: ModuleType) -> None:
    def rows(name: str, host: float, sent: float) -> list[dict[str, object]]:
        return [
            {"name": f"{name}: CPU of the host", "value": host, "other": 2 * host, "unit": "ms a turn"},
            {"name": f"{name}: memory of the host, peak", "value": 1.0, "other": 5.0},
            {"name": f"{name}: sent to the engine, 6 turns", "value": sent, "other": 0.5},
        ]

    report = {"figures": [*rows("64 local", 30.0, 7.0), *rows("64 remote", 50.0, 3.5), {"name": "peak of the host"}]}
    made = tool.page(tool.PAGE.read_text(encoding="utf-8"), full(report))
    assert "| 64 local: CPU of the host | 30 ms a turn | its sandboxes | 60 | 0.50 |  |  |" in made
    assert "Printed by `python -m benchmarks scale --quick` on EPYC, 2 cores" in made
    assert tool.MISSING not in made
    judged = {"figures": [row | {"met": True} for row in report["figures"]]}
    made_of = tool.page(tool.PAGE.read_text(encoding="utf-8"), full(judged))
    assert "Printed by `python -m benchmarks scale --episodes 64 --many 0` on EPYC" in made_of
    turns = 8 * tool.Rate(tool.POLICIES[0]).turns
    assert f"| **node:** cores for sandboxes | turns × 100 ms ÷ 0.7 | {turns * 0.1 / 0.7:.3g} |" in made
    measured = tool.Measured.of(report)
    assert (measured.host_ms, measured.box_ms, measured.box_mib) == (50.0, 100.0, 5.0)
    assert measured.sent == 7.0 / 3.5  # six turns send one to six pictures
    assert measured.kept == 0.6  # five of six turns bring one
