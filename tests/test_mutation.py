"""The tool that draws faults: what it draws compiles, differs, and is the same for the same seed."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

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


def test_tests_of_a_module_are_found_where_they_mirror_it(tool: ModuleType, tmp_path: Path) -> None:
    for name, text in {
        "tests/a/test_far.py": "",
        "tests/a/test_near.py": "from saccade.a.flow import run",
        "tests/a/test_nearly.py": "from saccade.a.flower import rose",
        "tests/a/test_flow.py": "",
        "tests/b/test_flow.py": "from saccade.a.flow import run",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    far, near, nearly, flow = (f"tests/a/test_{name}.py" for name in ("far", "near", "nearly", "flow"))
    assert tool.mirrored("src/saccade/a/flow.py", tmp_path) == [flow, near, far, nearly]
    assert tool.mirrored("src/saccade/a/flower.py", tmp_path) == [nearly, far, flow, near]
    assert tool.mirrored("src/saccade/a/inner/rose.py", tmp_path) == [far, flow, near, nearly]
    assert set(tool.mirrored("src/saccade/c.py", tmp_path)) == {flow, near, far, nearly, "tests/b/test_flow.py"}


HANGS = """
import subprocess, sys, time
from pathlib import Path

def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("pids").write_text(str(child.pid))
    time.sleep(600)
"""


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def a_copy(tool: ModuleType, folder: Path, test: str) -> Any:
    """A copy of a repository that is no more than one test."""
    copy = object.__new__(tool.Copy)
    copy.root, copy.python = folder / "saccade", Path(sys.executable)
    copy.root.mkdir()
    (copy.root / "test_it.py").write_text(test)
    return copy


@pytest.mark.slow
def test_a_run_that_hangs_is_a_fault_that_was_found_and_leaves_no_process(tool: ModuleType, tmp_path: Path) -> None:
    copy = a_copy(tool, tmp_path, HANGS)
    assert copy.passes(["test_it.py"], 15.0) is False
    assert not running(int((copy.root / "pids").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["bytearray(tool_memory)", "os.kill(os.getpid(), 9)"])
def test_a_run_that_takes_all_memory_or_dies_is_a_fault_that_was_found(
    tool: ModuleType, tmp_path: Path, fault: str
) -> None:
    test = f"import os\n\n\ntool_memory = {tool.MEMORY}\n\n\ndef test_it():\n    assert {fault} is not None\n"
    assert a_copy(tool, tmp_path, test).passes(["test_it.py"], 60.0) is False


@pytest.mark.slow
def test_a_fault_stays_in_the_copy_and_not_for_long(tool: ModuleType, tmp_path: Path) -> None:
    copy = a_copy(tool, tmp_path, "import part\n\n\ndef test_it():\n    assert part.low < 3\n")
    part = copy.root / "part.py"
    part.write_bytes(b"low = 2\n")
    (noticed,) = tool.mutations("part.py", part.read_bytes())
    unnoticed = replace(noticed, text="1")
    assert not tool.survives(copy, noticed, ["test_it.py"], 60.0)
    assert tool.survives(copy, unnoticed, ["test_it.py"], 60.0)
    assert part.read_bytes() == b"low = 2\n"
    with pytest.raises(SystemExit, match="pytest itself failed"):
        copy.passes(["no_such_test.py"], 60.0)
