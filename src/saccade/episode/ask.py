"""One question about a user's own pictures or video, asked from Python in one call.

trajectory = ask("photo.jpg", "What is written on the sign?", model="openai:gpt-4.1")
print(trajectory.answer)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.drive_sync import SyncPlayer
from saccade.episode.equip import equipped
from saccade.episode.performer import Watch, unwatched
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import load_model
from saccade.record.trajectory import Trajectory
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.from_files import task_from_files

Paths = str | os.PathLike[str]


def ask(
    media: Paths | Sequence[Paths],
    question: str,
    *,
    model: str | Model,
    dialect: str | Dialect = "pyvision",
    out: Paths | None = None,
    watch: Watch = unwatched,
) -> Trajectory:
    """Ask `model` about one or more pictures, or a video, in a local sandbox; the answer is `Trajectory.answer`.

    With `out` the trajectory and its pictures are kept in that run folder, for `saccade show`; else the pictures that
    the trajectory names are gone when this returns. A model given as an object is closed as one given by name.

    Raises:
        SaccadeError: a name, a file or a setting is wrong, or this machine cannot isolate a sandbox. What goes wrong
            while the model works is not raised: `Trajectory.stop` and `stop_detail` say it.
    """
    paths = [media] if isinstance(media, str | os.PathLike) else list(media)
    chosen, tools = equipped(load_dialect(dialect) if isinstance(dialect, str) else dialect)
    with ExitStack() as stack:
        folder = None if out is None else RunFolder(Path(out))
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-ask-")))
        store = MediaStore(root) if folder is None else folder.store
        task = task_from_files(question, [Path(path) for path in paths], store)
        plan = Plan(task, chosen, rollout=0 if folder is None else folder.next_rollout(task.id))
        asked = load_model(model) if isinstance(model, str) else model
        player = stack.enter_context(SyncPlayer(asked, LocalSandbox(limits=chosen.sandbox), store, tools=tools))
        trajectory = player.play(plan, watch=watch)
        if folder is not None:
            folder.append(trajectory)
        return trajectory
