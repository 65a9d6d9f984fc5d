"""Plays an episode in a run folder: kept turn by turn, continued where it was killed, and kept whole at its end."""

from __future__ import annotations

import asyncio
import logging

from saccade.episode.drive import run_episode
from saccade.episode.effects import Notice
from saccade.episode.journal import again_text, open_journal
from saccade.episode.performer import EventCallback, unwatched
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.errors import SaccadeError
from saccade.models.base import Model
from saccade.record.disk import disk_words
from saccade.record.trajectory import Trajectory
from saccade.sandbox.base import Sandbox
from saccade.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


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

    Raises:
        NotKeptError: it was played, and `folder` cannot be written.
        SettingsError, IsolationError, MediaError: as `run_episode` does.
    """
    plan, journal = open_journal(folder, plan, model.name)
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
    except OSError as error:
        raise NotKeptError(trajectory, disk_words(error)) from error
    if journal.problem:
        watch(Notice(journal.problem))
    return trajectory
