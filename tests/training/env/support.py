"""Tasks, a sandbox that runs nothing, and an environment of both, for the tests of the environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import settings
from PIL import Image

from saccade.dialects.base import DIALECTS, load_dialect, presets
from saccade.media.store import MediaStore
from saccade.record.content import VideoPart
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.sandbox.result import Picture, RunResult
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv

CODE = "<code>\n```python\nprint(1)\n```\n</code>"
ANSWER = "<answer>\n\\boxed{red}\n</answer>"
EXAMPLES = settings().max_examples // 8
"""Of a drawn test that plays whole episodes in every dialect."""
EVERY_DIALECT = tuple(
    f"{entry.partition('@')[0]}{':' * bool(preset)}{preset}"
    for entry in DIALECTS.ids()
    if not DIALECTS.entries[entry].startswith("tests") and not entry.startswith("hosted")
    for preset in presets(entry) or ("",)
)


def result(code: str) -> RunResult:
    """What the sandbox that runs nothing says: it depends on the code alone."""
    if "raise" in code:
        return RunResult(Status.ERROR, traceback="ValueError: no")
    pictures = ()
    if "show" in code:
        pictures = (Picture("figure", "RGB", 8, 6, bytes(range(144))), Picture("show", "L", 3, 3, bytes(9)))
    return RunResult(Status.OK, stdout=f"{len(code)} <image>\n", pictures=pictures, committed=True)


def tasks(store: MediaStore, count: int = 3, answer: str = "red") -> list[Task]:
    """Tasks with a small picture each, of another size each."""
    parts = [store.put_image(Image.new("RGB", (60 + number, 40), (number, 0, 0))) for number in range(count)]
    return [
        Task(id=f"task-{number}", question="Which colour?", media=(NamedMedia(name="photo", part=part),), answer=answer)
        for number, part in enumerate(parts)
    ]


def video_task(store: MediaStore, answer: str = "red") -> Task:
    """A task whose video is no video; nothing here reads it."""
    name = store.put_blob(b"frames")
    part = VideoPart(sha256=name, width=64, height=48, frames=30, fps=10.0, seconds=3.0)
    return Task(id="task-0", question="Which colour?", media=(NamedMedia(name="clip", part=part),), answer=answer)


def tasks_for(dialect: str, store: MediaStore, answer: str = "red") -> list[Task]:
    """Tasks that the dialect can show."""
    return [video_task(store, answer)] if "video" in dialect else tasks(store, answer=answer)


def tools_for(dialect: str) -> Sequence[str]:
    """Quick tools, for dialects that would otherwise offer every one."""
    return ("crop", "rotate") if load_dialect(dialect).id.startswith("vista") else ()


@contextmanager
def environment(store: MediaStore, dialect: str = "pyvision", **options: Any) -> Iterator[LookAgainEnv]:
    """An environment that runs nothing, closed at the end."""
    options.setdefault("sandbox", ScriptedSandbox(result))
    options.setdefault("tools", tools_for(dialect))
    env = LookAgainEnv(tasks_for(dialect, store), dialect, store, **options)
    try:
        yield env
    finally:
        env.close()
