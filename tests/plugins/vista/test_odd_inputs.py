"""Odd pictures and arguments of every tool: an error that says what is wrong, or a result that claims nothing false."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.errors import UnavailableError
from saccade.plugins.vista import ocr
from saccade.plugins.vista.names import VISTA_TOOLS
from saccade.plugins.vista.weights import CheckpointSlot
from saccade.tools.base import Tool
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.definition import Needs
from saccade.tools.registry import make_tool

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3)).astype(np.uint8))
PICTURES: dict[str, Image.Image] = {
    "one pixel": NOISE.crop((0, 0, 1, 1)),
    "a column": NOISE.resize((1, 20_000)),
    "a row": NOISE.resize((20_000, 1)),
    "transparent": Image.new("RGBA", (80, 60)),
    "16 bits": Image.fromarray(np.asarray(NOISE.convert("L")).astype(np.uint16) * 257),
    "floats": Image.fromarray(np.asarray(NOISE.convert("L")).astype(np.float32) * 1e9),
    "noise": NOISE,
    **{mode: NOISE.convert(mode) for mode in ("1", "L", "LA", "P", "CMYK", "YCbCr")},
}
USUAL: dict[str, dict[str, Any]] = {
    "chartmoe": {"task": "describe"},
    "text_cdl": {"text": "In triangle ABC, AB = 5."},
    "goal_cdl": {"text": "Find x."},
    "grounding_dino": {"caption": "a cup"},
    "sam": {"points": [[0, 0]]},
    "inter_gps": {"text_logic": ["Find(x)"]},
    "gllava": {"question": "x?"},
    "multimath": {"question": "x?"},
}
deep: list[Any] = []
for _ in range(3000):
    deep = [deep]
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, math.nan, math.inf, 1e308, 10**400, 10**5000, "", " ", "x", "12", "\ud800", "\0",
    "a" * 10_000, b"x", object(), deep, [], [[]], {}, {"a": 1}, [1, 2, 3], [0] * 4, [5, 5, 1, 1], [-9e9, -9e9, -5, -5],
    [1e9, 1e9, 2e9, 2e9], ["1", "2", "3", "4"], [math.nan] * 4, [None] * 4, [1] * 1000, ["x"] * 1000, [[1, 2]] * 1000,
    {"A": [0, 0], "B": [0, 0]}, {"A": [math.nan, 1]}, {"A": [1e308, -1e308], "B": [1, 1]},
]  # fmt: skip
MISTAKES = {ProblemKind.SCHEMA, ProblemKind.ARGUMENT_NAME, ProblemKind.ARGUMENT_FORMAT, ProblemKind.UNKNOWN_IMAGE}
CLAIMS = ("cdl", "logic_forms", "lines", "rows", "primitives")
"""Fields that stay empty where a picture shows nothing that the tools know."""


@pytest.fixture(params=dict.fromkeys(item.tool for item in VISTA_TOOLS))
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tool[Any, Any]:
    """A tool with all it needs, but for weights and servers: what would ask them is unavailable."""

    def lacking(_: object) -> None:
        raise UnavailableError("no weights here")

    nothing = SimpleNamespace(boxes=None, txts=None, scores=None)
    monkeypatch.setattr(ocr, "_load", lambda: lambda *_, **__: nothing)
    monkeypatch.setattr(CheckpointSlot, "get", lacking)
    made = make_tool(request.param)
    made.needs = Needs()
    return made


def check(tool: Tool[Any, Any], arguments: object, context: ToolContext) -> Any:
    result = tool.call(arguments, context)
    if result.ok:
        json.dumps(result.value, allow_nan=False)
        return result.value
    assert result.problem.kind in MISTAKES | {ProblemKind.UNAVAILABLE}, (arguments, result.problem)
    assert 10 < len(result.text) < 1500
    return {}


def test_odd_pictures(tool: Tool[Any, Any]) -> None:
    usual = USUAL.get(tool.name, {})
    for name, picture in PICTURES.items():
        value = check(tool, usual, ToolContext({"image_0": picture}))
        if "image" in tool.arguments.model_fields:
            assert not any(value.get(field) for field in CLAIMS), name
            assert value.get("chart", "unknown") == "unknown", name
    if "image" in tool.arguments.model_fields:
        assert check(tool, usual, ToolContext({})) == {}


def test_odd_arguments(tool: Tool[Any, Any]) -> None:
    usual, context = USUAL.get(tool.name, {}), ToolContext({"image_0": NOISE}, question="Find x.")
    for field in tool.arguments.model_fields:
        for value in VALUES:
            check(tool, {**usual, field: value}, context)
    for whole in VALUES:
        check(tool, whole, context)
    assert check(tool, {**usual, "zzz": 1}, context) == {}


@pytest.mark.parametrize("size", [(5, 2000), (2000, 5)])
def test_a_strip_is_refused_before_a_model_sees_it(size: tuple[int, int]) -> None:
    """DePlot's own header would make it as wide as the question, and gigabytes high."""
    strip = ToolContext({"image_0": Image.new("RGB", size)})
    for name in ("deplot", "unichart", "grounding_dino", "chartmoe", "ocr", "chartocr", "image_cdl"):
        made = make_tool(name)
        made.needs = Needs()
        assert "over 200 times the other" in made.call(USUAL.get(name, {}), strip).text, name
