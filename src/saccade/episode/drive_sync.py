"""The sync driver: plays the same loop for code that cannot await, a script or a notebook.

    with SyncPlayer(model, LocalSandbox(), store) as player:
        trajectory = player.play(Plan(task, dialect))

Model and sandbox are asynchronous underneath; they live on one event loop in a thread of the player's, which owns them.
The generator itself runs on the caller's thread. Ctrl-C undoes what is under way before `KeyboardInterrupt` is raised
further.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from saccade.core.sync import LoopThread
from saccade.episode.drive import EventCallback, Performer, trajectory, unwatched, within
from saccade.episode.flow import Effect, EpisodeOutcome, Plan, Reply, flow
from saccade.episode.workbench import Workbench
from saccade.errors import SandboxClosedError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.trajectory import Trajectory
from saccade.sandbox.base import Sandbox

if TYPE_CHECKING:
    from saccade.tools.toolbox import Toolbox


class SyncPlayer:
    """Plays episodes one after the other."""

    def __init__(
        self, model: Model, sandbox: Sandbox | None, store: MediaStore, *, tools: Toolbox | None = None
    ) -> None:
        """Takes `model` and `sandbox` over: closing the player closes them."""
        self._model = model
        self._sandbox = sandbox
        self._store = store
        self._tools = tools
        self._loop = LoopThread()

    def play(self, plan: Plan, *, watch: EventCallback = unwatched) -> Trajectory:
        """Play one episode. Raises as `run_episode` does."""
        workbench = Workbench(plan, self._sandbox, self._store, self._tools)
        performer = Performer(self._model, workbench, self._store, watch=watch)
        start = performer.clock()
        try:
            outcome = self._drive(plan, performer)
        finally:
            self._loop.wait(workbench.close())
        return trajectory(plan, outcome, model=self._model.name, seconds=performer.clock() - start)

    def close(self) -> None:
        """Close model and sandbox; idempotent."""
        with suppress(SandboxClosedError):
            self._loop.wait(self._close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _drive(self, plan: Plan, performer: Performer) -> EpisodeOutcome:
        play = flow(plan)
        allowed = plan.limits.wall_seconds
        end = None if allowed is None else performer.clock() + allowed
        try:
            effect = next(play)
            while True:
                performer.watch(effect)
                reply = self._loop.wait(_performed(performer, effect, end))
                performer.watch(reply)
                effect = play.send(reply)
        except StopIteration as stop:
            outcome: EpisodeOutcome = stop.value
            return outcome

    async def _close(self) -> None:
        await self._model.close()
        if self._sandbox is not None:
            await self._sandbox.close()


async def _performed(performer: Performer, effect: Effect, end: float | None) -> Reply:
    """Return the reply to `effect`.

    Begun on the loop only, so that a player that is closed leaves nothing half begun.
    """
    return await within(performer.perform(effect), end, None, performer.clock)
