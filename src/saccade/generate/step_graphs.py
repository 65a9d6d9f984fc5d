"""Decoding by CUDA graphs: all kernels of a pass that reads one token of each row start at once.

Such a pass is thousands of small kernels, and Python takes longer to start them than a GPU takes to run them. A graph
of them is captured for each shape that comes again, and replayed with the ids, positions and lengths of the next
tokens. Rows are filled up to a few shapes: what the others read is thrown away, and no row is longer for it.

Weights and what is cached must stay where they are while graphs of them are used, so each cache has graphs of its own.
Imports torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from saccade.generate.ragged_cache import RaggedCache
from saccade.models.families.base import ModelFamily

_log = logging.getLogger(__name__)

_CAPTURED = frozenset({"qwen2_5_vl", "qwen3_vl", "internvl", "glm4v", "glm46v", "gemma4"})
"""Families of which a GPU has captured passes. Experts are chosen by the host, which no graph can hold."""

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]
"""(ids (rows, 1), positions (axes, rows, 1), lengths of the rows, places) -> logits (rows, vocabulary)."""


def can_capture(device: torch.device, family: ModelFamily) -> bool:
    """Whether decoding is captured: on a GPU, by a process that trains alone; divided weights come and go."""
    return device.type == "cuda" and family.model_type in _CAPTURED and not torch.distributed.is_initialized()


@dataclass
class _Captured:
    """One shape: what a pass over it is given, and the graph that was made of it."""

    ids: torch.Tensor
    positions: torch.Tensor
    lengths: torch.Tensor
    logits: torch.Tensor | None = None
    graph: torch.cuda.CUDAGraph | None = None


class StepGraphs:
    """The passes of one cache."""

    def __init__(self, cache: RaggedCache, step: Step, device: torch.device) -> None:
        self._cache = cache
        self._step = step
        self._device = device
        self._shapes: dict[tuple[int, int], _Captured] = {}
        self._moves = cache.moves
        self._pool: tuple[int, int] | None = None
        """Memory that all graphs share: one is replayed at a time."""
        self._works = True

    def __call__(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits of one token of each of the first rows, which are longer by it then.

        Args:
            ids: int64 (count, 1).
            positions: int64 (axes, count, 1).
        """
        count = len(ids)
        rows, end = self._cache.step_shape(count)
        if self._cache.moves != self._moves:
            self._shapes.clear()
            self._pool, self._moves = None, self._cache.moves  # torch gives up the memory with its last graph
        known = self._shapes.get((rows, end))
        one = known or self._empty(rows, len(positions))
        one.ids[:count].copy_(ids)
        one.positions[:, :count].copy_(positions)
        one.lengths.copy_(torch.tensor(self._cache.lengths[:rows]))
        if known is None:  # the first pass is not captured: it makes what libraries make once
            self._shapes[rows, end] = one
            logits = self._step(one.ids, one.positions, one.lengths, end)
        else:
            logits = self._replayed(one, end)
        self._cache.grow(count)
        return logits[:count]

    def _replayed(self, one: _Captured, end: int) -> torch.Tensor:
        if one.graph is None and self._works:
            self._capture(one, end)
        if one.graph is None or one.logits is None:
            return self._step(one.ids, one.positions, one.lengths, end)
        one.graph.replay()
        return one.logits

    def _capture(self, one: _Captured, end: int) -> None:
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                one.logits = self._step(one.ids, one.positions, one.lengths, end)
        except RuntimeError as error:
            self._works = False
            reason = str(error).splitlines()[0]
            _log.warning("decoding goes on without CUDA graphs, which is slower: a pass was not captured: %s", reason)
            return
        one.graph = graph

    def _empty(self, rows: int, axes: int) -> _Captured:
        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=self._device)

        return _Captured(zeros(rows, 1), zeros(axes, rows, 1), zeros(rows))
