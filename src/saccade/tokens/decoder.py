"""Sample turns of episodes that decode together: once all their requests are in, a turn for each.

Samples depend only on seeds and requests, never on their order or on how long a sandbox took, so a run can be repeated
to the bit. While one batch decodes, the sandboxes of another work. Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from saccade.errors import ContextLimitError, ModelError, ModelRefusedError, TrainingError
from saccade.models.base import MediaReader, Request
from saccade.models.local_weights import Checkpoint
from saccade.models.pictures import PictureRules
from saccade.record.trajectory import Sampling
from saccade.tokens.batch import PromptDelta
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import Prompt, frame_encoder
from saccade.tokens.sequences import Draws, Policy, SequenceBatch, TokenSequence
from saccade.tokens.turn import ContextFullError, SampledTurn, Slot, TurnRequest, TurnState, start_turn

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
        """Generate like `Slot.generate`; a cancelled request is the slot's last."""
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
        return SequenceBatch(self.policy, self._pictures, sequences, self._most, self._cache_bytes)

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Does nothing: the engine samples from the very weights that are trained."""

    async def close(self) -> None:
        """End the thread."""
        self.thread.shutdown(wait=True)


# Answers side by side: every pass samples a token for each, and answers come and go at any time. Keys and values stay
# when an answer has ended, so the next turn of its episode reads only what is new: a prompt takes over the sequence
# that it continues, or copies the longest beginning that it shares with one. The least recently used sequence makes
# room. Use in one thread. Which answers are written together can change the last digits of log-probabilities, and so,
# very rarely, a token.


_MOST_TOKENS = 8192
"""Most tokens of a pass that reads several sequences, padding included."""


@dataclass(eq=False)
class PendingAnswer:
    """An answer while it is written."""

    request: Request
    prompt: Prompt
    media: MediaReader
    """Has the prompt's pictures."""
    tell: Callable[[str], None]
    """Called with each piece of the text."""
    is_cancelled: Callable[[], bool]
    """Called before every pass."""
    end: Callable[[SampledTurn | BaseException | None], None]
    """Called with the outcome; None where it was cancelled."""


@dataclass(eq=False)
class _Row(TokenSequence):
    """A sequence, its prompt, and the answer that it is writing."""

    prompt: Prompt = field(default_factory=lambda: Prompt(()))
    """The last one that was read."""
    used: int = 0
    """When, counted in prompts."""
    answer: PendingAnswer | None = None
    turn: TurnState | None = None
    draw: TokenSampler | None = None


@dataclass(frozen=True)
class PlainPolicy:
    """A checkpoint that samples as it is."""

    checkpoint: Checkpoint

    def autocast(self) -> nullcontext[Any]:
        """Do nothing."""
        return nullcontext()


