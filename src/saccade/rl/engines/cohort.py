"""Episodes that decode together: when the last of them asks, one wave samples a turn for each.

What a wave samples depends on seeds and questions alone, never on who asked first or how long a sandbox took: so a run
can be repeated to the bit. While one cohort decodes, the sandboxes of another work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from saccade.rl.engines.base import Question, Sampled
from saccade.rl.engines.draw import draw
from saccade.rl.engines.rows import Line, Policy, Rows
from saccade.rl.engines.turn import Turn, begun
from saccade.tokens.stream import News


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that waits for the others."""

    news: News
    turn: Turn
    future: asyncio.Future[Sampled]


class CohortSeat:
    """A `base.Seat` whose tokens are sampled together with those of its cohort."""

    def __init__(self, cohort: Cohort, line: Line) -> None:
        self._cohort = cohort
        self._line = line

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._line.ids)

    async def ask(self, question: Question) -> Sampled:
        """See `base.Seat`. A cancelled question is the seat's last."""
        try:
            return await self._cohort.ask(self._line, question)
        except asyncio.CancelledError:
            self.leave()
            raise

    def leave(self) -> None:
        self._cohort.leave(self._line)


class Cohort:
    """Some seats, their rows, and the wave that is under way."""

    def __init__(
        self,
        policy: Policy,
        rows: Callable[[Sequence[Line]], Rows],
        seeds: Sequence[int],
        thread: ThreadPoolExecutor,
        spent: Callable[[float], None],
    ) -> None:
        """`rows` puts lines into a cache; waves run in `thread`; `spent` hears the seconds of each."""
        self._policy = policy
        self._thread = thread
        lines = [Line(np.random.default_rng(seed)) for seed in seeds]
        self._rows: Rows | None = rows(lines)
        self._spent = spent
        self._seated = set(lines)
        self._asked: dict[Line, _Asked] = {}
        self._wave: asyncio.Task[None] | None = None
        self.seats = [CohortSeat(self, line) for line in lines]

    async def ask(self, line: Line, question: Question) -> Sampled:
        """The next turn of `line`, together with those of all others."""
        news = question.news
        if line not in self._seated:
            raise RuntimeError("this seat was left; its episode is over")
        length = len(line.ids) - news.unread + len(news.ids)
        turn = begun(self._policy, question, length)
        future: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._asked[line] = _Asked(news, turn, future)
        self._go()
        return await future

    def leave(self, line: Line) -> None:
        self._seated.discard(line)
        self._asked.pop(line, None)
        if self._seated:
            self._go()
        elif self._wave is None:
            self._rows = None

    def _go(self) -> None:
        if self._wave is None and self._asked and len(self._asked) == len(self._seated):
            asked, self._asked = self._asked, {}
            self._wave = asyncio.get_running_loop().create_task(self._sample(asked))

    async def _sample(self, asked: dict[Line, _Asked]) -> None:
        try:
            done = await asyncio.get_running_loop().run_in_executor(self._thread, self._turns, asked)
            for line, item in asked.items():
                if not item.future.done():
                    item.future.set_result(done[line])
        except BaseException as error:
            for item in asked.values():
                if not item.future.done():
                    item.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._wave = None
            if not self._seated:
                self._rows = None
            self._go()

    def _turns(self, asked: dict[Line, _Asked]) -> dict[Line, Sampled]:
        """A turn for each line; in the engine's thread."""
        began = time.perf_counter()
        rows = self._rows
        if rows is None:
            raise RuntimeError("the cohort was given up while it was asked")
        for line, item in asked.items():
            line.hear(item.news)
        turns = {line: item.turn for line, item in asked.items()}
        with torch.inference_mode():
            self._write(rows, turns)
        self._spent(time.perf_counter() - began)
        return {line: turn.done() for line, turn in turns.items()}

    def _write(self, rows: Rows, turns: dict[Line, Turn]) -> None:
        """Token by token, until every turn has ended."""
        active = self._gathered(rows, turns)
        while active:
            logits = rows.read(active)
            lines = rows.lines[:active]
            tokens, logprobs = draw(
                logits,
                self._policy.checkpoint.forbidden,
                [turns[line].temperature for line in lines],
                [line.random.random() for line in lines],
            )
            for line, token, logprob in zip(lines, tokens, logprobs, strict=True):
                line.ids.append(token)
                line.unread = 1
                turns[line].take(token, logprob)
            for place in reversed(range(active)):
                if turns[rows.lines[place]].finish is not None:
                    active -= 1
                    rows.swap(place, active)

    @staticmethod
    def _gathered(rows: Rows, turns: dict[Line, Turn]) -> int:
        """Bring the lines that are asked to the front; how many there are."""
        active = len(rows.lines)
        for place in reversed(range(len(rows.lines))):
            if rows.lines[place] not in turns:
                active -= 1
                rows.swap(place, active)
        return active
