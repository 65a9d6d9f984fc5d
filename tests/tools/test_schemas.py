"""The bounds and defaults of every tool's arguments and results, as a model is told them."""

from pathlib import Path

from tests.schema_numbers import numbers

from saccade.tools.registry import TOOLS, make_tool

GOLDEN = Path(__file__).parent / "golden" / "schemas.txt"


def test_bounds_and_defaults() -> None:
    tools = {name: make_tool(name).definition for name in TOOLS.ids()}
    lines = [line for name, one in tools.items() for line in numbers(name, {"in": one.parameters, "out": one.returns})]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_how_many_calls_one_pass_of_a_model_takes() -> None:
    batches = {name: make_tool(name).batch for name in TOOLS.names()}
    assert {name: batch for name, batch in batches.items() if batch != 1} == {
        "deplot": 4, "grounding_dino": 8, "unichart": 4,
    }  # fmt: skip
