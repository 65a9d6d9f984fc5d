from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.sft.curate.cases import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)
