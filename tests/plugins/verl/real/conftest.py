"""verl on Ray in an environment of its own: `make verl` installs it, `make test-verl` runs these."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SACCADE = Path(os.environ.get("VERL", Path(__file__).parents[4] / ".venv-verl/bin/saccade"))


@pytest.fixture(scope="session")
def program() -> Path:
    if not SACCADE.exists():
        pytest.fail(f"there is no {SACCADE}: run `make verl`")
    return SACCADE


@pytest.fixture
def started(program: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Runs that have begun; those that are left end with the test."""
    runs: list[subprocess.Popen[str]] = []
    yield runs
    for run in runs:
        if run.poll() is None:
            run.kill()
        run.wait(60)
