"""Habits of notebooks: lines with `%` and `!`, cells with `%%`, `await` outside of functions."""

from __future__ import annotations

import pytest
from tests.guest.cells import Guest

from saccade.guest.notebook import read_notebook


@pytest.mark.parametrize(
    ("code", "stdout", "value"),
    [
        ("%matplotlib inline\nx = 5\nx", "", "5"),
        ("  \n%config InlineBackend.figure_format = 'retina'\n%load_ext autoreload\n1", "", "1"),
        ("import math\nif True:\n    %matplotlib inline\n    print(math.floor(2.5))", "2\n", None),
        ("s = '''\n%matplotlib inline\n!ls\n'''\n%autoreload 2\nprint(len(s.split()))", "3\n", None),
        ("x = (7\n % 4)\nx", "", "3"),  # valid Python is never touched
        ("async def f(): return 7\nx = await f()\nx", "", "7"),
        ("import asyncio\nawait asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))", "", "[1, 2]"),
        ("import asyncio\nasync def f(): return 7\nasyncio.run(f())", "", "7"),
        ("print([i async for i in (i for i in [])] if False else 3)", "3\n", None),
        ("async def g():\n    yield 1\n[i async for i in g()]", "", "[1]"),
        ("z = %time 2 + 3\nz", None, "5"),
        ("%time y = 4\ny", None, "4"),
        ("%%time\ny = 4\ny + 1", None, "5"),
        ("%%capture\nx = 1\nx", "", "1"),
        ("%%writefile a.txt\nhello\n%%\n", "", None),
        ("%%html\n<b>x</b>", "<b>x</b>\n", None),
        ("files = !ls\nfiles", "", "[]"),
        ("from IPython import get_ipython\nget_ipython().run_line_magic('matplotlib', 'inline')\n1", "", "1"),
    ],
)
def test_what_works(guest: Guest, code: str, stdout: str | None, value: str | None) -> None:
    result = guest.run(code)
    assert (result.status, result.value) == ("ok", value), result.report
    if stdout is None:
        assert "Wall time: " in result.stdout
    else:
        assert result.stdout == stdout


@pytest.mark.parametrize("line", ["len?", "?len", "  str.upper??", "??len"])
def test_a_question_mark_asks_for_help(guest: Guest, line: str) -> None:
    result = guest.run(f"if True:\n  x = 1\n{line.strip()}\nprint('on')")
    assert (result.status, result.repaired) == ("ok", ["notebook"])
    assert "Help on " in result.stdout
    assert result.stdout.endswith("on\n")


@pytest.mark.parametrize("code", ["%timeit -n 10 sum(range(3))", "%%timeit\nsum(\n    range(3)\n)"])
def test_timeit_measures(guest: Guest, code: str) -> None:
    assert " per loop (best of 3 runs, " in guest.run(code).stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("!pip install easyocr", "installs no packages (pip install easyocr)"),
        ("%pip install -q easyocr", "installs no packages (pip install -q easyocr)"),
        ("!apt-get install -y tesseract-ocr", "installs no packages"),
        ("!ls -la", "starts no programs (ls -la)"),
        ("%%bash\nls -la\ncd ..", "starts no programs (bash)"),
        ("%lsmagic", "no magic %lsmagic"),
    ],
)
def test_what_cannot_work_says_so_and_the_cell_runs_on(guest: Guest, code: str, words: str) -> None:
    result = guest.run(code if code.startswith("%%") else f"{code}\nprint('on')")
    assert result.status == "ok"
    assert words in result.stderr
    assert "numpy" in result.stderr or "magic" in words
    assert result.repaired == ["notebook"]


@pytest.mark.parametrize(
    ("code", "line"),
    [("x = = 1", 1), ("%matplotlib inline\nx = (\n1 +)", 3), ("%%time\nx = = 1", 2), ("%", 1), ("a!b", 1)],
)
def test_an_error_of_syntax_stays_one_at_its_line(guest: Guest, code: str, line: int) -> None:
    result = guest.run(code)
    assert result.status == "error"
    assert "SyntaxError" in result.traceback
    assert f"line {line}" in result.traceback
    assert "During handling" not in result.traceback


def test_the_lines_stay_as_many() -> None:
    code = "%matplotlib inline\n\nx = !ls\n%%bad\n"
    with pytest.raises(SyntaxError):
        read_notebook("x = = 1", SyntaxError(), print)
    read, _timed = read_notebook(code.replace("%%bad\n", ""), SyntaxError(), lambda *_: None)
    assert len(read.split("\n")) == 4
