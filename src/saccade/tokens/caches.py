"""Cache keys and values of sequences of different lengths in one buffer: row `i` holds its first `lengths[i]` places.

Rows are written at their ends, so there is no padding inside; places after the end are masked, or not read at all
(`attend_own`). Rows that are read together come first, so decoding reads views without copies. Where memory is bounded
only the first rows have a place in the buffers, fewer as rows grow. Used as transformers' `Cache` with explicit
positions and mask.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from saccade.models.families.base import ModelFamily

_log = logging.getLogger(__name__)

_BLOCK = 128
"""Places by which buffers grow."""
_STEP_ROWS, _STEP_PLACES = 8, 256
"""Rows and places of `step_shape` are multiples of these, or of more where there are many."""


def cache_argument(model: torch.nn.Module) -> str:
    """Return the name of `forward`'s cache argument: `cache` since transformers 5.24, before it `past_key_values`."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


class RaggedCache:
    """For one model; `begin` says what the next forward pass writes."""

    is_compileable = False

    def __init__(self, rows: int, most_places: int | None = None) -> None:
        """`rows` sequences, all empty; buffers of at most `most_places` tokens, None for no limit."""
        self._keys: dict[int, torch.Tensor] = {}
        """Layer -> (rows, places, heads, size)."""
        self._values: dict[int, torch.Tensor] = {}
        self.own = False
        """Whether passes of `begin_step` attend by `attend_own`."""
        self._most = most_places
        self._room = _BLOCK
        self.lengths = [0] * rows
        self.held = rows if most_places is None else min(rows, most_places // _BLOCK)
        """Rows that have a place, the first ones; the others are empty."""
        self.moves = 0
        """How often buffers were replaced."""
        self._rows: Sequence[int] = ()
        self._counts: Sequence[int] = ()
        self._end = 0
        self._at: tuple[torch.Tensor, torch.Tensor] | None = None
        """Of a pass over one token of each of the first rows: their numbers, and the places to write."""
        self._dtype = torch.float32

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(int(buffer.nbytes) for buffer in self._buffers())

    def fits(self, rows: int, end: int) -> bool:
        """Return whether `rows` rows of `end` places can be held at once."""
        return self._most is None or rows * _rounded(end) <= self._most

    def reserve(self, rows: int, end: int) -> list[int]:
        """Make room for `end` places in each of the first `rows` rows, which fit; return those that lost theirs."""
        if end <= self._room and rows <= self.held:
            return []
        room = _rounded(max(end, self._room * 3 // 2)) if end > self._room else _rounded(end)
        if not self.fits(rows, room):
            room = _rounded(end)
        self._room = room
        self.held = len(self.lengths) if self._most is None else min(len(self.lengths), self._most // room)
        lost = [row for row, length in enumerate(self.lengths) if length > (room if row < self.held else 0)]
        for row in lost:
            self.lengths[row] = 0
        self.moves += 1
        for buffers in (self._keys, self._values):
            for layer, old in buffers.items():
                kept, places = min(self.held, old.shape[0]), min(room, old.shape[1])
                buffers[layer] = old.new_zeros((self.held, room, *old.shape[2:]))
                buffers[layer][:kept, :places] = old[:kept, :places]
        return lost

    def add_row(self) -> None:
        """Add an empty row; for a cache without a limit."""
        self.lengths.append(0)
        self.held += 1
        self.moves += 1
        for buffers in (self._keys, self._values):
            for layer, old in buffers.items():
                buffers[layer] = torch.cat([old, old.new_zeros((1, *old.shape[1:]))])

    def begin(self, rows: Sequence[int], counts: Sequence[int], device: torch.device, dtype: torch.dtype) -> Any:
        """Begin a pass that appends `counts[i]` places to row `rows[i]`; return its mask (rows, 1, queries, places).

        Added to attention scores: 0 where a query sees a place, the lowest number of `dtype` where not.
        """
        self._rows, self._counts, self._dtype = rows, counts, dtype
        starts = [self.lengths[row] for row in rows]
        self._end = max(start + count for start, count in zip(starts, counts, strict=True))
        self.reserve(max(rows) + 1, self._end)
        start = torch.tensor(starts, device=device)
        single = max(counts) == 1 and list(rows) == list(range(len(rows)))
        self._at = (torch.arange(len(rows), device=device), start) if single else None
        return self._mask(start, max(counts))

    def step_shape(self, count: int, steps: int) -> tuple[int, int]:
        """Return rows and places with which `begin_step` can read `steps` tokens of each of the first `count` rows.

        Only where buffers are there already; they are made longer where so many tokens do not fit.
        """
        self.reserve(count, max(self.lengths[:count]) + steps)
        rows = min(self.held, _coarse(count, _STEP_ROWS))
        if max(self.lengths[:rows]) + steps > self._room:  # of a row beyond those that are read: no place to spoil
            rows = count
        end = max(self.lengths[:rows]) + steps
        return rows, self._room if self.own else min(self._room, _coarse(end, _STEP_PLACES))

    def begin_step(self, starts: torch.Tensor, end: int, dtype: torch.dtype) -> Any:
        """Begin like `begin`, for one token of each of the first rows, over `end` places; everything is on the device.

        Rows do not grow by it: see `grow`. `starts` (rows,) are their lengths. For `attend_own` the mask is int32
        (rows, 1, 1, 1): how many places each row has.
        """
        self._rows, self._dtype, self._end = range(len(starts)), dtype, end
        self._at = torch.arange(len(starts), device=starts.device), starts
        return (starts + 1).int().view(-1, 1, 1, 1) if self.own else self._mask(starts, 1)

    def grow(self, count: int, places: int) -> None:
        """Add `places` to the first `count` rows."""
        for row in range(count):
            self.lengths[row] += places

    def _mask(self, starts: torch.Tensor, queries: int) -> torch.Tensor:
        last = starts[:, None] + torch.arange(queries, device=starts.device)
        seen = torch.arange(self._end, device=starts.device) <= last[..., None]
        mask = torch.zeros(seen.shape, dtype=self._dtype, device=starts.device)
        return mask.masked_fill_(~seen, torch.finfo(self._dtype).min)[:, None]

    def end(self) -> None:
        for row, count in zip(self._rows, self._counts, strict=True):
            self.lengths[row] += count

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (rows, heads, queries, size) behind the rows; keys and values (rows, heads, places, size) to read."""
        if layer_idx not in self._keys:
            heads, size = key_states.shape[1], key_states.shape[3]
            shape = (self.held, self._room, heads, size)
            self._keys[layer_idx] = key_states.new_zeros(shape, dtype=self._dtype)
            self._values[layer_idx] = value_states.new_zeros(shape, dtype=self._dtype)
        return self._written(self._keys[layer_idx], key_states), self._written(self._values[layer_idx], value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return max(self.lengths, default=0)

    def swap(self, one: int, other: int) -> None:
        """Swap two rows, both held or empty."""
        if one == other or max(one, other) >= self.held:
            return
        end = max(self.lengths[one], self.lengths[other])
        for buffer in self._buffers():
            kept = buffer[one, :end].clone()
            buffer[one, :end] = buffer[other, :end]
            buffer[other, :end] = kept
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def copy(self, source: int, target: int) -> None:
        end = self.lengths[source]
        for buffer in self._buffers():
            buffer[target, :end] = buffer[source, :end]
        self.lengths[target] = end

    def _buffers(self) -> Iterator[torch.Tensor]:
        yield from self._keys.values()
        yield from self._values.values()

    def _written(self, buffer: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        if self._at is not None:
            rows, places = self._at
            buffer[rows, places] = states[:, :, 0].to(buffer.dtype)
            return buffer[: len(rows), : self._end].transpose(1, 2)
        for place, (row, count) in enumerate(zip(self._rows, self._counts, strict=True)):
            start = self.lengths[row]
            buffer[row, start : start + count] = states[place, :, :count].transpose(0, 1)
        return buffer[list(self._rows), : self._end].transpose(1, 2)


def _rounded(places: int) -> int:
    return -(-places // _BLOCK) * _BLOCK


def _coarse(number: int, least: int) -> int:
    """Round `number` up, such that few remain: multiples of `least`, then four from each number to twice it."""
    block = max(least, 1 << max(0, number.bit_length() - 3))
    return -(-number // block) * block


def row_bytes(tokens: int, bytes_per_token: int) -> int:
    """Return the bytes of a row of `tokens`."""
    return _rounded(tokens) * bytes_per_token


_OWN = "saccade_own"
"""The name of `attend_own` for transformers."""
_TOLD = ("scale", "enable_gqa", "seqused_k")
_CLOSE = 0.05
"""Largest difference of values around 1 in bfloat16 that rounding explains."""


def attend_own(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with one query of each row to the places of that row, by torch's kernel for rows of several lengths.

    A mask lets every row read as many places as the longest has. Here those are read that a row has, and the kernel
    divides a long row among several multiprocessors, of which rows and heads alone would keep few busy.

    Arguments are transformers': `query` (rows, heads, 1, size); `key` and `value` (rows, heads or fewer, places, size)
    with whole buffers behind them; `attention_mask` int32 (rows, 1, 1, 1), of `begin_step`. Returns (rows, 1, heads,
    size), and None.
    """
    kernel = varlen_kernel(*_TOLD)
    rows, places = key.shape[0], key.shape[2]
    numbers = torch.arange(rows + 1, dtype=torch.int32, device=key.device)
    found: torch.Tensor = kernel(
        query[:, :, 0].to(key.dtype),
        *(buffer.transpose(1, 2).flatten(0, 1) for buffer in (key, value)),
        numbers,
        numbers * places,
        1,
        places,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
        seqused_k=attention_mask.flatten(),
    )
    return found[:, None], None


@contextmanager
def attending_own(language_model: Any) -> Iterator[None]:
    """Let the layers of a language model attend by `attend_own` in this block."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_OWN, attend_own)
    AttentionMaskInterface.register(_OWN, sdpa_mask)
    config = language_model.config
    before, config._attn_implementation = config._attn_implementation, _OWN
    try:
        yield
    finally:
        config._attn_implementation = before


@cache
def varlen_kernel(*wanted: str) -> Any:
    """Return torch's attention over sequences of several lengths; None where it takes not all of `wanted`."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if set(wanted) <= inspect.signature(varlen_attn).parameters.keys() else None


def can_attend_own(config: Any, family: ModelFamily, device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether decoding can attend by `attend_own`: on a GPU, where the kernel gives what a mask gives."""
    if device.type != "cuda" or varlen_kernel(*_TOLD) is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    if family.attention != "full" or dtype not in (torch.bfloat16, torch.float16):
        return False
    text = config.get_text_config()
    size = head_size(text)
    if size % 8 or size > 256 or text._attn_implementation not in ("sdpa", "saccade_flash"):  # others a user chose
        return False
    return own_is_right(text.num_attention_heads, text.num_key_value_heads, size, device, dtype)


@cache
def own_is_right(heads: int, others: int, size: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Try `attend_own` on a cache of four rows, also as a CUDA graph, against masks; say so where it is of no use."""
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (
        torch.randn(shape, generator=generator).to(device, dtype)
        for shape in ((4, heads, 1, size), (4, 640, others, size), (4, 640, others, size))
    )
    lengths = torch.tensor([1, 17, 300, 640], dtype=torch.int32, device=device)
    keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    mask = (torch.arange(640, device=device) < lengths[:, None])[:, None, None]
    try:
        found = _captured(lambda: attend_own(None, queries, keys, values, lengths.view(-1, 1, 1, 1))[0])
    except (RuntimeError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0]
    else:
        every = (tensor.float().repeat_interleave(heads // others, dim=1) for tensor in (keys, values))
        wanted = torch.nn.functional.scaled_dot_product_attention(queries.float(), *every, attn_mask=mask)
        apart = float((found.float() - wanted.transpose(1, 2)).abs().max())
        if apart <= _CLOSE:
            return True
        why = f"results differ by {apart:.2g}"
    _log.warning("Decoding reads every row to the end of the longest: torch's kernel for rows is of no use: %s.", why)
    return False


def _captured(work: Callable[[], torch.Tensor]) -> torch.Tensor:
    found = work()
    if found.device.type == "cuda":
        torch.cuda.synchronize(found.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            found = work()
        graph.replay()
        return found.clone()  # before the graph goes, and its memory with it
    return found


class StateCache(RaggedCache):
    """A cache for models in which some layers keep a state in place of keys and values (linear attention).

    A state cannot be cut: a row is continued as it is, or read again. Rows are read one by one, then decode together.
    """

    def __init__(self, rows: int, most_places: int | None = None) -> None:
        """Make room like `RaggedCache`; states have no length, and there is one for each row that is held."""
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
        """Begin like `RaggedCache.begin`, for one row, or one token for each of the first rows."""
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
        """Return the window of the rows that are read, open to changes; None at their beginning."""
        return self._windows[layer_idx][self._read] if self._continues else None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """Return the states of the rows that are read; None at their beginning."""
        return self._states[layer_idx][self._read] if self._continues else None

    def is_recording_past(self, layer_idx: int) -> bool:
        """Return False: nothing of it can be recorded."""
        return False

    def update_conv_state(
        self, conv_states: torch.Tensor, layer_idx: int, *, conv_kernel_size: int, **kwargs: Any
    ) -> torch.Tensor:
        """Put (rows, channels, tokens) behind what was there; both together, and at least the kernel's size of them."""
        if self._continues:
            states = torch.cat([self._windows[layer_idx][self._read].to(conv_states.dtype), conv_states], dim=-1)
        else:
            missing = max(0, conv_kernel_size - conv_states.shape[-1])
            states = torch.nn.functional.pad(conv_states, (missing, 0))
        self._keep(self._windows, layer_idx, states[..., -conv_kernel_size:])
        return states

    def update_recurrent_state(self, recurrent_states: torch.Tensor, layer_idx: int, **kwargs: Any) -> torch.Tensor:
        """Return (rows, heads, keys, values) in place of what was there."""
        self._keep(self._states, layer_idx, recurrent_states)
        return recurrent_states

    def _keep(self, buffers: dict[int, torch.Tensor], layer: int, values: torch.Tensor) -> None:
        if layer not in buffers:
            buffers[layer] = values.new_zeros((self.held, *values.shape[1:]))
        buffers[layer][self._read] = values.to(buffers[layer].dtype)

    def _kept(self) -> Iterator[torch.Tensor]:
        yield from self._windows.values()
        yield from self._states.values()


def layer_masks(
    full: torch.Tensor, starts: torch.Tensor, visual: torch.Tensor | None, family: ModelFamily, config: Any
) -> Any:
    """Return the argument `attention_mask` of a pass.

    Args:
        full: (rows, 1, queries, places), 0 where a query sees a place, the lowest number where not: plain causal.
        starts: int64 (rows,): the place of each row's first query.
        visual: bool (rows, queries): tokens of pictures; None where there are none.
        family: how its layers see.
        config: the checkpoint's.
    """
    if family.attention == "recurrent":
        return {"full_attention": full, "linear_attention": None}
    if family.attention == "full":
        return full
    text = config.get_text_config()
    places = torch.arange(full.shape[-1], device=full.device)
    at = starts[:, None] + torch.arange(full.shape[-2], device=full.device)
    seen = places <= at[..., None]
    if visual is not None and text.use_bidirectional_attention == "vision":
        seen |= _same_picture(visual, at, len(places))
    seen &= places > at[..., None] - text.sliding_window
    hidden = torch.finfo(full.dtype).min
    return {"full_attention": full, "sliding_attention": torch.zeros_like(full).masked_fill_(~seen[:, None], hidden)}


def _same_picture(visual: torch.Tensor, at: torch.Tensor, places: int) -> torch.Tensor:
    """Return bool (rows, queries, places): both within one run of visual tokens."""
    begins = visual & ~torch.nn.functional.pad(visual, (1, 0))[:, :-1]
    number = torch.where(visual, begins.cumsum(-1), 0)
    of_places = torch.zeros((len(visual), places + visual.shape[1]), dtype=number.dtype, device=number.device)
    of_places.scatter_(1, at, number)  # padding behind the longest row falls off the end
    return visual[..., None] & (number[..., None] == of_places[:, None, :places])


GIB = 2**30


def cache_bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """Return bytes of the keys and values of one token in all layers of a transformers configuration's language model.

    Layers that keep a state, or read the keys and values of another layer, have none of their own.
    """
    text = config.get_text_config()
    return int(2 * bytes_per_number * sum(_numbers(text, layer) for layer in _layers(text)))


def state_bytes(config: Any, bytes_per_number: int) -> int:
    """Return the bytes that layers of linear attention keep of a sequence of any length; states are in float32."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or []
    layers = sum(kind == "linear_attention" for kind in kinds)
    if not layers:
        return 0
    keys = text.linear_num_key_heads * text.linear_key_head_dim
    values = text.linear_num_value_heads * text.linear_value_head_dim
    window = (2 * keys + values) * text.linear_conv_kernel_dim * bytes_per_number
    return int(layers * (window + 4 * values * text.linear_key_head_dim))


def _layers(text: Any) -> list[int]:
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    sharing = getattr(text, "kv_sharing_modes", None) or [None] * len(kinds)
    return [
        layer
        for layer, (kind, mode) in enumerate(zip(kinds, sharing, strict=True))
        if kind != "linear_attention" and mode != "reuse"
    ]


def _numbers(text: Any, layer: int) -> int:
    own = layer_config(text, layer)
    return int(own.num_key_value_heads * head_size(own))


def layer_config(text: Any, layer: int) -> Any:
    """Return the configuration of a layer, where layers may differ (Gemma 4), else that of all."""
    return text.per_layer_config[layer] if hasattr(text, "global_head_dim") or _varies(text) else text


def head_size(config: Any) -> int:
    """Return the numbers of a head of attention."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _varies(text: Any) -> bool:
    return "kv_sharing_modes" in dir(type(text))
