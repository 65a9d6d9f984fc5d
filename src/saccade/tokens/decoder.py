"""Sample turns of episodes that decode together: once all their requests are in, a turn for each.

Samples depend only on seeds and requests, never on their order or on how long a sandbox took, so a run can be repeated
to the bit. While one batch decodes, the sandboxes of another work. Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from saccade.errors import ModelRefusedError
from saccade.models.base import MediaReader
from saccade.record.trajectory import Sampling
from saccade.tokens.build import PromptDelta
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.sequences import Draws, Policy, SequenceBatch, TokenSequence
from saccade.tokens.turn import SampledTurn, Slot, TurnRequest, TurnState, start_turn

# Two samplers with different promises: `TokenSampler` draws one answer with `top_k` and `top_p` from a generator that
# is seeded once, so a draw depends on how many came before; `draw_tokens` draws a batch of rollouts from the whole
# distribution, each row by a uniform number that it brings, whatever the other rows. Both leave out the same ids and
# give log-probabilities under the same distribution. The checkpoint's sampling defaults are not used.

_COLDEST = torch.finfo(torch.float32).tiny
"""A lower temperature would be 0 in float32."""


class TokenSampler:
    """Picks the next token. No temperature, or 0, is greedy; None and 0 turn `top_k` off, None and 1 `top_p`."""

    def __init__(self, sampling: Sampling, forbidden: torch.Tensor) -> None:
        self._greedy = not sampling.temperature
        self._temperature = max(sampling.temperature or 1.0, _COLDEST)
        self._top_k = sampling.top_k or 0
        self._top_p = 1.0 if sampling.top_p is None else sampling.top_p
        self._forbidden = forbidden
        self._random = torch.Generator(device=forbidden.device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed % 2**64)

    def __call__(self, logits: torch.Tensor) -> tuple[int, float]:
        """Draw a token, and return it with its natural log-probability.

        The latter is under the softmax of `logits / temperature` (1 if greedy) over the tokens that may be sampled,
        before `top_k` and `top_p`: a trainer can compute it again.

        Args:
            logits: (vocabulary,), on the device of the checkpoint.

        Raises `ModelRefusedError`: they are no numbers.
        """
        values = logits.float().masked_fill(self._forbidden, -torch.inf)
        best = values.max()
        if not torch.isfinite(best):
            raise ModelRefusedError(
                "the model's arithmetic overflowed. Load it in bfloat16 or float32 (LocalSettings.dtype)."
            )
        logprobs = torch.log_softmax((values - best) / self._temperature, dim=-1)
        token = int(logprobs.argmax()) if self._greedy else self._drawn(logprobs)
        return token, float(logprobs[token])

    def _drawn(self, logprobs: torch.Tensor) -> int:
        kept = logprobs
        if 0 < self._top_k < len(kept):
            kept = kept.masked_fill(kept < kept.topk(self._top_k).values[-1], -torch.inf)
        if self._top_p < 1.0:
            probs, order = kept.softmax(-1).sort(descending=True, stable=True)
            beyond = order[probs.cumsum(-1) - probs >= self._top_p]  # the token that reaches top_p stays
            beyond = beyond[beyond != order[0]]
            kept = kept.index_fill(0, beyond, -torch.inf)
        return int(torch.multinomial(kept.softmax(-1), 1, generator=self._random))


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """A request that waits for the others."""

    delta: PromptDelta
    turn: TurnState
    future: asyncio.Future[SampledTurn]


class BatchSlot:
    """A `Slot` whose tokens are sampled together with those of its batch."""

    def __init__(self, decoder: BatchDecoder, sequence: TokenSequence) -> None:
        self._decoder = decoder
        self._sequence = sequence

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._sequence.ids)

    async def generate(self, request: TurnRequest) -> SampledTurn:
        """As `Slot.generate`; a cancelled request is the slot's last."""
        try:
            return await self._decoder.generate(self._sequence, request)
        except asyncio.CancelledError:
            self.release()
            raise

    def release(self) -> None:
        self._decoder.release(self._sequence)


