"""One question, put to a model: all that `saccade ask` on the command line and `saccade.ask` in Python do.

Nothing is asked before the task, the dialect's opening and the folder are known to be usable. Ctrl-C, screens and exit
codes are the callers'.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from saccade.core.retry import INTERACTIVE_RETRY, RetryPolicy
from saccade.dialects.base import Dialect
from saccade.episode.drive import run_episode
from saccade.episode.effects import Notice
from saccade.episode.equip import missing_words
from saccade.episode.performer import EventCallback, unwatched
from saccade.episode.plan import Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.episode.suited import check_speaks
from saccade.media.settings import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import load_model
from saccade.models.sampling import check_sampling
from saccade.record.settings import settings_toml
from saccade.record.trajectory import Trajectory
from saccade.tasks.from_files import brought
from saccade.tasks.own_media import OwnMedia

_NOTHING_SHOWN: Final = "no picture is given: the question is asked alone"


class AskSettings(EpisodeSettings):
    """Everything that decides how a question is asked."""

    retry: RetryPolicy = INTERACTIVE_RETRY
    media: OwnMediaSettings = OwnMediaSettings()
    """What is taken of the user's pictures and videos, and how large a picture is shown."""


@dataclass(frozen=True)
class Question:
    """What a user wants to know."""

    text: str
    media: tuple[OwnMedia, ...] = ()
    """Pictures and videos, in the order in which they are shown."""
    choices: tuple[str, ...] = ()
    """Possible answers."""


@dataclass(frozen=True)
class AskTarget:
    """Who is asked, and how; an object here stands in place of the name in the settings, which then is a label."""

    settings: AskSettings
    model: Model | None = None
    dialect: Dialect | None = None


async def answered(
    question: Question,
    target: AskTarget,
    *,
    out: Path | None = None,
    watch: EventCallback = unwatched,
    cancel: asyncio.Event | None = None,
) -> Trajectory:
    """Ask, and give the whole episode; with `out` it is kept in that run folder, with its pictures and settings.

    There it is kept turn by turn, and one that was killed is continued. The settings name a dialect: see
    `saccade.episode.suited`.

    The model is closed at the end, also one that was given as an object.

    Raises:
        NotKeptError: it was played, and `out` cannot be written.
        OSError: `out` cannot be used; nothing was asked yet.
        SaccadeError: a name, a file or a setting is wrong, or this machine cannot isolate a sandbox.
    """
    settings, model = target.settings, target.model
    if model is None:
        check_sampling(settings.model, settings.sampling)
    dialect, tools = settings.spoken(target.dialect)
    if model is None:
        check_speaks(settings.model, dialect, settings.frames)
    with ExitStack() as stack:
        folder = None
        if out is not None:
            from saccade.episode.run_folder import mended

            folder = mended(out)
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-ask-"))
        store = (MediaStore(root) if folder is None else folder.store).limited(settings.media.limits)
        # In a thread: large media take seconds, and Ctrl-C is heard meanwhile.
        plan = await asyncio.to_thread(planned, question, settings, dialect, store)
        rollout = 0 if folder is None else folder.next_rollout(plan.task.id)
        plan = replace(plan, rollout=rollout, settings=settings_toml(settings))
        for note in plan.notes:
            watch(Notice(note))
        if missing := missing_words(tools):
            watch(Notice(missing))
        if model is None:
            model = load_model(settings.model, settings.retry)
        try:
            async with settings.provider(plan.dialect) as sandbox:
                if folder is None:
                    return await run_episode(plan, model, sandbox, store, tools=tools, watch=watch, cancel=cancel)
                from saccade.episode.kept import run_kept

                folder.keep_settings(settings)
                return await run_kept(plan, model, sandbox, folder, tools=tools, watch=watch, cancel=cancel)
        finally:
            await model.close()


def planned(question: Question, settings: AskSettings, dialect: Dialect, store: MediaStore) -> Plan:
    """The plan; its opening is made, so a task that the dialect cannot show is refused before a model is asked.

    It names no settings; who keeps the record says which are written into it.

    Raises:
        SettingsError: the dialect cannot show it, or the question is empty.
        MediaError: a picture or a video cannot be used.
    """
    task = brought(question.text, question.media, store, question.choices, settings.media)
    ready = prepared_to_ask(task.task, dialect, settings, store)
    return Plan(
        ready.task,
        ready.dialect,
        sampling=settings.sampling,
        given_limits=limits_with(dialect.limits, **settings.limits.model_dump()),
        shown=ready.shown,
        notes=(*(() if question.media else (_NOTHING_SHOWN,)), *task.notes, *ready.notes),
        opened=ready.opening,
    )
