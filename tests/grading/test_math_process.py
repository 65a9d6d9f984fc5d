"""The helper process of formulas: limits, restarts, threads."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.grading.rows import rows

from saccade.errors import UnavailableError
from saccade.grading import math
from saccade.grading.math import FormulaComparer, comparable_formula

WORKER = Path(math.__file__).with_name("math_worker.py")


@pytest.fixture
def comparer() -> Iterator[FormulaComparer]:
    made = FormulaComparer(WORKER)
    yield made
    made.close()


def test_comparison_without_end_is_given_up_and_the_next_one_works(comparer: FormulaComparer) -> None:
    assert comparer.same("5\\sqrt{2}", "(a+b+c+d+e+f+g)^{99}") is None
    assert comparer.same("\\sqrt{50}", "5\\sqrt{2}") is True
    assert comparer.same("\\sqrt{50}", "5\\sqrt{3}") is False


def test_threads_share_a_process(comparer: FormulaComparer) -> None:
    pairs = [(f"{n}\\sqrt{{2}}", f"\\sqrt{{{2 * n * n}}}") for n in range(2, 10)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda pair: comparer.same(*pair), pairs))
    process = comparer._running()
    assert resource.prlimit(process.pid, resource.RLIMIT_AS) == (3 << 30, 3 << 30)


def test_silent_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import sys, time\nprint('ready', flush=True)\nsys.stdin.readline()\ntime.sleep(600)\n")
    monkeypatch.setattr(math, "REPLY_SECONDS", 0.2)
    comparer = FormulaComparer(worker)
    assert comparer.same("1", "2") is None
    comparer.close()


def test_what_a_library_prints_is_no_reply(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import math_verify, runpy\n"
        "quiet = math_verify.parse\n"
        "def loud(*given, **named):\n"
        "    print('a warning', flush=True)\n"
        "    return quiet(*given, **named)\n"
        "math_verify.parse = loud\n"
        f"runpy.run_path({str(WORKER)!r}, run_name='__main__')\n"
    )
    comparer = FormulaComparer(worker)
    assert comparer.same("\\sqrt{50}", "5\\sqrt{2}") is True
    assert comparer.same("\\sqrt{50}", "5\\sqrt{3}") is False
    comparer.close()


IDLE = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FormulaComparer, subprocess.Popen[bytes]]]:
    (tmp_path / "worker.py").write_text(IDLE)
    monkeypatch.setattr(math, "REPLY_SECONDS", 0.01)
    comparer = FormulaComparer(tmp_path / "worker.py")
    process = comparer._running()
    yield comparer, process
    process.kill()
    process.wait()


def test_a_closed_comparer_leaves_no_process_and_no_pipe(
    idle: tuple[FormulaComparer, subprocess.Popen[bytes]],
) -> None:
    comparer, process = idle
    comparer.close()
    assert process.returncode is not None
    assert [pipe is not None and pipe.closed for pipe in (process.stdin, process.stdout)] == [True, True]
    comparer.close()  # once is enough


def test_a_process_that_died_is_replaced_and_its_pipes_are_closed(
    idle: tuple[FormulaComparer, subprocess.Popen[bytes]],
) -> None:
    comparer, process = idle
    assert comparer._running() is process
    process.kill()
    process.wait()
    assert comparer._running() is not process
    assert process.stdin is not None
    assert process.stdin.closed
    comparer.close()


def test_after_a_fork_the_process_of_the_parent_is_left_alone(
    idle: tuple[FormulaComparer, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparer, process = idle
    monkeypatch.setattr(os, "getpid", lambda: -1)
    child = comparer._running()
    assert child is not process
    assert process.poll() is None
    comparer.close()
    assert child.returncode is not None


def test_process_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("raise SystemExit(1)\n")
    with pytest.raises(UnavailableError, match="did not start"):
        FormulaComparer(worker).same("1", "2")


def test_process_that_is_not_ready_in_time_is_started_anew_and_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(math, "START_SECONDS", 0.1)
    monkeypatch.setattr(math, "REPLY_SECONDS", 0.1)
    comparer = FormulaComparer(worker)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="did not start"):
            comparer.same("1", "2")
    comparer.close()


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[math\]"):
        FormulaComparer(WORKER).same("1", "2")


@rows(
    ("text", "formula"),
    [
        ("2*sqrt(3)", "2\\cdot \\sqrt{3}"),
        ("pi/4", "\\pi /4"),
        ("x**2", "x^2"),
        ("\\frac{1}{2}", "\\frac{1}{2}"),
        ("x^{12} + 2^{ab}", "x^{12} + 2^{ab}"),
        ("(a+b)^{2}", "(a+b)^{2}"),
        ("(a)^{b}", "(a)^{b}"),
        ("x ^ (y)", "x ^{y}"),
        ("a≤b∪∅", "a\\le b\\cup \\emptyset "),
        ("123456789012345", "123456789012345"),
        ("(" * 8 + "1" + ")" * 8, "(" * 8 + "1" + ")" * 8),
        ("(1)" * 16, "(1)" * 16),
        ("x^2" * 12, "x^2" * 12),
        ("\\sqrt 2" * 8, "\\sqrt 2" * 8),
        ("10" + "+1" * 149, "10" + "+1" * 149),
    ],
)
def test_plain_spellings_become_latex(text: str, formula: str) -> None:
    assert comparable_formula(text) == formula


@rows(
    "text",
    [
        "",
        "the answer",
        "9^{9^9}",
        "9^9^9",
        "2^{100}",
        "(a+b)^{12}",
        "(a+b)^{xy}",
        "[a+b]^{12}",
        "x^{2^3}",
        "x^{123}",
        "(1)" * 17,
        "x^2" * 13,
        "\\sqrt 2" * 9,
        "abcd",
        "n!",
        "\\sum i",
        "\\input{x}",
        "\\def\\a{\\a}",
        "1" + "+1" * 150,
        "(" * 9 + "1" + ")" * 9,
        "1234567890123456",
        "__import__('os')",
        "a; b",
        "\\write18{ls}",
    ],
)
def test_gate_refuses(text: str) -> None:
    assert comparable_formula(text) is None


def test_process_that_closed_its_ears_is_replaced(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import os, time\nos.close(0)\nprint('ready', flush=True)\ntime.sleep(600)\n")
    comparer = FormulaComparer(worker)
    assert comparer.same("1", "2") is None
    worker.write_text(
        "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nprint('{\"same\": true}', flush=True)\n"
    )
    assert comparer.same("1", "2") is True
    comparer.close()
