"""Play the loop with a model and a workbench, within the wall time, until it ends.

Any number of episodes can be driven in one event loop. Cancelling the task ends what is under way and closes the
session before `CancelledError` is raised further; to get the trajectory of an interrupted episode, with
the stop reason `cancelled`, set `cancel` instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from saccade.core.disk import disk_words
from saccade.core.registry import own_version
from saccade.core.seam import coming, fitting, told
from saccade.episode.flow import (
    Ask,
    Call,
    Effect,
    EpisodeOutcome,
    Event,
    Notice,
    Plan,
    Ran,
    Reply,
    Run,
    Said,
    Stopped,
    Wrote,
    flow,
)
from saccade.episode.workbench import Workbench
from saccade.errors import (
    ContextLimitError,
    IsolationError,
    ModelLostError,
    ModelRefusedError,
    RecordError,
    SaccadeError,
    SandboxError,
    ToolLostError,
)
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Model
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.sandbox.registry import sandbox_at as sandbox_at

if TYPE_CHECKING:
    from saccade.episode.run_folder import EpisodeJournal, RunFolder
    from saccade.tools.toolbox import Toolbox


# Does what the loop asks for: one effect in, one reply out, with every failure of ours typed.
#
# Both drivers and the environment go through here, so an outage means the same to all of them.

_log = logging.getLogger(__name__)

EventCallback = Callable[[Event], None]
"""Hears what happens, in order, on the loop's own thread; it must be quick and must not raise."""
ReadClock = Callable[[], float]
"""Seconds since any moment."""


def unwatched(event: Event) -> None:
    """Hear nothing of an episode: the default where no one watches."""


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

        Raises `IsolationError`: the sandbox refuses to start on this machine, and would for every episode;
        `MediaError`: media of the task are not in the store.
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
        """Return what came of it before the episode was broken off; code is run again, for the state that it leaves."""
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
            ask = self._model.complete
            with told(ask):
                completion = await coming(ask(effect.request, self._media, on_text=on_text), ask)
            fitting(completion, ask, (Completion,))
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


async def run_episode(
    plan: Plan,
    model: Model,
    sandbox: Sandbox | None,
    store: MediaStore,
    *,
    tools: Toolbox | None = None,
    watch: EventCallback = unwatched,
    cancel: asyncio.Event | None = None,
    journal: EpisodeJournal | None = None,
) -> Trajectory:
    """Play one episode and give its trajectory; model and sandbox stay open for the next.

    A `journal` keeps the turns as they come (`run_kept`).

    Raises:
        SettingsError: the dialect cannot show the task.
        IsolationError: the sandbox refuses to start on this machine.
        MediaError: media of the task are not in the store.
    """
    performer = Performer(model, Workbench(plan, sandbox, store, tools), store, watch=watch, journal=journal)
    start = performer.clock()
    try:
        outcome = await drive(plan, performer, cancel=cancel)
    finally:
        await performer.close()
    return trajectory(plan, outcome, model=model.name, seconds=performer.clock() - start)


async def drive(plan: Plan, performer: Performer, *, cancel: asyncio.Event | None = None) -> EpisodeOutcome:
    """Play `plan` to its end."""
    play = flow(plan)
    allowed = plan.limits.wall_seconds
    end = None if allowed is None else performer.clock() + allowed
    try:
        effect = next(play)
        while True:
            performer.watch(effect)
            reply = await within(performer.perform(effect), end, cancel, performer.clock)
            performer.watch(reply)
            effect = play.send(reply)
    except StopIteration as stop:
        outcome: EpisodeOutcome = stop.value
        return outcome