class BatchDecoder:
    """Slots, the batch of their sequences, and the running pass."""

    def __init__(self, engine: TransformersEngine, seeds: Sequence[int]) -> None:
        self._engine = engine
        sequences = [TokenSequence(np.random.default_rng(seed)) for seed in seeds]
        self._batch: SequenceBatch | None = engine.make_batch(sequences)
        self._occupied = set(sequences)
        self._waiting: dict[TokenSequence, _PendingRequest] = {}
        self._running: asyncio.Task[None] | None = None
        self.slots = [BatchSlot(self, sequence) for sequence in sequences]

    async def generate(self, sequence: TokenSequence, request: TurnRequest) -> SampledTurn:
        """Sample the next turn of `sequence`, together with those of all others."""
        delta = request.delta
        if sequence not in self._occupied:
            raise RuntimeError("this slot was released; its episode is over")
        length = len(sequence.ids) - delta.dropped + len(delta.ids)
        turn = start_turn(self._engine.policy, request, length)
        future: asyncio.Future[SampledTurn] = asyncio.get_running_loop().create_future()
        self._waiting[sequence] = _PendingRequest(delta, turn, future)
        self._schedule()
        return await future

    def release(self, sequence: TokenSequence) -> None:
        self._occupied.discard(sequence)
        self._waiting.pop(sequence, None)
        if self._occupied:
            self._schedule()
        elif self._running is None:
            self._batch = None

    def _schedule(self) -> None:
        if self._running is None and self._waiting and len(self._waiting) == len(self._occupied):
            requests, self._waiting = self._waiting, {}
            self._running = asyncio.get_running_loop().create_task(self._run_batch(requests))

    async def _run_batch(self, requests: dict[TokenSequence, _PendingRequest]) -> None:
        try:
            done = await asyncio.get_running_loop().run_in_executor(self._engine.thread, self._generate_turns, requests)
            for sequence, item in requests.items():
                if not item.future.done():
                    item.future.set_result(done[sequence])
        except BaseException as error:
            for item in requests.values():
                if not item.future.done():
                    item.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._running = None
            if not self._occupied:
                self._batch = None
            self._schedule()

    def _generate_turns(self, requests: dict[TokenSequence, _PendingRequest]) -> dict[TokenSequence, SampledTurn]:
        """Sample a turn for each sequence, in the engine's thread."""
        began = time.perf_counter()
        batch = self._batch
        if batch is None:
            raise RuntimeError("the batch was given up while requests were waiting")
        for sequence, item in requests.items():
            sequence.extend(item.delta)
        turns = {sequence: item.turn for sequence, item in requests.items()}
        with torch.inference_mode():
            self._decode(batch, turns)
        self._engine.busy_seconds += time.perf_counter() - began
        return {sequence: turn.done() for sequence, turn in turns.items()}

    def _decode(self, batch: SequenceBatch, turns: dict[TokenSequence, TurnState]) -> None:
        """Decode until every turn has ended: all at once, or as many at a time as the cache holds."""
        while left := {sequence: turn for sequence, turn in turns.items() if turn.finish is None}:
            active = self._move_to_front(batch, left)
            while active:
                steps = 1
                if not batch.is_reading(active):
                    # No row goes beyond its own limit: there is room in the cache up to it.
                    steps = min(batch.ahead, *(turns[sequence].left for sequence in batch.sequences[:active]))
                active = self._sample(batch, turns, batch.admit(active, steps), steps)

    def _sample(self, batch: SequenceBatch, turns: dict[TokenSequence, TurnState], active: int, steps: int) -> int:
        """Sample tokens for each of the first `active` sequences; return how many continue, moved to the front."""
        sequences = batch.sequences[:active]
        draws = Draws(
            [turns[sequence].temperature for sequence in sequences],
            [sequence.uniforms(steps) for sequence in sequences],
        )
        decoding = not batch.is_reading(active)
        began = time.perf_counter()
        sampled, logprobs = batch.sample(active, draws)
        if decoding:
            self._engine.decoded += Decoded(batch.bytes_read(active, len(sampled[0])), time.perf_counter() - began)
        for place, sequence in enumerate(sequences):
            turn, taken = turns[sequence], 0
            for token, logprob in zip(sampled[place], logprobs[place], strict=True):
                taken += 1
                turn.take(token, logprob)
                if turn.finish is not None:
                    break
            del sequence.drawn[:taken]  # what is left draws the next turn, as if nothing had been sampled ahead
            batch.drop(place, len(sampled[place]) - taken)
        for place in reversed(range(active)):
            if turns[batch.sequences[place]].finish is not None:
                active -= 1
                batch.swap(place, active)
        return active

    @staticmethod
    def _move_to_front(batch: SequenceBatch, turns: dict[TokenSequence, TurnState]) -> int:
        """Bring the sequences with a request to the front; return their number."""
        active = len(batch.sequences)
        for place in reversed(range(len(batch.sequences))):
            if batch.sequences[place] not in turns:
                active -= 1
                batch.swap(place, active)
        return active


@dataclass(frozen=True, slots=True)
class Decoded:
    """Passes over one token of each row: what they had to read of weights, keys and values, and how long they took."""

    bytes: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Decoded) -> Decoded:
        return Decoded(self.bytes + other.bytes, self.seconds + other.seconds)

    def __sub__(self, other: Decoded) -> Decoded:
        return Decoded(self.bytes - other.bytes, self.seconds - other.seconds)


class TransformersEngine:
    """An `Engine` that samples from the weights in training, in this process.

    Keys and values are kept from turn to turn as memory allows; episodes that do not fit wait and are read again.
    All batches decode in one thread; weights must not change while episodes run.
    """

    in_process = True

    def __init__(
        self, policy: Policy, media: MediaReader, *, most_tokens: int = 8192, cache_bytes: float | None = None
    ) -> None:
        """`media` has the pictures; `most_tokens` bounds a pass that reads, padding included; `cache_bytes` bounds keys
        and values of each batch, None for no limit.
        """
        self.name = f"local:{policy.checkpoint.name}"
        self.policy = policy
        self._pictures = PictureTensors(policy.checkpoint, media)
        self._most = most_tokens
        self._cache_bytes = cache_bytes
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self.busy_seconds = 0.0
        self.decoded = Decoded()
        """Since the engine was made."""

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        return list(BatchDecoder(self, seeds).slots)

    def make_batch(self, sequences: Sequence[TokenSequence]) -> SequenceBatch:
        """Make the batch of `sequences`, with a cache of its own."""
        return SequenceBatch(self.policy, self._pictures, sequences, self._most, self._cache_bytes)

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Does nothing: the engine samples from the very weights that are trained."""

    async def close(self) -> None:
        """End the thread."""
        self.thread.shutdown(wait=True)
