"""Play episodes from code that cannot await, a script or a notebook.

    with SyncPlayer(model, LocalSandbox(), store) as player:
        trajectory = player.play(Plan(task, dialect))

Model and sandbox live on one event loop in a thread of the player's, which owns them. Ctrl-C undoes what is under way
before `KeyboardInterrupt` is raised further.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from saccade.core.sync import LoopThread
from saccade.episode.drive import EventCallback, run_episode, unwatched
from saccade.episode.flow import Plan
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
        """Play one episode. `watch` hears of it on the player's thread. Raises as `run_episode` does."""
        episode = run_episode(plan, self._model, self._sandbox, self._store, tools=self._tools, watch=watch)
        return self._loop.wait(episode)

    def close(self) -> None:
        """Close model and sandbox; idempotent."""
        with suppress(SandboxClosedError):
            self._loop.wait(self._close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def _close(self) -> None:
        await self._model.close()
        if self._sandbox is not None:
            await self._sandbox.close()
