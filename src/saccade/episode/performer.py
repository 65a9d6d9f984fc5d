"""Does what the loop asks for: one effect in, one reply out, with every failure of ours typed.

Both drivers and the environment go through here, so an outage means the same to all of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from saccade.episode.effects import Ask, Call, Effect, Event, Ran, Reply, Run, Said, Stopped, Wrote
from saccade.episode.workbench import Workbench
from saccade.errors import (
    ContextLimitError,
    IsolationError,
    ModelLostError,
    ModelRefusedError,
    SandboxError,
    ToolLostError,
)
from saccade.models.base import MediaReader, Model
from saccade.record.disk import disk_words
from saccade.record.trajectory import StopReason

if TYPE_CHECKING:
    from saccade.episode.journal import EpisodeJournal

_log = logging.getLogger(__name__)

EventCallback = Callable[[Event], None]
"""Hears what happens, in order, on the loop's own thread; it must be quick and must not raise."""
ReadClock = Callable[[], float]
"""Seconds since any moment."""


def unwatched(event: Event) -> None:
    """A watch that hears nothing."""


class Performer:
    """Asks one model and uses one workbench."""

    def __init__(
        self,
        model: Model | None,
        workbench: Workbench,
        media: MediaReader,
        *,
        watch: EventCallback = unwatched,
        clock: ReadClock = time.monotonic,
        journal: EpisodeJournal | None = None,
    ) -> None:
        """Without a `model` only `Run` and `Call` can be done. A `journal` keeps the turns as they come."""
        self._model = model
        self._workbench = workbench
        self._media = media
        self.watch = watch
        self.clock = clock
        self._journal = journal

    def perform(self, effect: Effect) -> Coroutine[Any, Any, Reply]:
        """Return what does it when awaited. Outages and refusals are a `Stopped`.

        Raises:
            IsolationError: the sandbox refuses to start on this machine, and would for every episode.
            MediaError: media of the task are not in the store.
        """
        if self._journal is not None:
            return self._noted(effect, self._journal)
        return self._ask(effect) if isinstance(effect, Ask) else self._act(effect)

    async def _noted(self, effect: Effect, journal: EpisodeJournal) -> Reply:
        journal.note(effect.turns)
        again = await self._again(effect, journal)
        if again is not None:
            return again
        return await (self._ask(effect) if isinstance(effect, Ask) else self._act(effect))

    async def _again(self, effect: Effect, journal: EpisodeJournal) -> Reply | None:
        """What came of it before the episode was broken off; code is run again, for the state that it leaves."""
        number = len(effect.turns) - (not isinstance(effect, Ask))
        turn = journal.before(number)
        if turn is None:
            return None
        if isinstance(effect, Ask):
            from saccade.models.replay import completion_of

            return Said(completion_of(turn), turn.model_seconds)
        if turn.execution is None:
            return None
        if isinstance(effect, Run):
            now = await self._act(effect)
            if isinstance(now, Stopped):
                return now
            journal.compare(number, turn.execution, now.execution)
        return Ran(turn.execution, turn.execution_seconds)

    async def _ask(self, effect: Ask) -> Reply:
        if self._model is None:
            raise TypeError("this performer has no model; answer `Ask` yourself")
        start = self.clock()
        on_text = None if self.watch is unwatched else self._wrote
        try:
            completion = await self._model.complete(effect.request, self._media, on_text=on_text)
        except ContextLimitError as error:
            return Stopped(StopReason.CONTEXT_LIMIT, str(error))
        except ModelRefusedError as error:
            return Stopped(StopReason.MODEL_REFUSED, str(error))
        except ModelLostError as error:
            return Stopped(StopReason.MODEL_LOST, str(error))
        seconds, usage = self.clock() - start, completion.usage
        _log.debug("Turn %d: %s tokens in %.1f s.", len(effect.turns) + 1, usage.sampled_tokens, seconds)
        return Said(completion, seconds)

    async def _act(self, effect: Run | Call) -> Ran | Stopped:
        start = self.clock()
        try:
            if isinstance(effect, Run):
                execution = await self._workbench.run(effect)
            else:
                execution = await self._workbench.call(effect)
        except IsolationError:
            raise
        except SandboxError as error:
            return Stopped(StopReason.SANDBOX_LOST, str(error))
        except ToolLostError as error:
            return Stopped(StopReason.TOOL_LOST, str(error))
        except OSError as error:  # a full disk, above all
            return Stopped(StopReason.SANDBOX_LOST, f"what the call gave back cannot be kept: {disk_words(error)}")
        seconds = self.clock() - start
        _log.debug("Call of turn %d: %s in %.2f s.", len(effect.turns), execution.status.value, seconds)
        return Ran(execution, seconds)

    async def close(self) -> None:
        """Close the workbench; idempotent."""
        await self._workbench.close()

    def _wrote(self, piece: str) -> None:
        self.watch(Wrote(piece))
