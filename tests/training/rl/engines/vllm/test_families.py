"""Families at a real vLLM server: their marks, their pictures, their new weights; `test_tokens.py` has Qwen2.5-VL."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.training.rl.engines.vllm.real import RealServer, save_random
from tests.training.rl.engines.vllm.test_tokens import GAP, talked
from tests.training.rl.policies import policy

from saccade.media.store import MediaStore
from saccade.tokens.decoder import TransformersEngine
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]  # a server may need minutes until it is up


# Gemma 4 is not among them: attention in vLLM's CPU build does not let the tokens of a picture see each other.
@pytest.mark.parametrize("family", ["qwen3_vl", "glm4v", "internvl"])
async def test_a_family(family: str, vllm_program: Path, store: MediaStore, tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    save_random(first, family=family)
    save_random(other, seed=99, family=family)
    server = RealServer(vllm_program, first, tmp_path / "vllm.log")
    engine = ServerEngine([Connection(server.url)], policy(first), store, tmp_path / "served")
    try:
        await server.start()
        gaps = [await gap(engine, first, store)]
        await engine.update_weights(lambda folder: shutil.copytree(other, folder))
        gaps.append(await gap(engine, other, store))
    finally:
        await engine.close()
        server.stop()
    print(f"\nlargest gap of a log-probability, {family}, before and after new weights: {gaps} nats")
    assert max(gaps) < GAP


async def gap(engine: ServerEngine, weights: Path, store: MediaStore) -> float:
    """Between greedy episodes at the server and those in process with `weights`, which have the same tokens."""
    made = policy(weights)
    local = TransformersEngine(made, store)
    ours, theirs = await talked(local, made, store, 0.0), await talked(engine, made, store, 0.0)
    await local.close()
    for one, two in zip(ours, theirs, strict=True):
        assert two.ids().tolist() == one.ids().tolist()
    both = zip(ours, theirs, strict=True)
    return max(float(np.abs(two.logprobs() - one.logprobs())[one.loss_mask()].max()) for one, two in both)
