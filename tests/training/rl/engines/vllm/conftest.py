"""A real vLLM server on a free port, over tiny weights: `make engines` installs it, `make test-engines` runs these."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.training.rl.engines.vllm.real import RealServer, save_random
from tests.training.rl.policies import TinyPolicy, policy

from saccade.media.store import MediaStore
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection

VLLM = Path(os.environ.get("VLLM", Path(__file__).parents[5] / ".venv-engines/bin/vllm"))


@pytest.fixture(scope="session")
def vllm_program() -> Path:
    if not VLLM.exists():
        pytest.fail(f"there is no {VLLM}: run `make engines`")
    return VLLM


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made on the spot."""
    folder = tmp_path_factory.mktemp("tiny") / "qwen"
    save_random(folder)
    return folder


@pytest.fixture(scope="session")
def made(weights: Path) -> TinyPolicy:
    return policy(weights)


@pytest.fixture(scope="session")
def real(vllm_program: Path, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(vllm_program, weights, tmp_path_factory.mktemp("logs") / "vllm.log")
    try:
        asyncio.run(server.start())
        yield server
    finally:
        server.stop()


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


@pytest.fixture
async def engine(real: RealServer, made: TinyPolicy, store: MediaStore, tmp_path: Path) -> AsyncIterator[ServerEngine]:
    """With the weights that `made` has, whatever a test before left there."""
    engine = ServerEngine([Connection(real.url)], made, store, tmp_path / "served")
    await engine.update_weights(real.copy_weights)
    yield engine
    await engine.close()
