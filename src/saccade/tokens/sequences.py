"""Decode sequences together: tokens, cached keys and values, and the forward passes that extend them.

Only new tokens are computed, and equal prompts once. Positions are explicit, M-RoPE included, so a sequence has the
positions that it has alone. Use in one thread at a time, under `torch.inference_mode`. Imports torch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import torch

from saccade.errors import ModelRefusedError
from saccade.models.local_weights import Checkpoint, capped, logit_cap
from saccade.tokens.batch import GridReader, LanguageNumbers, PromptDelta, rope_positions
from saccade.tokens.caches import (
    RaggedCache,
    StateCache,
    attending_own,
    cache_argument,
    cache_bytes_per_token,
    can_attend_own,
    layer_masks,
    state_bytes,
)
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import PromptPicture

_log = logging.getLogger(__name__)

_CAPTURED = frozenset({"qwen2_5_vl", "qwen3_vl", "internvl", "glm4v", "glm46v", "gemma4"})
"""Families whose passes were captured on a GPU. Experts are chosen by the host, which no graph can hold."""

_AHEAD = 8
"""Tokens that captured passes sample of each row before the host looks at them; what is behind an end is dropped."""

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]
"""(ids (rows, 1), positions (axes, rows, 1), lengths of the rows, places) -> logits (rows, vocabulary)."""


def can_capture(device: torch.device, checkpoint: Checkpoint) -> bool:
    """Return whether decoding is captured: on a GPU, unless weights are divided, which hooks gather."""
    if device.type != "cuda" or checkpoint.family.model_type not in _CAPTURED:
        return False
    if not torch.distributed.is_initialized():
        return True
    from torch.distributed.fsdp import FSDPModule

    return not any(isinstance(module, FSDPModule) for module in checkpoint.model.modules())


@dataclass(frozen=True, slots=True)
class Draws:
    """How the next tokens of some rows are drawn."""

    temperatures: Sequence[float]
    """Of each row; 0 is greedy, and counts as 1."""
    uniforms: Sequence[Sequence[float]]
    """Of each row, from 0 to below 1: one for each token."""

    def tensors(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return temperatures (rows, 1), which rows are greedy (rows,), and uniforms (rows, tokens)."""
        heat = torch.tensor([value or 1.0 for value in self.temperatures], device=device)[:, None]
        greedy = torch.tensor([not value for value in self.temperatures], device=device)
        return heat, greedy, torch.tensor(self.uniforms, dtype=torch.float64, device=device)


