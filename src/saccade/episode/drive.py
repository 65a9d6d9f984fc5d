"""The async driver: plays the loop with a model and a workbench, within the wall time, until it ends.

Any number of episodes can be driven in one event loop. Cancelling the task ends what is under way and closes the
session before `CancelledError` is raised further; to get the trajectory of an interrupted episode, set `cancel`
instead, and gets it with the stop reason `cancelled`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from saccade.episode.effects import Reply, Stopped
from saccade.episode.flow import EpisodeOutcome, flow
from saccade.episode.performer import EventCallback, Performer, ReadClock, unwatched
from saccade.episode.plan import Plan
from saccade.episode.trajectories import trajectory
from saccade.episode.workbench import Workbench
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.trajectory import StopReason, Trajectory
from saccade.sandbox.base import Sandbox

if TYPE_CHECKING:
    from saccade.episode.journal import EpisodeJournal
    from saccade.tools.toolbox import Toolbox


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
