"""Engines over one server and over several: turns, faults, new weights, and the clock that counts their time."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.responses import JSONResponse, Response
from PIL import Image
from tests.tiny import tiny_folder
from tests.training.rl.engines.served import Answer, SamplingServer, running
from tests.training.rl.engines.talking import conversations, episode, picture
from tests.training.rl.policies import Noise, TinyPolicy, full_logprobs, policy, said

from saccade.core.retry import Clock, RetryPolicy
from saccade.episode.flow import Plan
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, FinishReason, Sampling, StopReason
from saccade.sandbox.local import LocalSandbox
from saccade.tokens.batch import PromptDelta, TokenStream
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.segments import TokenTrajectory
from saccade.tokens.turn import ContextFullError, Engine, SampledTurn, Slot, TurnRequest
from saccade.training.rl.engine import sync_weights
from saccade.training.rl.engines import server as busy
from saccade.training.rl.engines.server import BusyClock, ServerEngine
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.rollouts import RolloutResources, generate_rollouts
from saccade.training.rl.settings import GenerationSettings


def test_what_overlaps_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(busy.time, "perf_counter", lambda: now)
    clock = BusyClock()
    assert clock.seconds == 0.0
    with clock.running():
        now = 103.0
        assert clock.seconds == 3.0
        with clock.running():
            now = 104.0
        now = 106.0
    now = 200.0
    assert clock.seconds == 6.0
    clock_of_a_failure = BusyClock()
    with suppress(ValueError), clock_of_a_failure.running():
        now = 201.0
        raise ValueError("of a turn")
    now = 300.0
    assert clock_of_a_failure.seconds == 1.0


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def running_server(
    request: pytest.FixtureRequest, made: TinyPolicy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SamplingServer]:
    with running(request.param, made, MediaStore(tmp_path_factory.mktemp("served"))) as server:
        yield server


@pytest.fixture
def server(running_server: SamplingServer, made: TinyPolicy) -> SamplingServer:
    """The same one as new."""
    for name in ("deaf", "raw", "cold"):
        setattr(running_server, name, False)
    running_server.policy, running_server.beyond, running_server.context = made, 0, 2048
    for kept in (running_server.faults, running_server.bodies, running_server.loaded):
        kept.clear()  # type: ignore[attr-defined]
    return running_server


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


async def _no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def connection(server: SamplingServer) -> Connection:
    return Connection(server.url, retry=RetryPolicy(tries=2), clock=Clock(sleep=_no_wait))


@pytest.fixture
async def engine(
    server: SamplingServer, made: TinyPolicy, store: MediaStore, tmp_path: Path
) -> AsyncIterator[ServerEngine]:
    engine = ServerEngine([connection(server)], made, store, tmp_path / "weights")
    yield engine
    await engine.close()


def plans(store: MediaStore, heat: float) -> list[Plan]:
    part = store.put_image(Image.new("RGB", (131, 90), "red"))
    task = Task(id="t", question="Which colour?", media=(NamedMedia(name="image", part=part),), answer="red")
    sampling = Sampling(temperature=heat, max_tokens=6)
    return [Plan(task, Noise(), sampling, EpisodeLimits(turns=3), "t", number) for number in range(2)]


async def played(engine: Engine, made: TinyPolicy, store: MediaStore, heat: float) -> list[Rollout]:
    async with LocalSandbox() as sandbox:
        resources = RolloutResources(engine, made.encoder, sandbox, store)
        return (await generate_rollouts(plans(store, heat), resources, GenerationSettings(replays=0), 7))[0]


@pytest.mark.slow
async def test_greedy_episodes_with_a_sandbox_are_those_in_process(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore
) -> None:
    local = TransformersEngine(made, store)
    ours, theirs = await played(local, made, store, 0.0), await played(engine, made, store, 0.0)
    await local.close()
    for one, other in zip(ours, theirs, strict=True):
        assert one.tokens is not None
        assert other.tokens is not None
        assert len(one.tokens.pictures) == 3
        assert other.tokens.ids().tolist() == one.tokens.ids().tolist()
        np.testing.assert_allclose(other.tokens.logprobs(), one.tokens.logprobs(), atol=1e-4)
        assert [t.text for t in other.trajectory.turns] == [t.text for t in one.trajectory.turns]


async def talked(engine: Engine, made: TinyPolicy, store: MediaStore, heat: float) -> list[TokenTrajectory]:
    shown = conversations(store)
    pairs = zip(engine.slots(range(len(shown))), shown, strict=True)
    return list(await asyncio.gather(*(episode(slot, made, parts, heat, 6) for slot, parts in pairs)))


async def test_greedy_episodes_are_those_in_process(engine: ServerEngine, made: TinyPolicy, store: MediaStore) -> None:
    local = TransformersEngine(made, store)
    ours, theirs = await talked(local, made, store, 0.0), await talked(engine, made, store, 0.0)
    await local.close()
    for one, other in zip(ours, theirs, strict=True):
        assert other.ids().tolist() == one.ids().tolist()
        np.testing.assert_allclose(other.logprobs(), one.logprobs(), atol=1e-4)
    assert engine.busy_seconds > 0


@pytest.mark.few(1)
async def test_sampled_turns_have_the_logprobs_of_one_pass_over_the_whole_episode(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore
) -> None:
    done = await talked(engine, made, store, 0.7)
    for tokens in done:
        recorded = tokens.logprobs()[tokens.loss_mask()]
        np.testing.assert_allclose(recorded, full_logprobs(made, tokens, store, 0.7), atol=1e-4)
    again = await talked(engine, made, store, 0.7)
    assert [tokens.ids().tolist() for tokens in again] == [tokens.ids().tolist() for tokens in done]


async def test_a_sampled_turn_is_what_the_engine_in_process_samples_with_its_seed(
    engine: ServerEngine, made: TinyPolicy, store: MediaStore
) -> None:
    part = store.put_image(Image.new("RGB", (56, 84), "gold"))
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", part, "Which colour?")])
    question = TurnRequest(delta, temperature=1.3, max_tokens=12)
    (slot,) = engine.slots([5])
    theirs = await slot.generate(question)
    local = TransformersEngine(made, store)
    (own,) = local.slots([int.from_bytes(sha256(b"5:0").digest()[:6])])
    ours = await own.generate(question)
    await local.close()
    assert (theirs.ids, theirs.text, theirs.finish, theirs.context) == (ours.ids, ours.text, ours.finish, ours.context)
    np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=1e-4)
    assert slot.ids == own.ids


def plain(made: TinyPolicy, text: str) -> PromptDelta:
    return PromptDelta(made.encoder.text(text))


async def test_what_goes_on_after_a_turn_is_read_without_its_end(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy
) -> None:
    (slot,) = engine.slots([1])
    first = await slot.generate(TurnRequest(plain(made, "Say it."), max_tokens=4))
    more = made.encoder.text("More")
    await slot.generate(TurnRequest(PromptDelta(more, dropped=1), max_tokens=2))
    sent = server.bodies[-1].get("token_ids", server.bodies[-1].get("input_ids"))
    assert tuple(sent) == (*made.encoder.text("Say it."), *first.ids[:-1], *more)


@pytest.mark.parametrize("beyond", [0, 2])
async def test_stop_strings_end_a_turn_with_the_token_that_completes_them(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy, beyond: int
) -> None:
    asked = TurnRequest(plain(made, "Say it."), max_tokens=40)
    first = await engine.slots([1])[0].generate(asked)
    stop = first.text[3:5]
    server.beyond = beyond
    stopped = await engine.slots([1])[0].generate(TurnRequest(asked.delta, (stop,), max_tokens=40))
    assert stopped.finish is FinishReason.STOP_STRING
    assert stopped.text == first.text[: first.text.index(stop) + len(stop)]
    assert stopped.ids == first.ids[: len(stopped.ids)]
    assert len(stopped.logprobs) == len(stopped.ids)


async def test_forbidden_ids_are_never_sampled(engine: ServerEngine, made: TinyPolicy) -> None:
    forbidden = set(torch.nonzero(made.checkpoint.forbidden)[:, 0].tolist())
    for seed in range(2):
        done = await engine.slots([seed])[0].generate(TurnRequest(plain(made, "Hi"), temperature=2.0, max_tokens=40))
        assert forbidden.isdisjoint(done.ids)


async def test_a_full_context(engine: ServerEngine, server: SamplingServer, made: TinyPolicy) -> None:
    server.context = 40
    (slot,) = engine.slots([1])
    done = await slot.generate(TurnRequest(PromptDelta((20,) * 38)))
    assert len(done.ids) <= 2
    known = slot.ids
    with pytest.raises(ContextFullError):
        await slot.generate(TurnRequest(plain(made, "More")))
    assert slot.ids == known


def status(code: int) -> Callable[[Answer], Response]:
    return lambda _: JSONResponse({"error": {"message": "no", "code": code}}, code)


def cut(answer: Answer) -> Response:
    """A body that ends in the middle."""
    return Response(json.dumps(answer)[:-9], media_type="application/json")


def gone(answer: Answer) -> Response:
    """A connection that closes before the body is there."""
    return Response(b"{", headers={"content-length": "900"})


def changed(**places: Any) -> Callable[[Answer], Response]:
    """Of either format: what is said of the sampled tokens is replaced."""

    def change(answer: Answer) -> Response:
        for where in (answer, answer.get("meta_info", {}), *answer.get("choices", [])):
            for name, value in places.items():
                if name in where:
                    where[name] = value(where[name]) if callable(value) else value
        return JSONResponse(answer)

    return change


def less(logprobs: Any) -> Any:
    """One log-probability is missing."""
    return {"content": logprobs["content"][:-1]} if isinstance(logprobs, dict) else logprobs[:-1]


NO_LOGPROBS = changed(logprobs=None, output_token_logprobs=None)
ONE_LESS = changed(logprobs=less, output_token_logprobs=less)
OTHER_IDS = changed(token_ids=lambda ids: [i + 1 for i in ids], output_ids=lambda ids: [i + 1 for i in ids])
ABORTED = changed(finish_reason=lambda logprobs: {"type": "abort"} if isinstance(logprobs, dict) else "abort")
READ_MORE = changed(
    prompt_token_ids=lambda ids: [*ids, 7], prompt_tokens=lambda count: count + 1, usage={"prompt_tokens": 999}
)


async def one_turn(engine: ServerEngine, made: TinyPolicy) -> SampledTurn:
    return await engine.slots([1])[0].generate(TurnRequest(plain(made, "Hi"), max_tokens=3))


@pytest.mark.parametrize("fault", [status(500), status(429), cut, gone, ABORTED])
@pytest.mark.few(4)
async def test_an_outage_is_tried_again(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy, fault: Callable[[Answer], Response]
) -> None:
    wanted = await one_turn(engine, made)
    server.faults = [fault]
    assert await one_turn(engine, made) == wanted
    server.faults = [fault, fault]
    with pytest.raises(ModelLostError, match="Tried 2 times"):
        await one_turn(engine, made)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (status(404), "refused .404.*no"),
        (NO_LOGPROBS, "no log-probabilities"),
        (ONE_LESS, "3 tokens and 2 log-probabilities"),
        (OTHER_IDS, "other tokens than it sampled"),
        (READ_MORE, "preprocessor_config"),
        (changed(choices=[], output_ids="x"), "another format"),
    ],
)
@pytest.mark.few(4)
async def test_an_answer_of_no_use_is_refused(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy, fault: Callable[[Answer], Response], words: str
) -> None:
    await one_turn(engine, made)
    server.faults = [fault]
    with pytest.raises(ModelRefusedError, match=words):
        await one_turn(engine, made)


@pytest.mark.parametrize(
    ("wrong", "words"), [("deaf", "logit_bias"), ("raw", "processed_logprobs"), ("cold", "ORIGINAL_LOGPROB")]
)
async def test_logprobs_that_are_not_of_what_is_sampled_are_refused(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy, wrong: str, words: str
) -> None:
    setattr(server, wrong, True)
    with pytest.raises(ModelRefusedError, match=words):
        await one_turn(engine, made)
    setattr(server, wrong, False)
    assert (await one_turn(engine, made)).ids


async def test_a_bias_that_is_lost_later_is_noticed(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy
) -> None:
    await one_turn(engine, made)
    server.deaf = True
    hot = TurnRequest(plain(made, "Hi"), temperature=2.0, max_tokens=200)
    with pytest.raises(ModelRefusedError, match="in spite of its bias"):
        await asyncio.gather(*(slot.generate(hot) for slot in engine.slots(range(4))))


@pytest.mark.slow
async def test_a_server_that_is_not_there_loses_the_episode(
    made: TinyPolicy, store: MediaStore, tmp_path: Path
) -> None:
    way = Connection("http://127.0.0.1:9", retry=RetryPolicy(tries=2), clock=Clock(sleep=_no_wait))
    engine = ServerEngine([way], made, store, tmp_path)
    done = await played(engine, made, store, 1.0)
    await engine.close()
    assert all(item.trajectory.stop is StopReason.MODEL_LOST and item.tokens is None for item in done)


@pytest.fixture(scope="module")
def other_weights() -> Path:
    return tiny_folder(seed=99)


async def test_new_weights_are_sampled_with(
    engine: ServerEngine, server: SamplingServer, made: TinyPolicy, tmp_path: Path, other_weights: Path
) -> None:
    before = await one_turn(engine, made)

    await engine.update_weights(lambda folder: shutil.copytree(other_weights, folder))
    assert server.loaded == [str(tmp_path / "weights")]
    after = await one_turn(engine, made)
    assert after.logprobs != before.logprobs


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["internvl", "gemma4"])
async def test_of_families_whose_marks_a_server_writes_it_is_given_none(
    family: str, store: MediaStore, tmp_path: Path
) -> None:
    save_tiny(tmp_path / "tiny", family)
    made = policy(tmp_path / "tiny")
    with running("vllm", made, store) as server:
        engine, local = ServerEngine([connection(server)], made, store, tmp_path), TransformersEngine(made, store)
        ours, theirs = await talked(local, made, store, 0.0), await talked(engine, made, store, 0.0)
        await local.close()
        await engine.close()
    for one, other in zip(ours, theirs, strict=True):
        assert other.ids().tolist() == one.ids().tolist()
    assert any(len(tokens.pictures) > 1 for tokens in theirs)


def test_addresses_that_are_none_are_refused() -> None:
    for address in ("ftp://host", "host:8000", "http://user:secret@host"):
        with pytest.raises(SettingsError, match="address") as refused:
            Connection(address)
        assert "secret" not in str(refused.value)


@pytest.fixture
async def pool(servers: list[SamplingServer], made: TinyPolicy, tmp_path: Path) -> AsyncIterator[ServerEngine]:
    engine = ServerEngine(
        [connection(server) for server in servers], made, MediaStore(tmp_path / "media"), tmp_path / "served"
    )
    yield engine
    await engine.close()


async def turn(slot: Slot, made: TinyPolicy, text: str = "Hi") -> SampledTurn:
    return await slot.generate(TurnRequest(plain(made, text), max_tokens=3))


def asked(server: SamplingServer) -> int:
    """Count turns, without the one that checks the server."""
    return sum(body["sampling_params"]["logprobs"] == 0 for body in server.bodies)


async def test_turns_go_where_few_wait_and_an_episode_stays(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    slots = pool.slots(range(6))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    assert [asked(server) for server in servers] == [3, 3]
    first = [body["token_ids"] for body in servers[0].bodies if body["sampling_params"]["seed"] != 0]
    for slot in slots:
        await turn(slot, made, "More")
    assert [asked(server) for server in servers] == [6, 6]
    assert len(first) == 3


async def test_turns_of_a_lost_server_go_to_the_other_until_the_next_update(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy, folder: Path
) -> None:
    slots = pool.slots(range(4))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    lost, kept = servers
    lost.faults = [gone] * 4
    before = asked(kept)
    await asyncio.gather(*(turn(slot, made, "More") for slot in slots))
    assert asked(kept) == before + 4
    lost.faults.clear()
    quiet = asked(lost)
    await turn(pool.slots([9])[0], made)
    assert asked(lost) == quiet
    await pool.update_weights(lambda where: shutil.copytree(folder, where))
    await asyncio.gather(*(turn(slot, made) for slot in pool.slots(range(2))))
    assert asked(lost) == quiet + 1


async def test_a_process_that_sends_no_weights_tries_a_lost_server_again_too(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    slots = pool.slots(range(4))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    servers[0].faults = [gone] * 4
    await asyncio.gather(*(turn(slot, made, "More") for slot in slots))
    servers[0].faults.clear()
    quiet = asked(servers[0])
    another = SimpleNamespace(
        snapshot=lambda: None, processes=SimpleNamespace(barrier=lambda: None, device=torch.device("cpu"))
    )
    await sync_weights(pool, another)  # type: ignore[arg-type]
    await asyncio.gather(*(turn(slot, made) for slot in pool.slots(range(2))))
    assert asked(servers[0]) == quiet + 1


async def test_when_all_are_lost_the_turn_is_and_the_next_one_tries_again(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    (slot,) = pool.slots([1])
    await turn(slot, made)
    for server in servers:
        server.faults = [gone] * 2
    with pytest.raises(ModelLostError, match="Tried 2 times"):
        await turn(slot, made)
    assert (await turn(slot, made)).ids


async def test_one_that_is_of_no_use_is_refused_before_anything_is_sampled(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy
) -> None:
    servers[1].raw = True
    with pytest.raises(ModelRefusedError, match="processed_logprobs"):
        await turn(pool.slots([1])[0], made)
    assert [asked(server) for server in servers] == [0, 0]


async def test_a_picture_that_was_seen_before_an_update_comes_again(
    pool: ServerEngine, made: TinyPolicy, folder: Path, tmp_path: Path
) -> None:
    store = MediaStore(tmp_path / "media")
    delta = TokenStream(made.encoder, "test").prompt_delta([said("user", picture(store, 0), "Which?")])
    for _ in range(2):
        # At both servers, or the one that has not seen it would answer for the other.
        await asyncio.gather(*(slot.generate(TurnRequest(delta, max_tokens=2)) for slot in pool.slots(range(4))))
        await pool.update_weights(lambda where: shutil.copytree(folder, where, dirs_exist_ok=True))


async def test_a_server_that_was_started_anew_gets_the_last_weights_before_it_samples(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await pool.update_weights(lambda where: shutil.copytree(folder, where))
    slots = pool.slots(range(2))
    await asyncio.gather(*(turn(slot, made) for slot in slots))
    servers[0].version = "default"
    await asyncio.gather(*(turn(slot, made) for slot in [*slots, *pool.slots(range(4))]))
    assert [len(server.loaded) for server in servers] == [2, 1]
    message = f"{servers[0].url} was started anew; it has read the weights of the last update."
    assert caplog.messages == [message]
    assert servers[0].version != "default"
    servers[0].raw, servers[0].version = True, "default"
    with pytest.raises(ModelRefusedError, match="processed_logprobs"):
        await turn(slots[0], made)


async def test_a_server_that_somebody_else_gives_weights_is_refused(
    pool: ServerEngine, servers: list[SamplingServer], made: TinyPolicy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.update_weights(lambda where: shutil.copytree(folder, where))
    monkeypatch.setattr(SamplingServer, "version", property(lambda server: "theirs", lambda server, version: None))
    with pytest.raises(ModelRefusedError, match="other weights than it was given"):
        await turn(pool.slots([1])[0], made)
