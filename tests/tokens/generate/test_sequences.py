"""What a captured pass is given and what it leaves, on a CPU: in the place of a graph the pass itself is run again."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.tiny import tiny_folder
from tests.training.rl.engines.talking import conversations, episode
from tests.training.rl.policies import TinyPolicy, policy

from saccade.media.store import MediaStore
from saccade.models.families.known import FAMILIES
from saccade.tokens import sequences
from saccade.tokens import sequences as step_graphs
from saccade.tokens.caches import RaggedCache
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.segments import TokenTrajectory
from saccade.tokens.sequences import StepGraphs


@pytest.fixture(scope="module", params=sorted(step_graphs._CAPTURED))
def made(request: pytest.FixtureRequest) -> TinyPolicy:
    return policy(tiny_folder(request.param))


async def rolled(made: TinyPolicy, store: MediaStore, cache_bytes: float | None = None) -> list[TokenTrajectory]:
    engine = TransformersEngine(made, store, cache_bytes=cache_bytes)
    shown = conversations(store)
    slots = engine.slots(range(len(shown)))
    try:
        async with asyncio.timeout(60):
            pairs = zip(slots, shown, strict=True)
            return list(
                await asyncio.gather(
                    *(episode(slot, made, parts, 0.8, 9 + 4 * n) for n, (slot, parts) in enumerate(pairs))
                )
            )
    finally:
        await engine.close()


class Replayed:
    """Runs a pass over the tensors that it was captured with, into the same logits."""

    def __init__(self, graphs: StepGraphs, one: step_graphs._Captured, end: int) -> None:
        self.count = 0
        self._made = lambda: graphs._step(one.ids, one.positions, one.lengths, end)
        self.logits = one.logits = torch.full_like(self._made(), torch.nan)

    def replay(self) -> None:
        self.count += 1
        self.logits.copy_(self._made())


@pytest.mark.few(2)
@pytest.mark.parametrize("cache_bytes", [None, 4e6])
async def test_episodes_are_the_same_with_graphs_and_without(
    made: TinyPolicy, tmp_path: Path, cache_bytes: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MediaStore(tmp_path / "media")
    plain = await rolled(made, store, cache_bytes)
    captured: list[Replayed] = []

    def capture(graphs: StepGraphs, one: step_graphs._Captured, end: int) -> None:
        captured.append(Replayed(graphs, one, end))
        one.graph = captured[-1]  # type: ignore[assignment]

    monkeypatch.setattr(sequences, "can_capture", lambda device, family: True)
    monkeypatch.setattr(StepGraphs, "_capture", capture)
    replayed = await rolled(made, store, cache_bytes)
    assert 0 < len(captured) < 10
    assert sum(one.count for one in captured) > 20
    for one, other in zip(plain, replayed, strict=True):
        assert one.ids().tolist() == other.ids().tolist()
        np.testing.assert_allclose(one.logprobs(), other.logprobs(), atol=3e-5)


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
    graphs = StepGraphs(cache, lambda ids, positions, lengths, end: torch.zeros(len(ids), 3), torch.device("cpu"))
    for _ in range(140):  # past the first 128 places, where buffers are made longer
        graphs(torch.zeros(2, 1, dtype=torch.int64), torch.zeros(1, 2, 1, dtype=torch.int64))
    assert taken == [(0, 1), (0, 2)]
    assert cache.lengths == [140, 140]


def test_few_shapes_are_read_and_none_is_much_too_large() -> None:
    cache = RaggedCache(300)
    shapes = set()
    for length in range(0, 40_000, 37):
        cache.lengths = [length] * 300
        count = 300 - length // 140
        rows, end = cache.step_shape(count)
        assert count <= rows <= 300
        assert length < end <= 1.25 * max(length + 1, 1024)
        shapes.add((rows, end))
    assert len(shapes) < 80


def test_a_row_beyond_those_that_are_read_keeps_its_last_place() -> None:
    cache = RaggedCache(4)
    cache.lengths = [5, 6, 7, 128]  # as long as the buffers are
    assert cache.step_shape(3) == (3, 128)
    cache.lengths[3] = 127
    assert cache.step_shape(3) == (4, 128)


def test_who_is_captured() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert step_graphs.can_capture(gpu, FAMILIES["qwen2_5_vl"])
    assert not step_graphs.can_capture(cpu, FAMILIES["qwen2_5_vl"])
    assert not step_graphs.can_capture(gpu, FAMILIES["qwen3_vl_moe"])
    assert not step_graphs.can_capture(gpu, FAMILIES["qwen3_5"])
    assert FAMILIES.keys() >= step_graphs._CAPTURED


@pytest.mark.few(1)
async def test_a_pass_that_cannot_be_captured_is_said_and_run(
    made: TinyPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = MediaStore(tmp_path / "media")
    plain = await rolled(made, store)
    monkeypatch.setattr(sequences, "can_capture", lambda device, family: True)

    def refuse(*args: object, **more: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr("torch.cuda.graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: None)
    monkeypatch.setattr("torch.cuda.graph", refuse)
    assert [one.ids().tolist() for one in await rolled(made, store)] == [one.ids().tolist() for one in plain]
    assert [record.getMessage() for record in caplog.records] == [
        "decoding goes on without CUDA graphs, which is slower: a pass was not captured: "
        "operation not permitted when stream is capturing"
    ]
