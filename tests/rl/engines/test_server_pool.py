from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fastapi.responses import Response
from tests.rl.engines.served import SamplingServer, running
from tests.rl.engines.talking import picture
from tests.rl.policies import TinyPolicy, policy, said

from saccade.core.retry import Clock, RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError
from saccade.generate.base import SampledTurn, Slot, TurnRequest
from saccade.media.store import MediaStore
from saccade.models.tiny import save_tiny
from saccade.rl.engines.server import ServerEngine
from saccade.rl.engines.server_http import Connection
from saccade.rl.train.make_engine import sync_weights
from saccade.tokens.stream import PromptDelta, TokenStream


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen"
    save_tiny(folder, "qwen2_5_vl")
    return folder


@pytest.fixture(scope="module")
def made(folder: Path) -> TinyPolicy:
    return policy(folder)


@pytest.fixture
def servers(made: TinyPolicy, tmp_path: Path) -> Iterator[list[SamplingServer]]:
    with running("vllm", made, MediaStore(tmp_path / "a")) as one:
        with running("vllm", made, MediaStore(tmp_path / "b")) as other:
            yield [one, other]


async def _no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
async def engine(servers: list[SamplingServer], made: TinyPolicy, tmp_path: Path) -> AsyncIterator[ServerEngine]:
    ways = [Connection(server.url, retry=RetryPolicy(tries=2), clock=Clock(sleep=_no_wait)) for server in servers]
    engine = ServerEngine(ways, made, MediaStore(tmp_path / "media"), tmp_path / "served")
    yield engine
    await engine.close()


async def turn(slot: Slot, made: TinyPolicy, text: str = "Hi") -> SampledTurn:
    return await slot.generate(TurnRequest(PromptDelta(made.encoder.text(text)), max_tokens=3))


def asked(server: SamplingServer) -> int:
    """Turns, without the one that checks it."""
    return sum(body["sampling_params"]["logprobs"] == 0 for body in server.bodies)


def broken(answer: object) -> Response:
    """A connection that closes before the body is there."""
    return Response(b"{", headers={"content-length": "900"})


async def test_turns_go_where_few_wait_and_an_episode_stays(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    slots = engine.slots(range(6))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    assert [asked(server) for server in servers] == [3, 3]
    first = [body["token_ids"] for body in servers[0].bodies if body["sampling_params"]["seed"] != 0]
    for slot in slots:
        await turn(slot, made, "More")
    assert [asked(server) for server in servers] == [6, 6]
    assert len(first) == 3


async def test_every_server_reads_new_weights_once(
    engine: ServerEngine, servers: list[SamplingServer], folder: Path, tmp_path: Path
) -> None:
    await engine.update_weights(lambda where: shutil.copytree(folder, where))
    assert [server.loaded for server in servers] == [[str(tmp_path / "served")]] * 2


async def test_turns_of_a_lost_server_go_to_the_other_until_the_next_update(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy, folder: Path
) -> None:
    slots = engine.slots(range(4))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    lost, kept = servers
    lost.faults = [broken] * 4
    before = asked(kept)
    await asyncio.gather(*(turn(slot, made, "More") for slot in slots))
    assert asked(kept) == before + 4
    lost.faults.clear()
    quiet = asked(lost)
    await turn(engine.slots([9])[0], made)
    assert asked(lost) == quiet
    await engine.update_weights(lambda where: shutil.copytree(folder, where))
    await asyncio.gather(*(turn(slot, made) for slot in engine.slots(range(2))))
    assert asked(lost) == quiet + 1


async def test_a_process_that_sends_no_weights_tries_a_lost_server_again_too(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    slots = engine.slots(range(4))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    servers[0].faults = [broken] * 4
    await asyncio.gather(*(turn(slot, made, "More") for slot in slots))
    servers[0].faults.clear()
    quiet = asked(servers[0])
    another = SimpleNamespace(
        snapshot=lambda: None, processes=SimpleNamespace(barrier=lambda: None, device=torch.device("cpu"))
    )
    await sync_weights(engine, another)  # type: ignore[arg-type]
    await asyncio.gather(*(turn(slot, made) for slot in engine.slots(range(2))))
    assert asked(servers[0]) == quiet + 1


async def test_when_all_are_lost_the_turn_is_and_the_next_one_tries_again(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    (slot,) = engine.slots([1])
    await turn(slot, made)
    for server in servers:
        server.faults = [broken] * 2
    with pytest.raises(ModelLostError, match="Tried 2 times"):
        await turn(slot, made)
    assert (await turn(slot, made)).ids


async def test_one_that_is_of_no_use_is_refused_before_anything_is_sampled(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    servers[1].raw = True
    with pytest.raises(ModelRefusedError, match="processed_logprobs"):
        await turn(engine.slots([1])[0], made)
    assert [asked(server) for server in servers] == [0, 0]


async def test_a_picture_that_was_seen_before_an_update_comes_again(
    engine: ServerEngine, made: TinyPolicy, folder: Path, tmp_path: Path
) -> None:
    store = MediaStore(tmp_path / "media")
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", picture(store, 0), "Which?")])
    for _ in range(2):
        # At both servers, or the one that has not seen it would answer for the other.
        await asyncio.gather(*(slot.generate(TurnRequest(delta, max_tokens=2)) for slot in engine.slots(range(4))))
        await engine.update_weights(lambda where: shutil.copytree(folder, where, dirs_exist_ok=True))


async def test_a_server_that_was_started_anew_gets_the_last_weights_before_it_samples(
    engine: ServerEngine,
    servers: list[SamplingServer],
    made: TinyPolicy,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await engine.update_weights(lambda where: shutil.copytree(folder, where))
    slots = engine.slots(range(2))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    servers[0].version = "default"
    await asyncio.gather(*(turn(slot, made) for slot in [*slots, *engine.slots(range(4))]))
    assert [len(server.loaded) for server in servers] == [2, 1]
    message = f"{servers[0].url} was started anew; it has read the weights of the last update."
    assert caplog.messages == [message]
    assert [server.queue for server in engine.pool._servers] == [0, 0]
    assert servers[0].version != "default"
    servers[0].raw, servers[0].version = True, "default"
    with pytest.raises(ModelRefusedError, match="processed_logprobs"):
        await turn(slots[0], made)


async def test_a_server_that_somebody_else_gives_weights_is_refused(
    engine: ServerEngine, servers: list[SamplingServer], made: TinyPolicy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.update_weights(lambda where: shutil.copytree(folder, where))
    monkeypatch.setattr(SamplingServer, "version", property(lambda server: "theirs", lambda server, version: None))
    with pytest.raises(ModelRefusedError, match="other weights than it was given"):
        await turn(engine.slots([1])[0], made)
