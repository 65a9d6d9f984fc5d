"""`python -m benchmarks tools` at its smallest: each tool in both ways, the detector with random weights among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tools import ToolScale, measure_tools, run_together
from saccade.errors import ToolLostError
from saccade.tools.setup import VARIABLE

MEETING = """
import sys, time
from pathlib import Path
own, other = map(Path, sys.argv[1:])
sys.stdin.readline()
own.touch()
end = time.monotonic() + 20
while not other.exists():
    if time.monotonic() > end:
        sys.exit("alone")
    time.sleep(0.01)
print("met")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_tool_is_measured_in_workers_and_served(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr")
    pytest.importorskip("transformers")
    monkeypatch.delenv(VARIABLE, raising=False)
    figures = measure_tools(ToolScale(episodes=(1,), cheap_calls=4, ocr_calls=2))
    names = [figure.name for figure in figures]
    assert len(names) == 9
    assert "ocr alone, CPU time of a call" in names
    assert "grounding_dino, 1 episodes, worker processes (random weights)" in names
    assert "grounding_dino, 1 episodes, served (random weights)" in names
    assert all(figure.value > 0 for figure in figures)
    assert all(figure.other for figure in figures if figure.unit != "ms")
    assert VARIABLE not in os.environ


def started(program: str, *arguments: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_what_the_tool_alone_allows_is_measured_on_all_cores_at_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    printed = run_together([started(MEETING, one, two), started(MEETING, two, one)])  # each waits for the other
    assert [text.strip() for text in printed] == [b"met", b"met"]
    with pytest.raises(ToolLostError):
        run_together([started("import sys; sys.stdin.readline(); sys.exit(3)")])
