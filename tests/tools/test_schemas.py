"""The bounds and defaults of every tool's arguments and results, as a model is told them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from saccade.tools.registry import TOOLS, make_tool

GOLDEN = Path(__file__).parent / "golden" / "schemas.txt"


def numbers(at: str, schema: Any) -> Iterator[str]:
    """A line for each number, with the way to it."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield from numbers(f"{at} {key}", value)
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from numbers(f"{at} {index}", value)
    elif isinstance(schema, int | float) and not isinstance(schema, bool):
        yield f"{at} {schema}"


def test_bounds_and_defaults() -> None:
    told = {name: make_tool(name).definition for name in TOOLS.ids()}
    lines = [line for name, one in told.items() for line in numbers(name, {"in": one.parameters, "out": one.returns})]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
