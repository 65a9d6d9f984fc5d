"""One tiny checkpoint and one file of tasks."""

from pathlib import Path

import pytest
from tests.training.rl.train.support import write_tasks

from saccade.plugins.worlds.random_checkpoint import save_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen2_5_vl"
    save_tiny(folder, "qwen2_5_vl")
    return folder


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("tasks"), 5)
