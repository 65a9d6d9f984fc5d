"""One file of tasks."""

from pathlib import Path

import pytest
from tests.training.rl.train.support import write_tasks


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("tasks"), 5)
