"""One question about a user's own pictures or videos, asked from Python in one call.

trajectory = ask("photo.jpg", "What is written on the sign?", model="openai:gpt-4.1")
print(trajectory.answer)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from PIL import Image
from pydantic import BaseModel

from saccade.core import sync
from saccade.core.settings import load_settings
from saccade.dialects.base import Dialect
from saccade.episode.asking import AskSettings, AskTarget, Question, answered, suited
from saccade.episode.drive import EventCallback, unwatched
from saccade.errors import SettingsError
from saccade.models.base import Model
from saccade.record.trajectory import EpisodeLimits, Sampling, Trajectory
from saccade.tasks.own_media import TAKEN, OwnMedia

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
            `saccade.episode.asking`; which, is a warning of the logger `saccade.episode.ask`.
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
