"""Write answers side by side: every pass samples a token for each, and answers come and go at any time.

    scheduler = Scheduler(PlainPolicy(checkpoint), most_sequences=8)
    scheduler.admit(answer)            # reads its prompt
    scheduler.step()                   # a token more for each

Keys and values stay when an answer has ended, so the next turn of its episode reads only what is new: a prompt takes
over the sequence that it continues, or copies the longest beginning that it shares with one. The least recently used
sequence makes room. Use in one thread. Which answers are written together can change the last digits of
log-probabilities, and so, very rarely, a token.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch

from saccade.errors import ContextLimitError, ModelError, ModelRefusedError, TrainingError
from saccade.models.base import MediaReader, Request
from saccade.models.local_weights import Checkpoint
from saccade.models.pictures import PictureRules
from saccade.tokens.build import PromptDelta
from saccade.tokens.decoder import TokenSampler
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import Prompt, frame_encoder
from saccade.tokens.sequences import Policy, SequenceBatch, TokenSequence
from saccade.tokens.turn import ContextFullError, SampledTurn, TurnRequest, TurnState, start_turn

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