async def within(
    work: Coroutine[Any, Any, Reply], end: float | None, cancel: asyncio.Event | None, clock: ReadClock = time.monotonic
) -> Reply:
    """Await the reply, unless the clock shows `end` or `cancel` is set before it is there; then the work is undone."""
    left = None if end is None else max(0.0, end - clock())
    if cancel is None:  # without a task of its own: most episodes go here
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                return Stopped(StopReason.WALL_LIMIT)
            raise
    task = asyncio.ensure_future(work)
    waits: set[asyncio.Future[Any]] = {task}
    signal = asyncio.ensure_future(cancel.wait())
    waits.add(signal)
    try:
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return Stopped(StopReason.CANCELLED if cancel.is_set() else StopReason.WALL_LIMIT)
    finally:
        for pending in (task, signal):
            if not pending.done():
                pending.cancel()
                with suppress(asyncio.CancelledError):
                    await pending


# Plays an episode in a run folder: kept turn by turn, continued where it was killed, and kept whole at its end.


class NotKeptError(SaccadeError):
    """The episode was played and paid for, and the disk refuses it. `trajectory` holds it."""

    def __init__(self, trajectory: Trajectory, message: str) -> None:
        super().__init__(message)
        self.trajectory = trajectory


async def run_kept(
    plan: Plan,
    model: Model,
    sandbox: Sandbox | None,
    folder: RunFolder,
    *,
    tools: Toolbox | None = None,
    watch: EventCallback = unwatched,
    cancel: asyncio.Event | None = None,
) -> Trajectory:
    """Play `plan`, or continue the unfinished episode of it that `folder` holds, as `watch` then hears.

    Raises `NotKeptError`: it was played, and `folder` cannot be written; `SettingsError`, `IsolationError`,
    `MediaError`: as `run_episode` does.
    """
    from saccade.episode.run_folder import again_text, open_journal

    plan, journal = open_journal(folder, plan, begun(plan, model.name))
    for said in journal.says:
        watch(Notice(said))
    if journal.earlier:
        _log.info("%s: continues an unfinished episode after %d turns.", plan.id, len(journal.earlier))
        watch(Notice(again_text(len(journal.earlier))))
    trajectory = journal.with_earlier(
        await run_episode(plan, model, sandbox, folder.store, tools=tools, watch=watch, cancel=cancel, journal=journal)
    )
    try:
        folder.append(trajectory)
    except (OSError, RecordError) as error:  # a full disk, or a folder that was deleted meanwhile
        raise NotKeptError(trajectory, disk_words(error) if isinstance(error, OSError) else str(error)) from error
    if journal.problem:
        watch(Notice(journal.problem))
    return trajectory


def trajectory(plan: Plan, outcome: EpisodeOutcome, *, model: str, seconds: float) -> Trajectory:
    """Return the trajectory of `outcome`; `model` is the name under which it was asked, `seconds` its wall time."""
    layers = [turn.execution.layers for turn in outcome.turns if turn.execution is not None and turn.execution.layers]
    _log.info("%s: %s after %d turns and %.1f s.", plan.id, outcome.stop.value, len(outcome.turns), seconds)
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model, outcome.model, layers[0] if layers else ()),
        prompt=outcome.prompt,
        turns=outcome.turns,
        stop=outcome.stop,
        stop_detail=outcome.detail,
        created=datetime.now(UTC),
        seconds=seconds,
    )


def begun(plan: Plan, model: str) -> Trajectory:
    """Return the trajectory before the first turn. Raises `SettingsError` for a task that the dialect cannot show."""
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model),
        prompt=plan.opening.messages,
    )


def _provenance(plan: Plan, model: str, revision: str = "", layers: tuple[str, ...] = ()) -> Provenance:
    session = plan.dialect.session
    return Provenance(
        saccade=own_version(),
        dialect=plan.dialect.id,
        model=model,
        model_revision=revision,
        sampling=plan.sampling,
        limits=plan.limits,
        state_policy="" if plan.hosted else session.state.value,
        tools=tuple(tool.name for tool in plan.dialect.tools),
        boxes=plan.dialect.boxes.value,
        repairs=session.repairs,
        layers=layers,
        settings=plan.settings,
        notes=plan.notes,
    )
