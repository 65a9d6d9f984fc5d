"""Episodes that decode together: as each alone, as one pass, with graphs and without, in bounded caches."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import tiny_folder
from tests.tokens.generate.support import answered
from tests.training.rl.engines.talking import conversations, episode, picture
from tests.training.rl.policies import TinyPolicy, full_logprobs, policy, said

from saccade.errors import ModelRefusedError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.record.trajectory import FinishReason, Sampling
from saccade.tokens import caches, sequences
from saccade.tokens.batch import PromptDelta, TokenStream
from saccade.tokens.caches import RaggedCache, row_bytes, state_bytes
from saccade.tokens.decoder import PlainPolicy, Scheduler, TransformersEngine
from saccade.tokens.segments import TokenTrajectory
from saccade.tokens.sequences import Draws, StepGraphs, cache_bytes_of
from saccade.tokens.turn import ContextFullError, SampledTurn, TurnRequest

PLAYED_FAMILIES = (
    *("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl", "qwen3_5", "gemma4"),
    pytest.param("glm46v", marks=pytest.mark.slow),
)


@pytest.fixture(scope="module", params=PLAYED_FAMILIES)
def any_policy(request: pytest.FixtureRequest) -> TinyPolicy:
    return policy(tiny_folder(request.param))


@pytest.fixture(scope="module")
def qwen() -> TinyPolicy:
    return policy(tiny_folder())


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


async def rolled(made: TinyPolicy, store: MediaStore, heat: float = 0.8, **more: Any) -> list[TokenTrajectory]:
    engine = TransformersEngine(made, store, **more)
    shown = conversations(store)
    slots = engine.slots(range(len(shown)))
    try:
        async with asyncio.timeout(60):
            pairs = zip(slots, shown, strict=True)
            work = [episode(slot, made, parts, heat, 9 + 4 * n) for n, (slot, parts) in enumerate(pairs)]
            return list(await asyncio.gather(*work))
    finally:
        await engine.close()


@pytest.mark.few(1)
async def test_logprobs_are_those_of_one_pass_over_the_whole_episode(any_policy: TinyPolicy, store: MediaStore) -> None:
    for tokens in await rolled(any_policy, store):
        recorded = tokens.logprobs()[tokens.loss_mask()]
        np.testing.assert_allclose(recorded, full_logprobs(any_policy, tokens, store, 0.8), atol=3e-5)


async def test_same_seeds_same_tokens_and_small_passes_change_nothing(qwen: TinyPolicy, store: MediaStore) -> None:
    once, small = await rolled(qwen, store), await rolled(qwen, store, most_tokens=1)
    assert [t.ids().tolist() for t in once] == [t.ids().tolist() for t in small]


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.few(1)
async def test_a_bounded_cache_holds_what_it_may_and_changes_no_token(
    any_policy: TinyPolicy, store: MediaStore, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six episodes two blocks hold a long one or two short ones; the others wait, and are read again."""
    free = await rolled(any_policy, store)
    longest = max(len(tokens.ids()) for tokens in free)
    blocks = max(blocks, -(-longest // 128))
    assert longest > 100
    held: list[int] = []

    def watched(cache: RaggedCache, *args: Any, **kwargs: Any) -> Any:
        made = update(cache, *args, **kwargs)
        held.append(cache.nbytes)
        return made

    update = RaggedCache.update
    monkeypatch.setattr(RaggedCache, "update", watched)
    states = len(free) * state_bytes(any_policy.checkpoint.config, 4)
    budget = states + blocks * row_bytes(128, cache_bytes_of(any_policy))
    bounded = await rolled(any_policy, store, cache_bytes=budget)
    assert max(held) <= budget
    for mine, other in zip(bounded, free, strict=True):
        assert mine.ids().tolist() == other.ids().tolist()
        np.testing.assert_allclose(mine.logprobs(), other.logprobs(), atol=1e-5)


async def test_an_episode_that_no_cache_can_hold_is_refused(qwen: TinyPolicy, store: MediaStore) -> None:
    budget = row_bytes(1, cache_bytes_of(qwen))
    with pytest.raises(ModelRefusedError, match=r"generation\.cache"):
        await rolled(qwen, store, cache_bytes=budget)


async def test_greedy_is_what_a_single_answer_is(qwen: TinyPolicy, store: MediaStore) -> None:
    messages = (said("user", picture(store, 0), "Which colour?"),)
    delta = TokenStream(qwen.encoder, "test").prompt_delta(messages)
    engine = TransformersEngine(qwen, store)
    (slot,) = engine.slots([0])
    made = await slot.generate(TurnRequest(delta, temperature=0.0, max_tokens=24))
    await engine.close()
    request = Request(messages, sampling=Sampling(max_tokens=24))
    (wanted,) = answered(Scheduler(PlainPolicy(qwen.checkpoint), most_sequences=1), store, request)
    assert (made.ids, made.text, made.finish) == (wanted.ids, wanted.text, wanted.finish)
    np.testing.assert_allclose(made.logprobs, wanted.logprobs, atol=1e-5)


async def test_a_turn_ends_where_the_episodes_context_does(qwen: TinyPolicy, store: MediaStore) -> None:
    engine = TransformersEngine(qwen, store)
    (slot,) = engine.slots([0])
    delta = plain(qwen, "Say it.")
    read = len(delta.ids)
    made = await slot.generate(TurnRequest(delta, temperature=9.0, max_tokens=500, context_tokens=read + 5))
    assert len(made.ids) <= 5
    assert made.finish is FinishReason.LENGTH or len(made.ids) < 5
    with pytest.raises(ContextFullError, match="at most"):
        await slot.generate(TurnRequest(plain(qwen, "More."), context_tokens=read + 5))
    await engine.close()


async def test_forbidden_ids_are_never_sampled(qwen: TinyPolicy, store: MediaStore) -> None:
    forbidden = set(torch.nonzero(qwen.checkpoint.forbidden)[:, 0].tolist())
    for tokens in await rolled(qwen, store, heat=50.0):
        sampled = tokens.ids()[tokens.loss_mask()]
        assert forbidden.isdisjoint(sampled.tolist())


def plain(made: TinyPolicy, text: str) -> PromptDelta:
    return PromptDelta(made.encoder.text(text))


async def test_stop_strings_end_a_turn_with_the_token_that_completes_them(
    qwen: TinyPolicy, store: MediaStore, request: pytest.FixtureRequest
) -> None:
    """Also where more tokens were sampled ahead, whose numbers then draw the next turn."""
    engine = TransformersEngine(qwen, store)
    one, other = engine.slots([1, 1])
    ask = TurnRequest(plain(qwen, "Say it."), max_tokens=40)
    first, _ = await asyncio.gather(one.generate(ask), other.generate(ask))
    one.release(), other.release()
    stop, found = first.text[3:5], []
    for ahead in (False, True):
        if ahead:
            request.getfixturevalue("captured")
        (again,) = engine.slots([1])
        stopped = await again.generate(TurnRequest(ask.delta, (stop,), max_tokens=40))
        assert stopped.finish is FinishReason.STOP_STRING
        assert stopped.text == first.text[: first.text.index(stop) + len(stop)]
        assert stopped.ids == first.ids[: len(stopped.ids)]
        found.append((await again.generate(TurnRequest(plain(qwen, "More."), max_tokens=6))).ids)
        again.release()
    await engine.close()
    assert found[0] == found[1]


async def test_a_full_context_ends_one_episode_and_no_other(qwen: TinyPolicy, store: MediaStore) -> None:
    engine = TransformersEngine(qwen, store)
    one, other = engine.slots([1, 2])
    long = PromptDelta((5,) * (qwen.encoder.context_tokens - 2))
    first, second = await asyncio.gather(
        one.generate(TurnRequest(long)), other.generate(TurnRequest(plain(qwen, "Hi"), max_tokens=3))
    )
    assert len(first.ids) <= 2
    assert len(second.ids) <= 3

    async def full() -> None:
        with pytest.raises(ContextFullError):
            await one.generate(TurnRequest(plain(qwen, "More")))
        one.release()

    _, third = await asyncio.gather(full(), other.generate(TurnRequest(plain(qwen, "More"), max_tokens=2)))
    await engine.close()
    assert isinstance(third, SampledTurn)


async def test_a_cancelled_question_lets_the_others_go_on(qwen: TinyPolicy, store: MediaStore) -> None:
    engine = TransformersEngine(qwen, store)
    one, other = engine.slots([1, 2])
    waiting = asyncio.ensure_future(one.generate(TurnRequest(plain(qwen, "Hi"), max_tokens=3)))
    await asyncio.sleep(0)
    waiting.cancel()
    done = await asyncio.wait_for(other.generate(TurnRequest(plain(qwen, "Hi"), max_tokens=3)), 30)
    await engine.close()
    assert done.ids
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.fixture(scope="module", params=sorted(sequences._CAPTURED))
def captured_policy(request: pytest.FixtureRequest) -> TinyPolicy:
    return policy(tiny_folder(request.param))


class Replayed:
    """Runs a pass over the tensors that it was captured with."""

    def __init__(self, advance: Callable[[], None]) -> None:
        self.count = 0
        self._advance = advance

    def replay(self) -> None:
        self.count += 1
        self._advance()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Replayed]:
    """Graphs that were captured, as if there were a GPU."""
    made: list[Replayed] = []

    def capture(graphs: StepGraphs, pass_over: Any, one: sequences._Shape, end: int) -> None:
        made.append(Replayed(lambda: graphs._advance(pass_over, one, end)))
        one.graph = made[-1]

    monkeypatch.setattr(sequences, "can_capture", lambda device, checkpoint: True)
    monkeypatch.setattr(StepGraphs, "_capture", capture)
    return made


@pytest.mark.few(2)
@pytest.mark.parametrize("cache_bytes", [None, 4e6])
async def test_episodes_are_the_same_with_graphs_and_without(
    captured_policy: TinyPolicy,
    tmp_path: Path,
    cache_bytes: float | None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens that are sampled ahead and fall behind an end leave no trace: neither in the cache nor in later draws.

    Nor does it matter whether rows are read to the end of the longest, or to their own.
    """
    store, calls = MediaStore(tmp_path / "media"), list[int]()

    def counted(query: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
        calls.append(len(query))
        return rows_kernel(query, *args, **more)

    plain = await rolled(captured_policy, store, cache_bytes=cache_bytes)
    captured: list[Replayed] = request.getfixturevalue("captured")
    replayed = await rolled(captured_policy, store, cache_bytes=cache_bytes)
    assert 0 < len(captured) < 10
    assert sum(one.count for one in captured) > 20
    same(plain, replayed)
    if captured_policy.checkpoint.family.attention == "full":
        monkeypatch.setattr(sequences, "can_attend_own", lambda *about: True)
        monkeypatch.setattr(caches, "varlen_kernel", lambda *wanted: counted)
        same(plain, await rolled(captured_policy, store, cache_bytes=cache_bytes))
        assert len(calls) > 20
        assert captured_policy.checkpoint.model.model.language_model.config._attn_implementation == "sdpa"


def same(episodes: list[TokenTrajectory], others: list[TokenTrajectory]) -> None:
    for one, other in zip(episodes, others, strict=True):
        assert one.ids().tolist() == other.ids().tolist()
        np.testing.assert_allclose(one.logprobs(), other.logprobs(), atol=3e-5)


def rows_kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor, starts: torch.Tensor, most: int,
    most_keys: int, *, scale: float | None, enable_gqa: bool, seqused_k: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """What torch's kernel computes, by its documentation, of one query (heads, size) for each row."""
    assert (most, ends.tolist(), ends.dtype) == (1, [*range(len(query) + 1)], torch.int32)
    assert (starts[-1], seqused_k.dtype) == (len(key), torch.int32)
    shared = query.shape[1] // key.shape[1]
    assert enable_gqa == (shared > 1)
    found = []
    for own, start, used in zip(query, starts.tolist(), seqused_k.tolist(), strict=False):
        assert 0 < used <= most_keys
        keys, values = (tensor[start : start + used].repeat_interleave(shared, dim=1) for tensor in (key, value))
        scores = torch.einsum("hd,khd->hk", own, keys) * (scale or own.shape[-1] ** -0.5)
        found.append(torch.einsum("hk,khd->hd", scores.softmax(-1), values))
    return torch.stack(found)


@pytest.mark.parametrize("fault", ["", "results differ by", "no kernel image"])
def test_a_kernel_that_gives_other_numbers_is_not_used(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def kernel(*args: Any, **more: Any) -> torch.Tensor:
        if fault == "no kernel image":
            raise RuntimeError("no kernel image is available\nmore")
        if fault:  # reads the place behind a row too
            more["seqused_k"] = (more["seqused_k"] + 1).clamp(max=640)
        return rows_kernel(*args, **more)

    monkeypatch.setattr(caches, "varlen_kernel", lambda *wanted: kernel)
    caches.own_is_right.cache_clear()
    assert caches.own_is_right(4, 2, 8, torch.device("cpu"), torch.bfloat16) == (not fault)
    assert fault in caplog.text
    assert len(caplog.records) == bool(fault)
    caches.own_is_right.cache_clear()


async def test_nothing_of_a_batch_is_left_when_its_episodes_are_over(
    qwen: TinyPolicy, store: MediaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without the garbage collector, which would come too late: an update needs the memory at once."""
    monkeypatch.setattr(sequences, "can_capture", lambda device, checkpoint: True)
    monkeypatch.setattr(StepGraphs, "_capture", lambda *args: None)
    engine = TransformersEngine(qwen, store)
    made: list[weakref.ref[RaggedCache]] = []

    def watched(*args: Any) -> Any:
        batch = make_batch(*args)
        made.append(weakref.ref(batch._cache))
        return batch

    make_batch = engine.make_batch
    monkeypatch.setattr(engine, "make_batch", watched)
    gc.disable()
    try:
        slots = engine.slots([1, 2])
        ask = TurnRequest(plain(qwen, "Say it."), max_tokens=20)
        await asyncio.gather(*(slot.generate(ask) for slot in slots))
        assert made[0]() is not None
        for slot in slots:
            slot.release()
        assert made[0]() is None
    finally:
        gc.enable()
        await engine.close()


def test_graphs_of_buffers_that_were_replaced_are_given_up_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch has it: memory is gone with the last graph in it, and no other graph can be captured there."""
    pools = iter([(0, 1), (0, 2)])
    taken: list[object] = []

    def capture(graph: object, pool: object, **more: object) -> nullcontext[None]:
        taken.append(pool)
        return nullcontext()

    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: next(pools))
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
    monkeypatch.setattr("torch.cuda.graph", capture)
    cache = RaggedCache(2)
    graphs = StepGraphs(cache, torch.zeros(3, dtype=torch.bool))
    draws = Draws([1.0, 0.0], [[0.5] * 4] * 2)
    for _ in range(35):  # past the first 128 places, where buffers are made longer
        graphs(
            lambda ids, positions, lengths, end: torch.zeros(len(ids), 3),
            torch.zeros(2, 1, dtype=torch.int64),
            torch.zeros(1, 2, 1, dtype=torch.int64),
            draws,
        )
    assert taken == [(0, 1), (0, 2)]
    assert cache.lengths == [140, 140]


def test_a_row_beyond_those_that_are_read_keeps_its_last_place() -> None:
    cache = RaggedCache(4)
    cache.lengths = [5, 6, 7, 128]  # as long as the buffers are
    assert cache.step_shape(3, 1) == (3, 128)
    cache.lengths[3] = 127
    assert cache.step_shape(3, 1) == (4, 128)
    assert cache.step_shape(3, 2) == (3, 128)


@pytest.mark.few(1)
async def test_a_pass_that_cannot_be_captured_is_said_and_run(
    captured_policy: TinyPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MediaStore(tmp_path / "media")
    plain = await rolled(captured_policy, store)
    monkeypatch.setattr(sequences, "can_capture", lambda device, checkpoint: True)

    def refuse(*args: object, **more: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: None)
    monkeypatch.setattr("torch.cuda.graph", refuse)
    assert [one.ids().tolist() for one in await rolled(captured_policy, store)] == [one.ids().tolist() for one in plain]
    assert [record.getMessage() for record in caplog.records] == [
        "decoding goes on without CUDA graphs, which is slower: a pass was not captured: "
        "operation not permitted when stream is capturing"
    ]
