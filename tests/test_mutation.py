"""The tool that draws faults: what it draws compiles, differs, and is the same for the same seed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = b'''def middle(values, low=2):
    """\xc3\xa9: a letter of two bytes before what is cut."""
    if not values and low < 3:
        raise ValueError("none")
    try:
        values.sort()
    except AttributeError:
        values = sorted(values)
    return max(values[1:-1])
'''


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutation", ROOT / "tools" / "mutation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation"] = module
    spec.loader.exec_module(module)
    return module


def test_every_kind_of_fault_is_found_at_its_place(tool: ModuleType) -> None:
    found = {
        (item.line, item.kind, SOURCE[item.start : item.end].decode(), item.text)
        for item in tool.mutations("a.py", SOURCE)
    }
    assert found == {
        (1, "constant", "2", "(2 + 1)"),
        (3, "condition", "not values and low < 3", "(not (not values and low < 3))"),
        (3, "and/or", "not values and low < 3", "((not values) or (low < 3))"),
        (3, "comparison", "low < 3", "(low) <= (3)"),
        (3, "constant", "3", "(3 + 1)"),
        (4, "statement", 'raise ValueError("none")', "pass"),
        (6, "statement", "values.sort()", "pass"),
        (8, "handler", "values = sorted(values)", "raise"),
        (9, "return", "return max(values[1:-1])", "return None"),
        (9, "min/max", "max", "min"),
        (9, "slice", "1", "(1) + 1"),
        (9, "constant", "1", "(1 + 1)"),
        (9, "slice", "-1", "(-1) + 1"),
    }


def test_a_fault_changes_the_text_and_leaves_a_program(tool: ModuleType) -> None:
    for fault in tool.mutations("a.py", SOURCE):
        assert fault.apply(SOURCE) != SOURCE
        compile(fault.apply(SOURCE), "a.py", "exec")


def test_a_seed_draws_the_same_faults(tool: ModuleType) -> None:
    sources = {"b.py": SOURCE, "a.py": SOURCE}
    assert tool.drawing(sources, 5, seed=1) == tool.drawing(dict(reversed(sources.items())), 5, seed=1)
    assert tool.drawing(sources, 5, seed=1) != tool.drawing(sources, 5, seed=2)
    assert len(tool.drawing(sources, 1000, seed=0)) == 2 * len(tool.mutations("a.py", SOURCE))


def test_tests_of_a_module_are_found_where_they_mirror_it(tool: ModuleType) -> None:
    assert tool.mirrored("src/saccade/episode/flow.py") == ["tests/episode/test_flow.py", "tests/episode"]
    assert tool.mirrored("src/saccade/errors.py") == ["tests"]
