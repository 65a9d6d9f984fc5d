"""Show sources to a person: counts of tasks, missing media, contact sheets; write tasks to a folder."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Protocol

from PIL import Image

from saccade.core.disk import new_folder
from saccade.core.registry import Registry, has_members
from saccade.core.settings import Settings
from saccade.core.unseen import spelled
from saccade.errors import DataError, MediaError, RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import dumps
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import Task
from saccade.tasks.sources.folder import MEDIA, TASKS
from saccade.tasks.sources.task_set import OpenSource, TaskPool
from saccade.tasks.worlds import Clip, WorldSample, contact_sheet, tile

_MOST_VALUES = 12
"""Most values of a tag that are shown."""


def lines(tasks: TaskPool) -> Iterator[str]:
    """Describe all sources, then each."""
    yield from tasks.lines()
    for part in tasks.parts:
        if not part.endless or part.tags:
            yield ""
            yield from _of(part)


def counts(tasks: TaskPool) -> list[dict[str, object]]:
    """Count each source's tasks by type of answer, grader, reward and tag."""
    return [
        {
            "source": str(part.settings),
            "endless": part.endless,
            "tasks": len(part.lights),
            "answers": Counter(light.answer_type.value for light in part.lights),
            "graders": Counter(light.grader or "" for light in part.lights),
            "without_answer": sum(not light.answered for light in part.lights),
            "without_media": sum(not light.media for light in part.lights),
            "left_out_by_tags": part.other_tags,
            "beyond_n": part.undrawn,
            "rewards": _rewards(part),
            "tags": dict(part.tags),
        }
        for part in tasks.parts
    ]


def _rewards(part: OpenSource) -> Counter[str]:
    return Counter(", ".join(f"{name}={value}" for name, value in light.reward) for light in part.lights)


def _of(part: OpenSource) -> Iterator[str]:
    lights = part.lights
    yield f"{part.settings}"
    yield f"  answers     {_counts(Counter(light.answer_type.value for light in lights))}"
    yield f"  graders     {_counts(Counter(light.grader or 'by type of answer' for light in lights))}"
    unanswered = sum(not light.answered for light in lights)
    if unanswered:
        yield f"  no answer   {unanswered}"
    unseen = sum(not light.media for light in lights)
    if unseen:
        yield f"  no media    {unseen}"
    rewards = _rewards(part)
    if set(rewards) != {""}:
        yield f"  reward      {_counts({name or 'as the run': count for name, count in rewards.items()})}"
    for name, values in sorted(_by_name(part.tags).items()):
        shown = _counts(values) if len(values) <= _MOST_VALUES else f"{len(values)} different values"
        yield f"  {name:<12}{shown}"


def _by_name(tags: Mapping[str, int]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for tag, count in tags.items():
        name, equals, value = tag.partition("=")
        counts.setdefault(name if equals else "tags", Counter())[value if equals else tag] += count
    return counts


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(values.items()))


def media_problems(tasks: TaskPool, names: Sequence[str], folder: Path) -> Iterator[str | None]:
    """Yield for every task the problem with its media, or None; `folder` holds them temporarily."""
    store = MediaStore(folder / "media")
    for name in names:
        try:
            tasks.make(name, store)
            yield None
        except (DataError, MediaError, RecordError) as error:
            yield str(error)
        shutil.rmtree(store.root, ignore_errors=True)  # a data set may be larger than the disk


LEFT_OUT: Final = "left-out.jsonl"


@dataclass(frozen=True, slots=True)
class WrittenTasks:
    """The result of writing tasks."""

    tasks: int
    left_out: tuple[str, ...]
    """The reason for each row that gave no task."""


