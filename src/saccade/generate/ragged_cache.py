"""Keys and values of sequences of different lengths, one buffer for all: row `i` holds its first `lengths[i]` places.

Rows are written where they end, so there is no padding inside; what lies beyond a row's end is masked. Rows that
are read together are the first ones, so that decoding reads views and copies nothing. Stands in for transformers'
`Cache` in a forward pass with explicit positions and an explicit mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_BLOCK = 128
"""Places by which buffers grow."""


class RaggedCache:
    """For one model; `begin` says what the next forward pass writes."""

    is_compileable = False

    def __init__(self, rows: int) -> None:
        """`rows` sequences, all empty."""
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._room = _BLOCK
        self.lengths = [0] * rows
        self._rows: Sequence[int] = ()
        self._counts: Sequence[int] = ()
        self._end = 0
        self._at: torch.Tensor | None = None

    def add_row(self) -> None:
        """One more row, empty."""
        self.lengths.append(0)
        for buffers in (self._keys, self._values):
            for number, old in enumerate(buffers):
                buffers[number] = torch.cat([old, old.new_zeros((1, *old.shape[1:]))])

    def begin(self, rows: Sequence[int], counts: Sequence[int], device: torch.device, dtype: torch.dtype) -> Any:
        """The mask (rows, 1, queries, places) of a pass that appends `counts[i]` places to row `rows[i]`.

        Added to attention scores: 0 where a query sees a place, the lowest number of `dtype` where not.
        """
        self._rows, self._counts = rows, counts
        starts = [self.lengths[row] for row in rows]
        self._end = max(start + count for start, count in zip(starts, counts, strict=True))
        self._grow()
        start = torch.tensor(starts, device=device)
        single = max(counts) == 1 and list(rows) == list(range(len(rows)))
        self._at = start if single else None
        last = start[:, None] + torch.arange(max(counts), device=device)
        seen = torch.arange(self._end, device=device) <= last[..., None]
        mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, torch.finfo(dtype).min)
        return mask[:, None]

    def end(self) -> None:
        """The pass is over: rows have grown."""
        for row, count in zip(self._rows, self._counts, strict=True):
            self.lengths[row] += count

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (rows, heads, queries, size) behind the rows; keys and values (rows, heads, places, size) to read."""
        if layer_idx == len(self._keys):
            heads, size = key_states.shape[1], key_states.shape[3]
            shape = (len(self.lengths), heads, self._room, size)
            self._keys.append(key_states.new_zeros(shape))
            self._values.append(value_states.new_zeros(shape))
        return self._written(self._keys[layer_idx], key_states), self._written(self._values[layer_idx], value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Places of the longest row."""
        return max(self.lengths, default=0)

    def swap(self, one: int, other: int) -> None:
        """Rows change places."""
        if one == other:
            return
        end = max(self.lengths[one], self.lengths[other])
        for buffer in (*self._keys, *self._values):
            kept = buffer[one, :, :end].clone()
            buffer[one, :, :end] = buffer[other, :, :end]
            buffer[other, :, :end] = kept
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def copy(self, source: int, target: int) -> None:
        """`target` becomes what `source` is."""
        end = self.lengths[source]
        for buffer in (*self._keys, *self._values):
            buffer[target, :, :end] = buffer[source, :, :end]
        self.lengths[target] = end

    def _written(self, buffer: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        if self._at is not None:
            count = len(self._rows)
            buffer[torch.arange(count, device=buffer.device), :, self._at] = states[:, :, 0]
            return buffer[:count, :, : self._end]
        for place, (row, count) in enumerate(zip(self._rows, self._counts, strict=True)):
            start = self.lengths[row]
            buffer[row, :, start : start + count] = states[place, :, :count]
        return buffer[list(self._rows), :, : self._end]

    def _grow(self) -> None:
        if self._end <= self._room:
            return
        self._room = -(-max(self._end, self._room * 3 // 2) // _BLOCK) * _BLOCK
        for buffers in (self._keys, self._values):
            for number, old in enumerate(buffers):
                rows, heads, places, size = old.shape
                buffers[number] = old.new_zeros((rows, heads, self._room, size))
                buffers[number][:, :, :places] = old
