"""New weights at a real vLLM server: pictures that come again, and a server that was killed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.training.rl.engines.talking import picture
from tests.training.rl.engines.vllm.real import RealServer, save_random
from tests.training.rl.policies import TinyPolicy, policy, said

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError
from saccade.media.store import MediaStore
from saccade.tokens.build import TokenStream
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.turn import SampledTurn, TurnRequest
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]  # a server may need minutes until it is up


def asked(made: TinyPolicy, store: MediaStore) -> TurnRequest:
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", picture(store, 0), "Which colour?")])
    return TurnRequest(delta, temperature=0.0, max_tokens=8)


async def in_process(made: TinyPolicy, store: MediaStore) -> SampledTurn:
    local = TransformersEngine(made, store)
    turn = await local.slots([1])[0].generate(asked(made, store))
    await local.close()
    return turn


async def turn_of(engine: ServerEngine, made: TinyPolicy, store: MediaStore) -> SampledTurn:
    return await engine.slots([1])[0].generate(asked(made, store))


def agree(one: SampledTurn, other: SampledTurn) -> None:
    assert one.ids == other.ids
    np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


@pytest.fixture(scope="session")
def other_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "other"
    save_random(folder, seed=99)
    return folder


def copy(source: Path) -> object:
    return lambda folder: shutil.copytree(source, folder, dirs_exist_ok=True)


async def test_a_picture_that_was_seen_before_an_update_comes_again(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore, other_weights: Path, real: RealServer
) -> None:
    agree(await turn_of(engine, made, store), await in_process(made, store))
    other = policy(other_weights)
    for weights, used in ((other_weights, other), (None, made), (other_weights, other)):
        await engine.update_weights(real.copy_weights if weights is None else copy(weights))  # type: ignore[arg-type]
        agree(await turn_of(engine, made, store), await in_process(used, store))


async def test_it_sleeps_until_an_update_and_answers_with_the_new_weights(
    real: RealServer, made: TinyPolicy, store: MediaStore, other_weights: Path, tmp_path: Path
) -> None:
    """On a CPU vLLM pauses and resumes, part by part, as on a GPU; only its memory stays where it is."""
    shared = ServerEngine([Connection(real.url)], made, store, tmp_path / "served", shared=True)
    await shared.update_weights(real.copy_weights)
    agree(await turn_of(shared, made, store), await in_process(made, store))
    await shared.sleep()
    assert httpx.get(f"{real.url}/is_sleeping").json() == {"is_sleeping": True}
    asleep = asyncio.create_task(turn_of(shared, made, store))
    await asyncio.sleep(2)
    assert not asleep.done()
    await shared.update_weights(copy(other_weights))  # type: ignore[arg-type]
    assert httpx.get(f"{real.url}/is_sleeping").json() == {"is_sleeping": False}
    expected = await in_process(policy(other_weights), store)
    agree(await turn_of(shared, made, store), expected)
    agree(await asleep, expected)
    await shared.close()


async def test_a_server_that_was_killed_and_started_again_gets_the_last_weights(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore, other_weights: Path, real: RealServer, tmp_path: Path
) -> None:
    await engine.update_weights(copy(other_weights))  # type: ignore[arg-type]
    expected = await in_process(policy(other_weights), store)
    agree(await turn_of(engine, made, store), expected)
    real.stop()
    with pytest.raises(httpx.ConnectError):
        real.running()
    hasty = ServerEngine([Connection(real.url, retry=RetryPolicy(tries=1))], made, store, tmp_path)
    with pytest.raises(ModelLostError, match="cannot be reached"):
        await turn_of(hasty, made, store)
    await hasty.close()
    await real.start()
    agree(await turn_of(engine, made, store), expected)
