"""A tiny policy, and two servers that sample with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tiny import tiny_folder
from tests.training.rl.engines.served import SamplingServer, running
from tests.training.rl.policies import TinyPolicy, policy

from saccade.media.store import MediaStore


@pytest.fixture(scope="module")
def folder() -> Path:
    return tiny_folder()


@pytest.fixture(scope="module")
def made(folder: Path) -> TinyPolicy:
    return policy(folder)


@pytest.fixture
def servers(made: TinyPolicy, tmp_path: Path) -> Iterator[list[SamplingServer]]:
    with running("vllm", made, MediaStore(tmp_path / "a")) as one:
        with running("vllm", made, MediaStore(tmp_path / "b")) as other:
            yield [one, other]
