"""One tiny checkpoint and one run folder for all tests of the trainer."""

from pathlib import Path

import pytest
from tests.training.sft.train.support import write_run

from saccade.plugins.worlds.random_checkpoint import save_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen2_5_vl"
    save_tiny(folder, "qwen2_5_vl")
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "colours", 10).root
