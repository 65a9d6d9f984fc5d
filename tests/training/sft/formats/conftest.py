from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.sft.formats.cases import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
