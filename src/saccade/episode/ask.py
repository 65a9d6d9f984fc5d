"""One question about a user's own pictures or video, asked from Python in one call.

trajectory = ask("photo.jpg", "What is written on the sign?", model="openai:gpt-4.1")
print(trajectory.answer)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.episode.asking import Asked, AskSettings, Question, answered
from saccade.episode.performer import Watch, unwatched
from saccade.models.base import Model
from saccade.record.trajectory import Trajectory
from saccade.sandbox.loop_thread import LoopThread

Paths = str | os.PathLike[str]


def ask(
    media: Paths | Sequence[Paths],
    question: str,
    *,
    model: str | Model,
    dialect: str | Dialect = "",
    out: Paths | None = None,
    watch: Watch = unwatched,
) -> Trajectory:
    """Ask `model` about one or more pictures, or a video, in a local sandbox; the answer is `Trajectory.answer`.

    With `out` the trajectory and its pictures are kept in that run folder, for `saccade show`, turn by turn: what was
    killed is continued by the same call. Else the pictures that the trajectory names are gone when this returns. A
    model given as an object is closed as one given by name. Without a `dialect` the model is asked in the one that
    suits it, see `saccade.episode.suited`. `watch` hears every event, on a thread of its own.

    Raises:
        NotKeptError: it was played, and `out` cannot be written; its `trajectory` is the episode.
        SaccadeError: a name, a file or a setting is wrong, or this machine cannot isolate a sandbox. What goes wrong
            while the model works is not raised: `Trajectory.stop` and `stop_detail` say it.
    """
    paths = [media] if isinstance(media, str | os.PathLike) else list(media)
    settings = AskSettings(
        model=model if isinstance(model, str) else model.name,
        dialect=dialect if isinstance(dialect, str) else dialect.id,
    )
    asked = Asked(
        settings,
        model=None if isinstance(model, str) else model,
        dialect=None if isinstance(dialect, str) else dialect,
    )
    asking = Question(question, tuple(map(Path, paths)))
    loop = LoopThread()  # works inside a running event loop too, as a notebook has one
    try:
        return loop.wait(answered(asking, asked, out=None if out is None else Path(out), watch=watch))
    finally:
        loop.stop()
