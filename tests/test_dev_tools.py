"""The tools of development: faults that are drawn, the page of figures, sizes of the package, the check of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tools import mutation, scale_page
from tools.house import parsed, shape, sizes

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


def test_every_kind_of_fault_is_found_at_its_place() -> None:
    found = {
        (item.line, item.kind, SOURCE[item.start : item.end].decode(), item.text)
        for item in mutation.mutations("a.py", SOURCE)
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


def test_a_seed_draws_the_same_faults() -> None:
    sources = {"b.py": SOURCE, "a.py": SOURCE}
    assert mutation.drawing(sources, 5, seed=1) == mutation.drawing(dict(reversed(sources.items())), 5, seed=1)
    assert mutation.drawing(sources, 5, seed=1) != mutation.drawing(sources, 5, seed=2)
    assert len(mutation.drawing(sources, 1000, seed=0)) == 2 * len(mutation.mutations("a.py", SOURCE))


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


def a_copy(folder: Path, test: str) -> Any:
    """A copy of a repository that is no more than one test."""
    copy = object.__new__(mutation.Copy)
    copy.root, copy.python = folder / "saccade", Path(sys.executable)
    copy.root.mkdir()
    (copy.root / "test_it.py").write_text(test)
    return copy


@pytest.mark.slow
def test_a_run_that_hangs_is_a_fault_that_was_found_and_leaves_no_process(tmp_path: Path) -> None:
    copy = a_copy(tmp_path, HANGS)
    assert copy.passes(["test_it.py"], 15.0) is False
    assert not running(int((copy.root / "pids").read_text()))


@pytest.mark.slow
def test_a_fault_stays_in_the_copy_and_not_for_long(tmp_path: Path) -> None:
    copy = a_copy(tmp_path, "import part\n\n\ndef test_it():\n    assert part.low < 3\n")
    part = copy.root / "part.py"
    part.write_bytes(b"low = 2\n")
    (noticed,) = mutation.mutations("part.py", part.read_bytes())
    unnoticed = replace(noticed, text="1")
    assert not mutation.survives(copy, noticed, ["test_it.py"], 60.0)
    assert mutation.survives(copy, unnoticed, ["test_it.py"], 60.0)
    assert part.read_bytes() == b"low = 2\n"
    with pytest.raises(SystemExit, match="pytest itself failed"):
        copy.passes(["no_such_test.py"], 60.0)


def test_the_page_is_that_of_the_figures() -> None:
    text = scale_page.PAGE.read_text(encoding="utf-8")
    assert scale_page.page(text, scale_page.stored()) == text, "run tools/scale_page.py"
    with pytest.raises(SystemExit, match="no place for hosts"):
        scale_page.page(text.replace("<!-- end of hosts -->", ""), scale_page.stored())


def test_the_rate_of_a_gpu_is_that_of_its_memory() -> None:
    """By hand: 7B has 72 GB less 16.58 GB of weights for keys and values, 57,344 bytes a token."""
    rate = scale_page.Rate(scale_page.POLICIES[0])
    assert rate.context == 700 + 999 + 4.5 * 1299 + 150
    assert rate.policy.cache == 57_344
    assert rate.episodes == pytest.approx(55.42e9 / (7694.5 * 57_344))
    assert rate.step == pytest.approx(72e9 / 3.35e12 / 0.5)  # all memory in use is read for a token
    assert rate.turns == pytest.approx(rate.episodes / rate.step / 300)
    two = scale_page.Rate(scale_page.POLICIES[1])
    assert two.episodes == pytest.approx((144e9 - 67e9) / (7694.5 * 262_144))


def full(report: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """With all that the command writes."""
    empty = {"value": 0.0, "unit": "", "beside": "its sandboxes", "other": None, "target": "", "met": None}
    machine = {"processor": "EPYC", "cores": 2, "memory_gib": 8.0, "python": "3.11", "load": 0.1, "busy": False}
    return {"machine": machine, "figures": [empty | row for row in report["figures"]]}


def test_the_largest_of_each_figure_counts() -> None:
    def rows(name: str, host: float, sent: float) -> list[dict[str, object]]:
        return [
            {"name": f"{name}: CPU of the host", "value": host, "other": 2 * host, "unit": "ms a turn"},
            {"name": f"{name}: memory of the host, peak", "value": 1.0, "other": 5.0},
            {"name": f"{name}: sent to the engine, 6 turns", "value": sent, "other": 0.5},
        ]

    report = {"figures": [*rows("64 local", 30.0, 7.0), *rows("64 remote", 50.0, 3.5), {"name": "peak of the host"}]}
    made = scale_page.page(scale_page.PAGE.read_text(encoding="utf-8"), full(report))
    assert "| 64 local: CPU of the host | 30 ms a turn | its sandboxes | 60 | 0.50 |  |  |" in made
    assert "Printed by `python -m benchmarks scale --quick` on EPYC, 2 cores" in made
    assert scale_page.MISSING not in made
    judged = {"figures": [row | {"met": True} for row in report["figures"]]}
    made_of = scale_page.page(scale_page.PAGE.read_text(encoding="utf-8"), full(judged))
    assert "Printed by `python -m benchmarks scale --episodes 64 --many 0` on EPYC" in made_of
    turns = 8 * scale_page.Rate(scale_page.POLICIES[0]).turns
    assert f"| **node:** cores for sandboxes | turns × 100 ms ÷ 0.7 | {turns * 0.1 / 0.7:.3g} |" in made
    measured = scale_page.Measured.of(report)
    assert (measured.host_ms, measured.box_ms, measured.box_mib) == (50.0, 100.0, 5.0)
    assert measured.sent == 7.0 / 3.5  # six turns send one to six pictures
    assert measured.kept == 0.6  # five of six turns bring one


FILES = {
    "src/saccade/a/one.py": '"""Do one thing."""\n\nfrom saccade.b.two import f\n\n\ndef g() -> None:\n    f()\n',
    "src/saccade/b/two.py": "def f() -> None:\n    from saccade.a import one\n    one.g()\n",
    "src/saccade/plugins/c/three.py": "import saccade.b.two\n" + "x = 1\n" * 3,
    "tests/test_one.py": "a = 1\nb = 2\n",
}


def test_sizes_and_shape(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = parsed(tmp_path / "src/saccade")
    assert dict([*sizes(tmp_path, modules), *shape(modules)]) == {
        "lines of Python in src/saccade, core / all": "10 / 14",
        "files in src/saccade": "3",
        "prologue (before the first definition)": "42.9%",
        "top-level folders of src/saccade": "3",
        "lines of tests": "2",
        "files that one other file alone imports": "1",
        "functions over 60 lines": "0",
        "import cycles of modules": "1",
        "arrows between folders on a circle": "2",
        "imports of plug-ins from outside them": "0",
    }


ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_check_without_a_gpu_writes_its_table(tmp_path: Path) -> None:
    """In its tiny form: sandbox, training, sampling, RL steps of all weights and of adapters, in this order."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (84, 56), "red").save(photos / name)
    done = subprocess.run(
        [ROOT / "tools" / "gpu_check.sh", out, photos],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    table = json.loads((out / "gpu_check.json").read_text())
    assert done.returncode == 0, (table, done.stderr[-2000:])
    names = list(table)
    assert (out / "gpu_check.md").read_text().count("\n") == len(table) + 2
    ran = [name.partition(":")[0] for name in names if name.endswith(": seconds in all")]
    rl = ["RL of all weights of tiny", "RL of adapters of tiny"]
    made = "random weights of tiny"
    assert ran == ["sandbox", made, "training and sampling", rl[0], f"{made}, for adapters", rl[1]]
    assert table["RL of adapters of tiny: pictures"]["value"] == "2 of photos"

    def value(name: str, of: str = "value") -> float:
        return float(table[name][of].replace(",", ""))

    assert value("sandbox: layers that are on") > 0
    peak = "training, peak memory in GiB, beside the plan"
    assert 0.7 < value(peak, "limit") / value(peak) < 1.5
    assert 0 < value("the same, largest") < 0.2, "bfloat16 against itself, in passes of other shapes"
    for name in (f"{part}, step {number}" for part in rl for number in (1, 2)):
        assert 0 < value(f"{name}: largest gap of log-probability (nats)") < 0.2
        assert value(f"{name}: share of the memory's bandwidth") > 0
        assert value(f"{name}: mfu of the update") > 0


@pytest.mark.slow
def test_the_check_wants_a_folder() -> None:
    done = subprocess.run([ROOT / "tools" / "gpu_check.sh"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "gpu_check.sh OUT" in done.stderr
