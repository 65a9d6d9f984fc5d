"""One question about a user's own pictures or videos, asked from Python in one call.

trajectory = ask("photo.jpg", "What is written on the sign?", model="openai:gpt-4.1")
print(trajectory.answer)
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar, Unpack

import numpy as np
from PIL import Image
from pydantic import BaseModel

from saccade.core import sync
from saccade.core.disk import one_writer
from saccade.core.retry import INTERACTIVE_RETRY, RetryPolicy
from saccade.core.settings import load_settings, settings_toml
from saccade.dialects.base import DIALECTS, Dialect
from saccade.episode.drive import EventCallback, run_episode, run_kept, unwatched
from saccade.episode.flow import Notice, Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.episode.workbench import missing_words
from saccade.errors import SettingsError
from saccade.media.decode import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import PROVIDERS, Provider, check_sampling, load_model, provider_of, unheard_sampling
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import EpisodeLimits, Sampling, Trajectory
from saccade.tasks.media import TAKEN, FrameSettings, OwnMedia, brought

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
    """Return the settings with a dialect, one that suits the model if they name none, and what a person should know.

    Raises `RegistryError`: a checkpoint or a stored episode names code as its dialect; nothing that is stored is run.
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
    """Refuse what cannot work, whatever the model says; `frames` are those of videos. Raises `SettingsError` if the
    dialect needs something that the model's backend does not have.
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
    `saccade.episode.ask`.

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
                folder.keep_settings(settings)
                return await run_kept(plan, model, sandbox, folder, tools=tools, watch=watch, cancel=cancel)
        finally:
            await model.close()


def planned(question: Question, settings: AskSettings, dialect: Dialect, store: MediaStore) -> Plan:
    """Return the plan; its opening is made, so a task that the dialect cannot show is refused before a model is asked.

    It names no settings; who keeps the record says which are written into it.

    Raises `SettingsError`: the dialect cannot show it, or the question is empty; `MediaError`: a picture or a video
    cannot be used.
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


_log = logging.getLogger(__name__)

Paths = str | os.PathLike[str]
Table = Mapping[str, Any]


class AskOptions(TypedDict, total=False):
    """What else can be said to `ask`: all that the command line knows; a table of settings may be a mapping."""

    choices: Sequence[str]
    """Possible answers."""
    allow_urls: bool
    """Whether addresses are downloaded."""
    watch: EventCallback
    """Hears every event, on a thread of its own."""
    settings: Paths
    """A TOML file of settings; what is given besides it comes first."""
    prompt_file: Paths
    """A prompt file of the user's own."""
    sampling: Sampling | Table
    """`temperature`, `top_p`, `top_k`, `max_tokens`, `seed`."""
    limits: EpisodeLimits | Table
    """`turns`, `context_tokens`, `images`, `pixels`, `wall_seconds`, `failed_calls`."""
    tools: Sequence[str]
    """Typed tools to offer."""
    sandbox: str
    """`local`, or addresses of `saccade sandbox serve` with commas between them."""
    session: Table
    """Limits of a session: `wall_seconds`, `cpu_seconds`, `memory_bytes`, `file_bytes`, `workspace_bytes`."""
    frames: Table
    """Videos shown as frames: `fps` or `count`, `most`, `pixels`."""
    media: Table
    """`max_pixels`, `max_bytes`, `shown_pixels`, `max_video_bytes`, `allow_urls`, `url_bytes`, `url_seconds`."""


def ask(
    pictures: OwnMedia | Sequence[OwnMedia],
    question: str,
    *,
    model: str | Model | None = None,
    dialect: str | Dialect | None = None,
    out: Paths | None = None,
    **options: Unpack[AskOptions],
) -> Trajectory:
    """Ask `model` about pictures or videos; the answer is `Trajectory.answer`.

    Args:
        pictures: one or a sequence of paths, http(s) addresses, bytes of encoded files, PIL images and numpy arrays,
            mixed as you like; an empty sequence asks about no picture.
        question: what you want to know.
        model: by name, or an object, which is closed in the end. None: that of `settings`.
        dialect: by name, or an object. None: that of `settings`, or the one that suits the model, see
            `saccade.episode.ask`; which, is a warning of the logger `saccade.episode.ask`.
        out: run folder that keeps the episode turn by turn, for `saccade show`; what was killed is continued by the
            same call. Without it the pictures are gone afterwards.
        options: the possible answers, limits, sampling, tools and all the rest, see `AskOptions`.

    What was done to the media before (frames of a video, a large picture shown small, a colour profile that is not
    followed) is in `Trajectory.provenance.notes`.

    Raises:
        NotKeptError: it was played, and `out` cannot be written; its `trajectory` is the episode.
        SaccadeError: a name, a type, a file or a setting is wrong, or this machine cannot isolate a sandbox. What goes
            wrong while the model works is not raised: `Trajectory.stop` and `stop_detail` say it.
    """
    watch, settings = options.pop("watch", unwatched), options.pop("settings", None)
    answers = tuple(options.pop("choices", ()))
    if options.pop("allow_urls", False):
        options["media"] = {**_plain(options.get("media", {})), "allow_urls": True}
    overrides = {name: _plain(value) for name, value in options.items()}
    overrides |= {name: _name(thing) for name, thing in (("model", model), ("dialect", dialect)) if thing is not None}
    chosen, says = suited(load_settings(AskSettings, settings, given=overrides))
    for line in says:
        _log.warning("%s", line)
    target = AskTarget(
        chosen,
        model=None if isinstance(model, str) else model,
        dialect=None if isinstance(dialect, str) else dialect,
    )
    asking = Question(question, _listed(pictures), answers)
    return sync.run(answered(asking, target, out=None if out is None else Path(out), watch=watch))


def _listed(pictures: object) -> tuple[OwnMedia, ...]:
    if isinstance(pictures, str | os.PathLike | bytes | Image.Image | np.ndarray):
        return (pictures,)
    if isinstance(pictures, Sequence):
        return tuple(pictures)
    raise SettingsError(
        f"a {type(pictures).__module__}.{type(pictures).__qualname__} is no picture here. Taken are {TAKEN}, "
        "one or a list of them."
    )


def _name(thing: str | Model | Dialect) -> str:
    if isinstance(thing, str):
        return thing
    name = getattr(thing, "name", None) or getattr(thing, "id", None)
    if not isinstance(name, str):
        raise SettingsError(
            f"a {type(thing).__module__}.{type(thing).__qualname__} is neither a model nor a dialect. Give a name such "
            "as openai:gpt-4.1, or an object with the members of `saccade.models.base.Model`."
        )
    return name


def _plain(value: object) -> Any:
    """Return the value as a settings file would hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple | list) else value
