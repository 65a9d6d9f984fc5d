"""A cache for models of which some layers keep a state in place of keys and values (linear attention).

A state holds all that was read and cannot be cut: a row is continued as it is, or read again. Rows that are read are
read alone, each to its own end; then they decode together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from saccade.generate.ragged_cache import RaggedCache


class StateCache(RaggedCache):
    """Stands in for transformers' `Cache` in layers of both kinds."""

    def __init__(self, rows: int, most_places: int | None = None) -> None:
        """As `RaggedCache`; states have no length, and one for each row that is held."""
        super().__init__(rows, most_places)
        self._windows: dict[int, torch.Tensor] = {}
        """Layer -> (rows, channels, tokens): what the convolution has seen last."""
        self._states: dict[int, torch.Tensor] = {}
        """Layer -> (rows, heads, keys, values)."""
        self._continues = False
        self._read = slice(0, 0)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(int(buffer.nbytes) for buffer in self._kept())

    def reserve(self, rows: int, end: int) -> list[int]:
        lost = super().reserve(rows, end)
        for buffers in (self._windows, self._states):
            for layer, old in buffers.items():
                if len(old) != self.held:
                    buffers[layer] = old.new_zeros((self.held, *old.shape[1:]))
                    buffers[layer][: len(old)] = old[: self.held]
        return lost

    def add_row(self) -> None:
        super().add_row()
        for buffers in (self._windows, self._states):
            for layer, old in buffers.items():
                buffers[layer] = torch.cat([old, old.new_zeros((1, *old.shape[1:]))])

    def begin(self, rows: Sequence[int], counts: Sequence[int], device: torch.device, dtype: torch.dtype) -> Any:
        """As `RaggedCache.begin`, for one row, or one token for each of the first rows."""
        mask = super().begin(rows, counts, device, dtype)
        if len(rows) > 1 and (max(counts) > 1 or list(rows) != list(range(len(rows)))):
            raise RuntimeError("rows with states are read one at a time")
        self._read = slice(rows[0], rows[0] + len(rows))
        self._continues = self.lengths[rows[0]] > 0
        return mask

    def swap(self, one: int, other: int) -> None:
        super().swap(one, other)
        if one != other and max(one, other) < self.held:
            for buffer in self._kept():
                buffer[[one, other]] = buffer[[other, one]]

    def copy(self, source: int, target: int) -> None:
        super().copy(source, target)
        for buffer in self._kept():
            buffer[target] = buffer[source]

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """The window of the rows that are read, which the caller may move on in place; None at their beginning."""
        return self._windows[layer_idx][self._read] if self._continues else None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """The states of the rows that are read; None at their beginning."""
        return self._states[layer_idx][self._read] if self._continues else None

    def is_recording_past(self, layer_idx: int) -> bool:
        """Never."""
        return False

    def update_conv_state(
        self, conv_states: torch.Tensor, layer_idx: int, *, conv_kernel_size: int, **kwargs: Any
    ) -> torch.Tensor:
        """(rows, channels, tokens) behind what was there; both together, and at least the kernel's size of them."""
        if self._continues:
            states = torch.cat([self._windows[layer_idx][self._read].to(conv_states.dtype), conv_states], dim=-1)
        else:
            missing = max(0, conv_kernel_size - conv_states.shape[-1])
            states = torch.nn.functional.pad(conv_states, (missing, 0))
        self._keep(self._windows, layer_idx, states[..., -conv_kernel_size:])
        return states

    def update_recurrent_state(self, recurrent_states: torch.Tensor, layer_idx: int, **kwargs: Any) -> torch.Tensor:
        """(rows, heads, keys, values) in the place of what was there."""
        self._keep(self._states, layer_idx, recurrent_states)
        return recurrent_states

    def _keep(self, buffers: dict[int, torch.Tensor], layer: int, values: torch.Tensor) -> None:
        if layer not in buffers:
            buffers[layer] = values.new_zeros((self.held, *values.shape[1:]))
        buffers[layer][self._read] = values.to(buffers[layer].dtype)

    def _kept(self) -> Iterator[torch.Tensor]:
        yield from self._windows.values()
        yield from self._states.values()