def draw_tokens(
    logits: torch.Tensor, forbidden: torch.Tensor, heat: torch.Tensor, greedy: torch.Tensor, uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a token for each row, without waiting for the device: int64 (rows,), with natural log-probabilities (rows,).

    Those are under the softmax of logits / heat over ids that may be sampled. The token is where the cumulative
    probability passes the uniform number: a draw depends only on its row. A forbidden id is never drawn. Where logits
    are no numbers, the log-probability is none.

    Args:
        logits: (rows, vocabulary).
        forbidden: bool (vocabulary,).
        heat: (rows, 1), above 0.
        greedy: bool (rows,): whether the likeliest token is taken.
        uniforms: float64 (rows,), from 0 to below 1.
    """
    logprobs = torch.log_softmax(logits.float().masked_fill(forbidden, -torch.inf) / heat, dim=-1)
    sums = logprobs.double().exp().cumsum(-1)
    # Rounding must not reach the sum itself: after it are ids without probability.
    thresholds = torch.minimum(uniforms * sums[:, -1], torch.nextafter(sums[:, -1], torch.zeros_like(uniforms)))
    drawn = torch.searchsorted(sums, thresholds[:, None], right=True)[:, 0].clamp(max=sums.shape[1] - 1)
    tokens = torch.where(greedy, logprobs.argmax(-1), drawn)
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


@dataclass
class _Shape:
    """What a pass over some rows reads and writes in place, and the graph captured of it."""

    ids: torch.Tensor
    positions: torch.Tensor
    lengths: torch.Tensor
    heat: torch.Tensor
    greedy: torch.Tensor
    uniforms: torch.Tensor
    step: torch.Tensor
    """int64 (1,): of the next token, among those that are sampled ahead."""
    tokens: torch.Tensor
    """int64 (rows, `_AHEAD`)."""
    logprobs: torch.Tensor
    warm: bool = False
    """Whether a pass was made: in the first one libraries initialise."""
    graph: torch.cuda.CUDAGraph | None = None

    @classmethod
    def empty(cls, rows: int, axes: int, device: torch.device) -> Self:
        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        heat, greedy = zeros(rows, 1, dtype=torch.float32) + 1, zeros(rows, dtype=torch.bool)
        uniforms, logprobs = zeros(rows, _AHEAD, dtype=torch.float64), zeros(rows, _AHEAD, dtype=torch.float32)
        whole = zeros(rows, 1), zeros(axes, rows, 1), zeros(rows)
        return cls(*whole, heat, greedy, uniforms, zeros(1), zeros(rows, _AHEAD), logprobs)


class StepGraphs:
    """Decodes by CUDA graphs of one cache, whose buffers and weights must stay in place.

    A pass over one token of each row is thousands of small kernels, which Python starts slower than a GPU runs them. A
    graph of the pass and the draw is captured for each shape that recurs, and replayed: it writes the token where the
    next replay reads it, so several tokens are sampled without a word from the host. Rows are padded to a few shapes;
    results of the padding are dropped, and no row grows by it.
    """

    def __init__(self, cache: RaggedCache, forbidden: torch.Tensor) -> None:
        self._cache = cache
        self._forbidden = forbidden
        self._shapes: dict[tuple[int, int], _Shape] = {}
        self._moves = cache.moves
        self._pool: tuple[int, int] | None = None
        """Memory that all graphs share: one is replayed at a time."""
        self._works = True

    def __call__(
        self, pass_over: Step, ids: torch.Tensor, positions: torch.Tensor, draws: Draws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample tokens of each of the first rows, which grow by them; return (count, tokens) and log-probabilities.

        Args:
            pass_over: the pass.
            ids: int64 (count, 1), the last token of each.
            positions: int64 (axes, count, 1).
            draws: of the rows.
        """
        count, steps = len(ids), len(draws.uniforms[0])
        rows, end = self._cache.step_shape(count, steps)
        if self._cache.moves != self._moves:
            self._shapes.clear()
            self._pool, self._moves = None, self._cache.moves  # torch gives up the memory with its last graph
        if (rows, end) not in self._shapes:
            self._shapes[rows, end] = _Shape.empty(rows, len(positions), self._forbidden.device)
        one = self._shapes[rows, end]
        one.ids[:count].copy_(ids)
        one.positions[:, :count].copy_(positions)
        one.lengths.copy_(torch.tensor(self._cache.lengths[:rows]))
        heat, greedy, uniforms = draws.tensors(torch.device("cpu"))
        one.heat[:count].copy_(heat)
        one.greedy[:count].copy_(greedy)
        one.uniforms[:count, :steps].copy_(uniforms)
        one.step.zero_()
        for _ in range(steps):
            if one.graph is None and one.warm and self._works:
                self._capture(pass_over, one, end)
            if one.graph is None:
                self._advance(pass_over, one, end)
            else:
                one.graph.replay()
            one.warm = True
        self._cache.grow(count, steps)
        return one.tokens[:count, :steps], one.logprobs[:count, :steps]

    def _advance(self, pass_over: Step, one: _Shape, end: int) -> None:
        """Sample a token of each row, and make it the last one."""
        logits = pass_over(one.ids, one.positions, one.lengths, end)
        uniforms = one.uniforms.index_select(1, one.step)[:, 0]
        tokens, logprobs = draw_tokens(logits, self._forbidden, one.heat, one.greedy, uniforms)
        one.ids.copy_(tokens[:, None])
        one.tokens.index_copy_(1, one.step, tokens[:, None])
        one.logprobs.index_copy_(1, one.step, logprobs[:, None])
        for counter in (one.positions, one.lengths, one.step):
            counter.add_(1)

    def _capture(self, pass_over: Step, one: _Shape, end: int) -> None:
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._advance(pass_over, one, end)
        except RuntimeError as error:
            self._works = False
            reason = str(error).splitlines()[0]
            _log.warning("decoding goes on without CUDA graphs, which is slower: a pass was not captured: %s", reason)
            return
        one.graph = graph


class Policy(Protocol):
    """A checkpoint to sample from, such as one that is ready for training."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Weights, and which ids are forbidden."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""


@dataclass(eq=False)
class TokenSequence:
    """One episode's tokens in the cache."""

    random: np.random.Generator
    drawn: list[float] = field(default_factory=list)
    """Of `random`, for the next tokens; who takes a token takes its number out."""
    ids: list[int] = field(default_factory=list)
    """Read and sampled."""
    unread: int = 0
    """Of `ids`, at their end: not in the cache yet."""
    pictures: tuple[PromptPicture, ...] = ()
    """Those with placeholders among the unread ids."""
    position: int = 0
    """Of the first unread token."""
    positions: list[int] = field(default_factory=list)
    """Of each token in the cache; on the axis of time where there are three."""
    seen: tuple[PromptPicture, ...] = ()
    """All pictures so far; of a sequence that was cut, those since."""

    @property
    def unread_ids(self) -> tuple[int, ...]:
        return tuple(self.ids[len(self.ids) - self.unread :])

    def uniforms(self, count: int) -> list[float]:
        """Return the numbers by which the next `count` tokens are drawn."""
        self.drawn += self.random.random(max(0, count - len(self.drawn))).tolist()
        return self.drawn[:count]

    def extend(self, delta: PromptDelta) -> None:
        """Append tokens to be read next."""
        if delta.dropped:
            del self.ids[-delta.dropped :]
        self.unread += len(delta.ids) - delta.dropped
        self.ids += delta.ids
        self.pictures += delta.pictures
        self.seen += delta.pictures

    def forget(self) -> None:
        """Mark everything as unread, as it left the cache."""
        self.unread, self.pictures = len(self.ids), self.seen
        self.position, self.positions = 0, []

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens, all in the cache; the cut is in no picture."""
        del self.ids[length:]
        if length < len(self.positions):
            self.position = self.positions[length]
        del self.positions[length:]
        self.unread, self.pictures, self.seen = 0, (), ()


class SequenceBatch:
    """Sequences at their places in one cache."""

    def __init__(
        self,
        policy: Policy,
        pictures: PictureTensors,
        sequences: Sequence[TokenSequence],
        most_tokens: int,
        cache_bytes: float | None = None,
    ) -> None:
        """`most_tokens` bounds a forward pass that reads, padding included; `cache_bytes` keys and values."""
        self._policy = policy
        self._pictures = pictures
        self._most = most_tokens
        self._cache = make_cache(policy, len(sequences), cache_bytes)
        self._cached_as = cache_argument(policy.checkpoint.model.model)
        checkpoint = policy.checkpoint
        captured = can_capture(checkpoint.device, checkpoint)
        dtype = cache_dtype(policy)
        self._cache.own = captured and can_attend_own(checkpoint.config, checkpoint.family, checkpoint.device, dtype)
        self._graphs = StepGraphs(self._cache, checkpoint.forbidden) if captured else None
        self.sequences = list(sequences)
        self._numbers = LanguageNumbers.of(checkpoint.model)

    @property
    def ahead(self) -> int:
        """Tokens that are sampled at once where nothing else is to be read."""
        return 1 if self._graphs is None else _AHEAD

    def bytes_read(self, count: int, steps: int) -> float:
        """Return the bytes of weights, keys and values that the last `steps` tokens of the first rows were read for."""
        places = sum(self._cache.lengths[:count]) * steps - count * steps * (steps - 1) / 2
        weights = self._numbers.read(count) * cache_dtype(self._policy).itemsize
        return float(steps * weights + places * cache_bytes_of(self._policy))

    def is_reading(self, count: int) -> bool:
        """Return whether one of the first `count` sequences has more to read than its last token."""
        return any(sequence.unread != 1 or len(sequence.ids) == 1 for sequence in self.sequences[:count])

    def admit(self, count: int, steps: int = 1) -> int:
        """Make room for `steps` tokens of as many of the first `count` sequences as fit, emptying others.

        Return their number.

        Raises `ModelRefusedError`: not even the first one fits.
        """
        longest = fitting = end = 0
        for number, sequence in enumerate(self.sequences[:count], start=1):
            longest = max(longest, len(sequence.ids) + steps - 1)
            if not self._cache.fits(number, longest):
                break
            fitting, end = number, longest
        if not fitting:
            raise ModelRefusedError(
                f"keys and values of an episode of {longest} tokens do not fit the memory that they may take "
                "(generation.cache, in GiB, shared by generation.decoding_batches). Raise it, or bound "
                "rollout.limits.context_tokens."
            )
        for place in self._cache.reserve(fitting, end):
            self.sequences[place].forget()
        return fitting

    def add(self, sequence: TokenSequence) -> None:
        self._cache.add_row()
        self.sequences.append(sequence)

    def cut(self, place: int, length: int) -> None:
        """Cut the sequence at `place` to its first `length` tokens, all in the cache."""
        self.sequences[place].cut(length)
        self._cache.lengths[place] = length

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of the sequence at `source`, all in the cache, to `target`."""
        known, sequence = self.sequences[source], self.sequences[target]
        self._cache.copy(source, target)
        sequence.ids, sequence.positions, sequence.position = known.ids[:], known.positions[:], known.position
        self.cut(target, length)

    def swap(self, one: int, other: int) -> None:
        """Swap two sequences; if one has no room in the cache, both are emptied there."""
        if one != other and max(one, other) >= self._cache.held:
            for place in (one, other):
                self._cache.lengths[place] = 0
                self.sequences[place].forget()
        self._cache.swap(one, other)
        self.sequences[one], self.sequences[other] = self.sequences[other], self.sequences[one]

    def sample(self, count: int, draws: Draws) -> tuple[list[list[int]], list[list[float]]]:
        """Sample the next tokens of the first `count` sequences, with their log-probabilities.

        One token of each, or where nothing else is to be read as many as `draws` are for, of which the last is unread.

        Raises `FloatingPointError`: the logits are no numbers.
        """
        if self._graphs is None or self.is_reading(count):
            heat, greedy, uniforms = draws.tensors(self._policy.checkpoint.device)
            forbidden = self._policy.checkpoint.forbidden
            drawn = draw_tokens(self.read(count), forbidden, heat, greedy, uniforms[:, 0])
            tokens, logprobs = (tensor[:, None].tolist() for tensor in drawn)
        else:
            ids, positions = self._last_tokens(self.sequences[:count])
            tokens, logprobs = (tensor.tolist() for tensor in self._graphs(self._step, ids, positions, draws))
            for sequence, own in zip(self.sequences[:count], tokens, strict=True):
                more = len(own) - 1
                sequence.positions += range(sequence.position, sequence.position + more)
                sequence.position += more
        check_numbers(logprobs)
        for sequence, own in zip(self.sequences[:count], tokens, strict=True):
            sequence.ids += own
            sequence.unread = 1
        return tokens, logprobs

    def drop(self, place: int, tokens: int) -> None:
        """Drop the last `tokens` of the sequence at `place`, which it sampled behind its end."""
        if tokens:
            sequence = self.sequences[place]
            del sequence.ids[-tokens:], sequence.positions[-tokens:]
            sequence.position -= tokens
            self._cache.lengths[place] -= tokens

    def read(self, count: int) -> torch.Tensor:
        """Read the unread tokens of the first `count` sequences; return logits (count, vocabulary) of the next."""
        if self.is_reading(count):
            return self.read_places(range(count))
        return self._logits(self._forward(range(count))[:, 0])

    def read_places(self, places: Sequence[int]) -> torch.Tensor:
        hidden: dict[int, torch.Tensor] = {}
        twins = self._twins(places)
        for part in self._parts([place for place in places if place not in twins]):
            ends = [self.sequences[place].unread - 1 for place in part]
            hidden |= {place: row[end] for place, row, end in zip(part, self._forward(part), ends, strict=True)}
        for place, leader in twins.items():
            sequence, known = self.sequences[place], self.sequences[leader]
            self._cache.copy(leader, place)
            sequence.position, sequence.positions = known.position, known.positions[:]
            sequence.unread, sequence.pictures = 0, ()
            hidden[place] = hidden[leader]
        return self._logits(torch.stack([hidden[place] for place in places]))

    def _twins(self, places: Sequence[int]) -> dict[int, int]:
        """Map sequences to another that reads the same whole prompt."""
        leaders: dict[tuple[Any, ...], int] = {}
        twins = {}
        for place in places:
            sequence = self.sequences[place]
            if sequence.unread == len(sequence.ids):
                key = (sequence.unread_ids, tuple((one.part.sha256, one.clip) for one in sequence.pictures))
                if leaders.setdefault(key, place) != place:
                    twins[place] = leaders[key]
        return twins

    def _parts(self, places: Sequence[int]) -> Iterator[list[int]]:
        """Split `places` where a forward pass would be too large."""
        part: list[int] = []
        longest = 0
        for place in places:
            longest = max(longest, self.sequences[place].unread)
            alone = self._policy.checkpoint.family.attention == "recurrent"
            if part and (alone or longest * (len(part) + 1) > self._most):
                yield part
                part, longest = [], self.sequences[place].unread
            part.append(place)
        if part:
            yield part

    def _forward(self, places: Sequence[int]) -> torch.Tensor:
        """Return hidden states (sequences, tokens, size) of the unread tokens at `places`, padded on the right."""
        checkpoint = self._policy.checkpoint
        sequences = [self.sequences[place] for place in places]
        counts = [sequence.unread for sequence in sequences]
        pictures = self._pictures([picture for sequence in sequences for picture in sequence.pictures])
        ids, positions = (
            self._last_tokens(sequences) if max(counts) == 1 else self._pad(sequences, GridReader(pictures))
        )
        device, dtype = checkpoint.device, next(checkpoint.model.parameters()).dtype
        tensors = {
            name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
            for name, value in pictures.items()
        }
        ids = ids.to(device)
        starts = torch.tensor([self._cache.lengths[place] for place in places], device=device)
        full = self._cache.begin(places, counts, device, cache_dtype(self._policy))
        visual = ids == checkpoint.placeholder_id if pictures else None
        masks = layer_masks(full, starts, visual, checkpoint.family, checkpoint.config)
        hidden = self._pass(ids, positions.to(device), masks, tensors)
        self._cache.end()
        return hidden

    def _step(self, ids: torch.Tensor, positions: torch.Tensor, starts: torch.Tensor, end: int) -> torch.Tensor:
        checkpoint = self._policy.checkpoint
        full = self._cache.begin_step(starts, end, cache_dtype(self._policy))
        masks = layer_masks(full, starts, None, checkpoint.family, checkpoint.config)
        with attending_own(checkpoint.model.model.language_model) if self._cache.own else nullcontext():
            return self._logits(self._pass(ids, positions, masks, {})[:, 0])

    def _pass(
        self, ids: torch.Tensor, positions: torch.Tensor, masks: Any, tensors: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        """Return hidden states (sequences, tokens, size) of a pass that the cache was told of."""
        checkpoint = self._policy.checkpoint
        with self._policy.autocast():
            hidden: torch.Tensor = checkpoint.model.model(
                input_ids=ids,
                position_ids=positions if checkpoint.family.rope_axes > 1 else positions[0],
                attention_mask=masks,
                use_cache=True,
                **{self._cached_as: self._cache},
                **tensors,
            ).last_hidden_state
        return hidden

    def _last_tokens(self, sequences: Sequence[TokenSequence]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same for one text token each, as decoding has them."""
        ids = torch.tensor([sequence.ids[-1:] for sequence in sequences])
        at = torch.tensor([[sequence.position] for sequence in sequences])
        for sequence in sequences:
            sequence.positions.append(sequence.position)
            sequence.position += 1
            sequence.unread = 0
        return ids, at.expand(self._policy.checkpoint.family.rope_axes, *at.shape)

    def _pad(self, sequences: Sequence[TokenSequence], grids: GridReader) -> tuple[torch.Tensor, torch.Tensor]:
        """Pad unread ids (sequences, tokens) and positions (axes, sequences, tokens), padded on the right; now read."""
        longest = max(sequence.unread for sequence in sequences)
        ids = torch.full((len(sequences), longest), min(self._policy.checkpoint.end_ids))
        positions = torch.zeros((self._policy.checkpoint.family.rope_axes, len(sequences), longest), dtype=torch.int64)
        for number, sequence in enumerate(sequences):
            unread_ids = torch.tensor(sequence.unread_ids)
            ids[number, : len(unread_ids)] = unread_ids
            rope = sequence.position + self._rope(unread_ids, sequence.pictures, grids)
            positions[:, number, : len(unread_ids)] = rope
            sequence.positions += rope[0].tolist()
            sequence.position = int(rope.max()) + 1
            sequence.unread, sequence.pictures = 0, ()
        return ids, positions

    def _rope(self, unread_ids: torch.Tensor, pictures: Sequence[PromptPicture], grids: GridReader) -> torch.Tensor:
        """Return positions (axes, tokens) of unread tokens, from 0."""
        checkpoint = self._policy.checkpoint
        axes = checkpoint.family.rope_axes
        if axes == 1 or not pictures:
            return torch.arange(len(unread_ids)).repeat(axes, 1)
        return rope_positions(checkpoint.model.model, unread_ids, checkpoint.placeholders, pictures, grids)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        with self._policy.autocast():
            logits: torch.Tensor = self._policy.checkpoint.model.get_output_embeddings()(hidden)
        return capped(logits.float(), logit_cap(self._policy.checkpoint.config))


def check_numbers(logprobs: Sequence[Sequence[float]]) -> None:
    """Raise FloatingPointError if the logits of one were no numbers."""
    if any(math.isnan(value) for row in logprobs for value in row):
        raise FloatingPointError("the model's arithmetic overflowed; take float32, or a lower learning rate")


def cache_dtype(policy: Policy) -> torch.dtype:
    """Return the dtype of attention, in which keys and values are kept."""
    device = policy.checkpoint.device.type
    with policy.autocast():
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    dtype: torch.dtype = next(policy.checkpoint.model.parameters()).dtype
    return dtype


def cache_bytes_of(policy: Policy) -> int:
    """Return the bytes of the keys and values of one token."""
    return cache_bytes_per_token(policy.checkpoint.config, cache_dtype(policy).itemsize)


def make_cache(policy: Policy, rows: int, cache_bytes: float | None) -> RaggedCache:
    """Make a cache for the model of `policy`; `cache_bytes` bounds keys, values and states, None for no limit."""
    kind = StateCache if policy.checkpoint.family.attention == "recurrent" else RaggedCache
    if cache_bytes is None:
        return kind(rows)
    states = rows * state_bytes(policy.checkpoint.config, cache_dtype(policy).itemsize)
    return kind(rows, int(max(0.0, cache_bytes - states) // cache_bytes_of(policy)))