def write_tasks(
    tasks: TaskPool, names: Sequence[str], folder: Path, on_task: Callable[[], None] = lambda: None
) -> WrittenTasks:
    """Write the tasks of `names`, in order, to `folder`: `tasks.jsonl`, `media/` and, with reasons, `left-out.jsonl`.

    The folder appears complete or not at all.

    Raises:
        RecordError: `folder` exists and is not empty, or not one task could be made.
    """
    reasons = [str(problem) for problem in tasks.problems]
    written = 0
    with new_folder(folder) as partial:
        store = MediaStore(partial / MEDIA)
        with (partial / TASKS).open("wb") as file:
            for name in names:
                try:
                    file.write(dumps(tasks.make(name, store)).encode() + b"\n")
                    written += 1
                except (DataError, MediaError, RecordError) as error:
                    reasons.append(str(error))
                on_task()
            file.flush()
            os.fsync(file.fileno())
        if not written:
            raise RecordError(f"no task could be written; the first reason of {len(reasons)}: {reasons[0]}")
        if reasons:
            lines = (json.dumps({"reason": reason}, ensure_ascii=False) + "\n" for reason in reasons)
            (partial / LEFT_OUT).write_text("".join(lines), encoding="utf-8")
    return WrittenTasks(written, tuple(reasons))


# Contact sheets hold the answers, so no model may see them. Four frames of a video are shown, which needs PyAV.

_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:1400px;padding:0 1rem;color:#222;"
    "background:#fafaf8}main{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:1.2rem}"
    "article{background:#fff;border:1px solid #ddd;padding:.6rem}img{max-width:100%}p{margin:.4rem 0;"
    "overflow-wrap:anywhere}small{color:#666;overflow-wrap:anywhere}"
)


def sheet_picture(tasks: Sequence[Task], store: MediaStore) -> Image.Image:
    """Draw all tasks on one picture, four in a row."""
    return contact_sheet([as_sample(task, store) for task in tasks])


def sheet_page(title: str, facts: Sequence[str], tasks: Sequence[Task], store: MediaStore) -> str:
    """Write an HTML page of all tasks below `facts`; it loads nothing and runs no script."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    above = "".join(f"<p>{_html(fact)}</p>" for fact in facts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{_html(title)}</title><style>{_STYLE}</style><h1>{_html(title)}</h1>{above}"
        f"<main>{''.join(_article(task, store) for task in tasks)}</main></html>\n"
    )


def _html(text: str) -> str:
    return escape(spelled(text, joined=True))


def as_sample(task: Task, store: MediaStore) -> WorldSample:
    """Turn a task into a sample with its media in memory. Raises `MediaError`."""
    media = {item.name: _medium(item.part, store) for item in task.media}
    return WorldSample(
        question=task.question,
        media=media,
        answer="(not known)" if task.answer is None else task.answer,
        program="",
        choices=task.choices,
        evidence=task.evidence,
        tags=task.tags,
    )


def _medium(part: ImagePart | VideoPart, store: MediaStore) -> Image.Image | Clip:
    if isinstance(part, ImagePart):
        return store.open(part).decode()
    return Clip(store.get_bytes(part.sha256), part.width, part.height, part.frames, part.fps, part.mime)


def _article(task: Task, store: MediaStore) -> str:
    shown = BytesIO()
    tile(as_sample(task, store)).save(shown, "WEBP", quality=84)
    data = base64.b64encode(shown.getvalue()).decode("ascii")
    choices = f"<p>{_html(' | '.join(task.choices))}</p>" if task.choices else ""
    answer = "not known" if task.answer is None else task.answer
    how = task.grader or f"by type: {task.answer_type.value}"
    return (
        f'<article><img alt="" src="data:image/webp;base64,{data}"><p>{_html(task.question)}</p>{choices}'
        f"<p><b>= {_html(answer)}</b></p><small>{_html(task.id)}<br>grader {_html(how)}<br>"
        f"{_html(', '.join(task.tags))}</small></article>"
    )


class TaskForm(Protocol):
    """Writes tasks in an external format: `saccade tasks write --to NAME`, entry points `saccade.task-forms`."""

    settings: type[Settings]
    """Settings class of this form."""

    def write(self, task: Task, store: MediaStore, root: Path, settings: Any) -> Path:
        """Write a task below the folder `root`, which is created if missing; return its path. Raises `DataError` if the
        task cannot be written in this form, or is there already, `MissingMediaError` if the store lacks a picture.
        """


TASK_FORMS: Final = Registry[TaskForm]("task-forms", {}, has_members(("settings", "write")))
