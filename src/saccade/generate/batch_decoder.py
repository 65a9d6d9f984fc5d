"""Episodes that decode together: when the last of their requests is in, one pass samples a turn for each.

What is sampled depends on seeds and requests alone, never on which came first or how long a sandbox took, so a run can
be repeated to the bit. While one batch decodes, the sandboxes of another work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from saccade.generate.base import SampledTurn, TurnRequest
from saccade.generate.sequences import Policy, SequenceBatch, TokenSequence
from saccade.generate.token_sampler import sample_tokens
from saccade.generate.turn import TurnState, start_turn
from saccade.tokens.stream import PromptDelta


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """A request that waits for the others."""

    delta: PromptDelta
    turn: TurnState
    future: asyncio.Future[SampledTurn]


class BatchSlot:
    """A `base.Slot` whose tokens are sampled together with those of its batch."""

    def __init__(self, decoder: BatchDecoder, sequence: TokenSequence) -> None:
        self._decoder = decoder
        self._sequence = sequence

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._sequence.ids)

    async def generate(self, request: TurnRequest) -> SampledTurn:
        """A cancelled request is the slot's last; else as `base.Slot` says."""
        try:
            return await self._decoder.generate(self._sequence, request)
        except asyncio.CancelledError:
            self.release()
            raise

    def release(self) -> None:
        self._decoder.release(self._sequence)


class BatchDecoder:
    """Some slots, the batch of their sequences, and the pass that is under way."""

    def __init__(
        self,
        policy: Policy,
        make_batch: Callable[[Sequence[TokenSequence]], SequenceBatch],
        seeds: Sequence[int],
        thread: ThreadPoolExecutor,
        on_busy: Callable[[float], None],
    ) -> None:
        """`make_batch` puts sequences into a cache; passes run in `thread`; `on_busy` is given the seconds of each."""
        self._policy = policy
        self._thread = thread
        sequences = [TokenSequence(np.random.default_rng(seed)) for seed in seeds]
        self._batch: SequenceBatch | None = make_batch(sequences)
        self._on_busy = on_busy
        self._occupied = set(sequences)
        self._waiting: dict[TokenSequence, _PendingRequest] = {}
        self._running: asyncio.Task[None] | None = None
        self.slots = [BatchSlot(self, sequence) for sequence in sequences]

    async def generate(self, sequence: TokenSequence, request: TurnRequest) -> SampledTurn:
        """The next turn of `sequence`, together with those of all others."""
        delta = request.delta
        if sequence not in self._occupied:
            raise RuntimeError("this slot was released; its episode is over")
        length = len(sequence.ids) - delta.dropped + len(delta.ids)
        turn = start_turn(self._policy, request, length)
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
            done = await asyncio.get_running_loop().run_in_executor(self._thread, self._generate_turns, requests)
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
        """A turn for each sequence; in the engine's thread."""
        began = time.perf_counter()
        batch = self._batch
        if batch is None:
            raise RuntimeError("the batch was given up while requests were waiting")
        for sequence, item in requests.items():
            sequence.extend(item.delta)
        turns = {sequence: item.turn for sequence, item in requests.items()}
        with torch.inference_mode():
            self._decode(batch, turns)
        self._on_busy(time.perf_counter() - began)
        return {sequence: turn.done() for sequence, turn in turns.items()}

    def _decode(self, batch: SequenceBatch, turns: dict[TokenSequence, TurnState]) -> None:
        """Token by token, until every turn has ended: all at once, or as many as the cache holds after each other."""
        while left := {sequence: turn for sequence, turn in turns.items() if turn.finish is None}:
            active = batch.admit(self._move_to_front(batch, left))
            while active:
                active = self._sample(batch, turns, batch.admit(active))

    def _sample(self, batch: SequenceBatch, turns: dict[TokenSequence, TurnState], active: int) -> int:
        """A token for each of the first `active` sequences; how many of them continue, now the first ones."""
        logits = batch.read(active)
        sequences = batch.sequences[:active]
        tokens, logprobs = sample_tokens(
            logits,
            self._policy.checkpoint.forbidden,
            [turns[sequence].temperature for sequence in sequences],
            [sequence.random.random() for sequence in sequences],
        )
        for sequence, token, logprob in zip(sequences, tokens, logprobs, strict=True):
            sequence.ids.append(token)
            sequence.unread = 1
            turns[sequence].take(token, logprob)
        for place in reversed(range(active)):
            if turns[batch.sequences[place]].finish is not None:
                active -= 1
                batch.swap(place, active)
        return active

    @staticmethod
    def _move_to_front(batch: SequenceBatch, turns: dict[TokenSequence, TurnState]) -> int:
        """Bring the sequences with a request to the front; how many there are."""
        active = len(batch.sequences)
        for place in reversed(range(len(batch.sequences))):
            if batch.sequences[place] not in turns:
                active -= 1
                batch.swap(place, active)
        return active
