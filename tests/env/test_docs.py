"""The examples of docs/env.md run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/env.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_examples_run(tmp_path: Path, number: int) -> None:
    script = tmp_path / "example.py"
    script.write_text(BLOCKS[number], encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert not run.stderr


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 2
