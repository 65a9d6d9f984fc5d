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
from typing import Final, TypeVar

from saccade.core.disk import one_writer
from saccade.core.retry import INTERACTIVE_RETRY, RetryPolicy
from saccade.core.settings import settings_toml
from saccade.dialects.base import Dialect
from saccade.dialects.registry import DIALECTS
from saccade.episode.drive import EventCallback, run_episode, unwatched
from saccade.episode.flow import Notice, Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.episode.workbench import missing_words
from saccade.errors import SettingsError
from saccade.media.download import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import PROVIDERS, Provider, check_sampling, load_model, provider_of, unheard_sampling
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import Trajectory
from saccade.tasks.frames import FrameSettings
from saccade.tasks.own_media import OwnMedia, brought

# Which dialect suits a model, where nobody names one; and which the model cannot speak at all.
#
# A provider says which dialect suits its models; a checkpoint of Saccade's own knows what it learned, and a replayed
# episode what was spoken in it. Of all others nothing is known: they get `pyvision`, whose prompt explains everything,
# and a line says so.


DEFAULT: Final = "pyvision"

PRICED: Final = "Dollars are those of tokens alone; what the provider takes for its sandbox is not among them."

_NO_FRAMES: Final = FrameSettings()

S = TypeVar("S", bound=EpisodeSettings)


def suited(settings: S) -> tuple[S, tuple[str, ...]]:
    """Return the settings with a dialect, the one that suits the model if they name none, and what a person should
    know.

    Raises:
        RegistryError: a checkpoint or a stored episode names code as its dialect; nothing that is stored is run.
    """
    made, says = _spoken(settings)
    if family(made.dialect) == "hosted":
        says = f"{says} {PRICED}".lstrip()
    return made, tuple(filter(None, (says, unheard_sampling(settings.model, settings.sampling))))


def _spoken(settings: S) -> tuple[S, str]:
    own = own_dialect(settings.model)
    if settings.dialect:
        if own and family(own) != family(settings.dialect):
            learned = f"{settings.model} learned the dialect {own}"
            return settings, f"{learned} and is asked in {settings.dialect}, which it may not know."
        return settings, ""
    provider = provider_of(settings.model)
    if own:
        DIALECTS.check_recorded(own)
        chosen, why = own, "which it learned"
    elif provider.dialect:
        chosen, why = provider.dialect, provider.dialect_reason
    else:
        chosen, why = DEFAULT, "the default, for it is not known what it learned; --dialect names another"
    says = f"{settings.model} is asked in the dialect {chosen}: {why}."
    return settings.model_copy(update={"dialect": chosen}), says


def own_dialect(model: str) -> str:
    """Return the dialect that the model of that name is known to speak; empty if that is not known."""
    return provider_of(model).own_dialect(PROVIDERS.split(model)[1] or "")


def check_speaks(model: str, dialect: Dialect, frames: FrameSettings = _NO_FRAMES) -> None:
    """Refuse what cannot work, whatever the model says; `frames` are those of videos.

    Raises:
        SettingsError: the dialect needs something that the model's backend does not have.
    """
    provider = provider_of(model)
    if frames.rate and provider.videos and not provider.video_frames and dialect.shows_videos:
        from saccade.models.pictures import frames_not_chosen

        raise SettingsError(f"{dialect.id} sends videos as such, and {frames_not_chosen(provider.name)}")
    if dialect.functions and not provider.function_calls:
        raise SettingsError(
            f"{dialect.id} speaks through an API's function calls, and {provider.name} has none. Leave "
            "--dialect out, or name one of text, as pyvision."
        )
    if dialect.provider_runs and not provider.runs_code(PROVIDERS.split(model)[1] or ""):
        raise SettingsError(
            f"{dialect.id} lets the provider's own sandbox run the code, and {_which(provider, model)}. Name "
            "another model of responses, anthropic or gemini, or a dialect whose code runs here."
        )
    if provider.continues is False and _continues(dialect):
        raise SettingsError(
            f"{dialect.id} lets the model continue its own message, and {provider.name} cannot. Use a vllm or sglang "
            "server, named so, or another dialect."
        )


def family(dialect: str) -> str:
    """Return the name of a dialect without its version and preset."""
    return dialect.partition(":")[0].partition("@")[0]


def _which(provider: Provider, model: str) -> str:
    return f"{model} cannot have that" if provider.hosted_code else f"{provider.name} has none"


def _continues(dialect: Dialect) -> bool:
    try:
        return dialect.observe(Execution(status=Status.OK), 1).message.role == "assistant"
    except ValueError:  # it has nothing to observe
        return False


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
    `saccade.episode.asking`.

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

            stack.enter_context(one_writer(out))
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
                from saccade.episode.drive import run_kept

                folder.keep_settings(settings)
                return await run_kept(plan, model, sandbox, folder, tools=tools, watch=watch, cancel=cancel)
        finally:
            await model.close()


def planned(question: Question, settings: AskSettings, dialect: Dialect, store: MediaStore) -> Plan:
    """Return the plan; its opening is made, so a task that the dialect cannot show is refused before a model is asked.

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
