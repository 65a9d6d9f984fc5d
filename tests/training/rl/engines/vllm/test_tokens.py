"""What a real vLLM server samples, beside the engine in process."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from tests.training.rl.engines.talking import conversations, episode, picture
from tests.training.rl.engines.vllm.real import CONTEXT, RealServer, save_random
from tests.training.rl.policies import TinyPolicy, full_logprobs, policy, said

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError
from saccade.media.store import MediaStore
from saccade.record.trajectory import FinishReason
from saccade.tokens.batch import PromptDelta, TokenStream
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.segments import TokenTrajectory
from saccade.tokens.turn import ContextFullError, Engine, SampledTurn, TurnRequest
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]  # a server may need minutes until it is up

GAP = 1e-4
"""Nats, in float32: other kernels, the same numbers."""


async def talked(engine: Engine, made: TinyPolicy, store: MediaStore, heat: float) -> list[TokenTrajectory]:
    shown = conversations(store)
    pairs = zip(engine.slots(range(len(shown))), shown, strict=True)
    return list(await asyncio.gather(*(episode(slot, made, parts, heat, 6) for slot, parts in pairs)))


def plain(made: TinyPolicy, text: str) -> PromptDelta:
    return PromptDelta(made.encoder.text(text))


async def test_greedy_episodes_are_those_in_process(engine: ServerEngine, made: TinyPolicy, store: MediaStore) -> None:
    local = TransformersEngine(made, store)
    ours, theirs = await talked(local, made, store, 0.0), await talked(engine, made, store, 0.0)
    await local.close()
    gaps = []
    for one, other in zip(ours, theirs, strict=True):
        assert other.ids().tolist() == one.ids().tolist()
        gaps.append(np.abs(other.logprobs() - one.logprobs())[one.loss_mask()].max())
    print(f"\nlargest gap of a log-probability, greedy, vLLM and in process: {max(gaps):.2e} nats")
    assert max(gaps) < GAP


async def test_sampled_turns_have_the_logprobs_of_one_pass_over_the_whole_episode(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore
) -> None:
    gaps = []
    for tokens in await talked(engine, made, store, 0.7):
        recorded = tokens.logprobs()[tokens.loss_mask()]
        gaps.append(np.abs(recorded - full_logprobs(made, tokens, store, 0.7)).max())
    print(f"\nlargest gap of a log-probability, temperature 0.7, vLLM and one pass: {max(gaps):.2e} nats")
    assert max(gaps) < GAP


async def test_several_pictures_in_one_message(engine: ServerEngine, made: TinyPolicy, store: MediaStore) -> None:
    parts = [picture(store, number) for number in range(6)]
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", *parts, "How many?", parts[0])])
    request = TurnRequest(delta, temperature=0.0, max_tokens=12)
    local = TransformersEngine(made, store)
    ours, theirs = await local.slots([1])[0].generate(request), await engine.slots([1])[0].generate(request)
    await local.close()
    assert (theirs.ids, theirs.context) == (ours.ids, ours.context)
    np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=GAP)


async def test_stop_strings_end_a_turn_with_the_token_that_completes_them(
    engine: ServerEngine, made: TinyPolicy
) -> None:
    asked = TurnRequest(plain(made, "Say it."), temperature=0.0, max_tokens=40)
    first = await engine.slots([1])[0].generate(asked)
    stop = first.text[3:5]
    cut = TurnRequest(asked.delta, (stop,), temperature=0.0, max_tokens=40)
    stopped = await engine.slots([1])[0].generate(cut)
    assert stopped.finish is FinishReason.STOP_STRING
    assert stopped.text == first.text[: first.text.index(stop) + len(stop)]
    assert stopped.ids == first.ids[: len(stopped.ids)]
    assert len(stopped.logprobs) == len(stopped.ids)


@pytest.mark.parametrize("most", [1, 7])
async def test_the_limit_of_tokens(engine: ServerEngine, made: TinyPolicy, most: int) -> None:
    done = await engine.slots([1])[0].generate(TurnRequest(plain(made, "Say it."), max_tokens=most))
    assert len(done.ids) == most
    assert done.finish is FinishReason.LENGTH


async def test_forbidden_ids_are_never_sampled(engine: ServerEngine, made: TinyPolicy) -> None:
    forbidden = set(torch.nonzero(made.checkpoint.forbidden)[:, 0].tolist())
    hot = TurnRequest(plain(made, "Hi"), temperature=2.0, max_tokens=200)
    turns = await asyncio.gather(*(slot.generate(hot) for slot in engine.slots(range(4))))
    assert sum(len(turn.ids) for turn in turns) > 100
    assert all(forbidden.isdisjoint(turn.ids) for turn in turns)


async def test_the_same_seed_gives_the_same_turn_and_another_gives_another(
    engine: ServerEngine, made: TinyPolicy
) -> None:
    asked = TurnRequest(plain(made, "Say it."), temperature=1.3, max_tokens=24)

    async def turn(seed: int) -> SampledTurn:
        return await engine.slots([seed])[0].generate(asked)

    assert (await turn(5)).ids == (await turn(5)).ids != (await turn(6)).ids


async def test_a_full_context_ends_at_the_server_s_limit(engine: ServerEngine, made: TinyPolicy) -> None:
    (slot,) = engine.slots([1])
    done = await slot.generate(TurnRequest(PromptDelta((20,) * (CONTEXT - 2))))
    assert len(done.ids) <= 2
    known = slot.ids
    with pytest.raises(ContextFullError):
        await slot.generate(TurnRequest(plain(made, "More")))
    assert slot.ids == known


async def test_a_cancelled_turn_is_aborted_at_the_server(
    engine: ServerEngine, real: RealServer, made: TinyPolicy
) -> None:
    endless = TurnRequest(plain(made, "Say it."), temperature=0.0)  # noise without an end: the whole context
    task = asyncio.create_task(engine.slots([1])[0].generate(endless))
    await _until(lambda: real.running() == 1)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _until(lambda: real.running() == 0)
    assert (await engine.slots([1])[0].generate(TurnRequest(plain(made, "Hi"), max_tokens=2))).ids


async def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not await asyncio.to_thread(true):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_a_picture_of_another_size_than_its_neighbour(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore
) -> None:
    """Large ones come to the server at the size that the policy sees."""
    part = store.put_image(Image.effect_noise((1500, 300), 80).convert("RGB"))
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", part, picture(store, 1), "What?")])
    done = await engine.slots([1])[0].generate(TurnRequest(delta, max_tokens=2))
    assert done.context == len(delta.ids)


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
