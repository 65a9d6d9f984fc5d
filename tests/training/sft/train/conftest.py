"""One run folder for all tests of the trainer."""

from pathlib import Path

import pytest
from tests.training.sft.train.support import write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "colours", 10).root
