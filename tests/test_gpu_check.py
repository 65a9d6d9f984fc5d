"""`tools/gpu_check.sh`, as far as it goes without a GPU: with tiny shapes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_check_without_a_gpu_writes_its_table(tmp_path: Path) -> None:
    program = ROOT / "tools" / "gpu_check.sh"
    subprocess.run([program, tmp_path], check=True, env={**os.environ, "PYTHON": sys.executable})
    table = json.loads((tmp_path / "gpu_check.json").read_text())
    assert 0.7 < table["planned / measured"] < 1.5
    assert table["training, tokens a second"] > 0
    assert table["sampling 3 episodes, tokens a second"] > 0
    assert 0 < table["the same, largest"] < 0.2, "bfloat16 against itself, in passes of other shapes"
    lines = (tmp_path / "gpu_check.md").read_text().splitlines()
    assert len(lines) == len(table) + 2


@pytest.mark.slow
def test_the_check_wants_a_folder() -> None:
    done = subprocess.run([ROOT / "tools" / "gpu_check.sh"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "gpu_check.sh OUT" in done.stderr