class Scheduler:
    """The sequences of one checkpoint, those that write first."""

    def __init__(self, policy: Policy, *, most_sequences: int) -> None:
        """Keep and write at most `most_sequences` at once."""
        self._policy = policy
        self.checkpoint = checkpoint = policy.checkpoint
        self._media: dict[str, MediaReader] = {}
        rules = PictureRules(pixels=checkpoint.max_pixels)
        self._pictures = PictureTensors(checkpoint, self, rules=rules)
        self._most = most_sequences
        self._count = count(1)
        self._rows: list[_Row] = []
        self._batch = self._empty_batch()
        self._active = 0
        self.encoder = frame_encoder(checkpoint)
        """Makes prompts, where the checkpoint's chat template does not."""

    @property
    def has_room(self) -> bool:
        """Whether one more answer can be written."""
        return self._active < self._most

    @property
    def is_idle(self) -> bool:
        """Whether no answer is being written."""
        return not self._active

    def get_bytes(self, sha256: str) -> bytes:
        """Return a picture of a prompt that is being read."""
        return self._media[sha256].get_bytes(sha256)

    def admit(self, answer: PendingAnswer) -> None:
        """Read the prompt of `answer` and sample its first token; an error ends only this answer."""
        row: _Row | None = None
        try:
            with torch.inference_mode():
                turn = self._start(answer)
                row = self._row_for(answer.prompt)
                self._move(row, self._active)
                row.answer, row.turn = answer, turn
                row.draw = TokenSampler(answer.request.sampling, self.checkpoint.forbidden)
                self._active += 1
                self._take(row, self._read(row, answer)[0])
        except Exception as error:
            if row is not None:
                with torch.inference_mode():
                    self._forget(row)
            answer.end(refused(error))

    def step(self) -> None:
        """Sample one more token for every answer."""
        try:
            with torch.inference_mode():
                for row in self._writing():
                    if row.answer is not None and row.answer.is_cancelled():
                        self._end(row, None)
                if self._active:
                    rows = self._writing()
                    for row, values in zip(rows, self._batch.read(self._active), strict=True):
                        self._take(row, values)
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End every answer with `error`, and empty the cache."""
        writing = self._writing()
        self._rows, self._active, self._batch = [], 0, self._empty_batch()
        for row in writing:
            if row.answer is not None:
                row.answer.end(refused(error))

    def _start(self, answer: PendingAnswer) -> TurnState:
        request, prompt = answer.request, answer.prompt
        asked = TurnRequest(
            PromptDelta(prompt.ids, prompt.pictures),
            request.stop,
            max_tokens=request.max_tokens,
            context_tokens=request.context_tokens,
        )
        try:
            turn = start_turn(self._policy, asked, len(prompt.ids))
        except ContextFullError as error:
            most = min(self.checkpoint.context_tokens, request.context_tokens or self.checkpoint.context_tokens)
            raise ContextLimitError(
                f"the messages take {len(prompt.ids)} tokens ({prompt.visual} of them visual), and "
                f"{self.checkpoint.name} reads at most {most}. Show fewer or smaller pictures."
            ) from error
        turn.tell = answer.tell
        return turn

    def _row_for(self, prompt: Prompt) -> _Row:
        """Return an idle sequence that holds the longest cached beginning of `prompt`, and no more."""
        shared = {row: self._shared(row, prompt) for row in self._rows}
        best = max(self._rows, key=lambda row: shared[row], default=None)
        length = shared[best] if best is not None else 0
        idle = [row for row in self._rows if row.answer is None]
        # A row that holds a whole earlier prompt and part of its answer is continued; others may still be needed.
        continued = [row for row in idle if shared[row] == length and length > len(row.prompt.ids)]
        if continued:
            row = continued[0]
        elif len(self._rows) < self._most:
            row = self._new_row()
        else:
            row = min(idle, key=lambda row: row.used)
        if best is not None and best is not row and length:
            self._batch.copy(self._place(best), self._place(row), length)
        else:
            self._batch.cut(self._place(row), shared.get(row, 0))
        row.prompt, row.used = prompt, next(self._count)
        return row

    def _shared(self, row: _Row, prompt: Prompt) -> int:
        """Return how many cached tokens of `row` begin `prompt`; of a state all or none count."""
        length = shared_length(row.prompt, row.ids[: len(row.positions)], prompt)
        usable = self.checkpoint.family.attention != "recurrent" or length == len(row.positions)
        return length if usable else 0

    def _read(self, row: _Row, answer: PendingAnswer) -> torch.Tensor:
        """Return logits (1, vocabulary) of the token after the prompt."""
        prompt, length = answer.prompt, len(row.ids)
        unread = [picture for picture, at in zip(prompt.pictures, prompt.places, strict=True) if at >= length]
        self._media = {picture.part.sha256: answer.media for picture in unread}
        row.extend(PromptDelta(prompt.ids[length:], tuple(unread)))
        return self._batch.read_places([self._place(row)])

    def _take(self, row: _Row, logits: torch.Tensor) -> None:
        if row.turn is None or row.draw is None:
            raise RuntimeError("a sequence without an answer was decoded")
        try:
            token, logprob = row.draw(logits)
        except ModelError as error:
            answer = row.answer
            self._forget(row)  # what is cached is no number either
            if answer is not None:
                answer.end(error)
            return
        row.ids.append(token)
        row.unread = 1
        row.turn.take(token, logprob)
        if row.turn.finish is not None:
            self._end(row, row.turn.done())

    def _end(self, row: _Row, outcome: SampledTurn | BaseException | None) -> None:
        answer, row.answer, row.turn, row.draw = row.answer, None, None, None
        self._active -= 1
        self._move(row, self._active)
        if answer is not None:
            answer.end(outcome)

    def _forget(self, row: _Row) -> None:
        """Leave `row` empty and idle."""
        if row.answer is not None:
            row.answer, row.turn, row.draw = None, None, None
            self._active -= 1
            self._move(row, self._active)
        row.prompt = Prompt(())
        row.unread, row.position, row.positions = 0, 0, []
        self._batch.cut(self._place(row), 0)

    def _new_row(self) -> _Row:
        row = _Row(np.random.default_rng(0))
        self._batch.add(row)
        self._rows.append(row)
        return row

    def _writing(self) -> list[_Row]:
        return [row for row in self._batch.sequences[: self._active] if isinstance(row, _Row)]

    def _place(self, row: _Row) -> int:
        return self._batch.sequences.index(row)

    def _move(self, row: _Row, place: int) -> None:
        self._batch.swap(self._place(row), place)

    def _empty_batch(self) -> SequenceBatch:
        return SequenceBatch(self._policy, self._pictures, [], _MOST_TOKENS)


def write_alone(scheduler: Scheduler, request: Request, prompt: Prompt, media: MediaReader) -> SampledTurn:
    """Answer `prompt` with the sampling and limits of `request`, while nothing else is written.

    Raises `ModelRefusedError`: the prompt cannot be read, or the arithmetic overflowed; `MediaError`: a picture cannot
    be read.
    """
    outcomes: list[SampledTurn | BaseException | None] = []
    scheduler.admit(PendingAnswer(request, prompt, media, lambda piece: None, lambda: False, outcomes.append))
    while not scheduler.is_idle:
        scheduler.step()
    (outcome,) = outcomes
    if isinstance(outcome, SampledTurn):
        return outcome
    raise outcome or RuntimeError("an answer that nobody cancelled was cancelled")


def shared_length(before: Prompt, ids: list[int], prompt: Prompt) -> int:
    """Count the tokens at the beginning of `prompt` that are in `ids`, whose pictures are those of `before`.

    At least one token of `prompt` is left to be read, and no picture is cut.
    """
    most = min(len(ids), len(prompt.ids) - 1)
    length = next((at for at in range(most) if ids[at] != prompt.ids[at]), most)
    known = {at: picture for at, picture in zip(before.places, before.pictures, strict=True) if at < len(ids)}
    for at, end, picture in zip(prompt.places, prompt.ends, prompt.pictures, strict=True):
        if at > length:
            break
        same = at in known and known[at] == picture
        if not same or end > length:
            return max(0, at - 1)  # with the mark in front of it
    return length


def refused(error: BaseException) -> BaseException:
    """Convert an error of a forward pass to one of ours."""
    if isinstance(error, torch.OutOfMemoryError):
        return ModelRefusedError(
            "the model has no memory left on its device for this prompt. Show fewer or smaller pictures "
            "(LocalSettings.max_pixels), set max_tokens, keep fewer sequences (LocalSettings.max_sequences), or take a "
            "larger device."
        )
    return ModelRefusedError(str(error)) if isinstance(error, TrainingError) else error
