"""A contact sheet of tasks: pictures with their gold boxes, question, choices and answer, as a picture or as a page.

For people's eyes only; it holds the answers. Of a video it shows four frames, which needs PyAV.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO

from PIL import Image

from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import Task
from saccade.tasks.worlds.base import Clip, WorldSample
from saccade.tasks.worlds.sheet import contact_sheet, tile

_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:1400px;padding:0 1rem;color:#222;"
    "background:#fafaf8}main{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:1.2rem}"
    "article{background:#fff;border:1px solid #ddd;padding:.6rem}img{max-width:100%}p{margin:.4rem 0;"
    "overflow-wrap:anywhere}small{color:#666;overflow-wrap:anywhere}"
)


def sheet_picture(tasks: Sequence[Task], store: MediaStore) -> Image.Image:
    """All tasks on one picture, four in a row."""
    return contact_sheet([as_sample(task, store) for task in tasks])


def sheet_page(title: str, facts: Sequence[str], tasks: Sequence[Task], store: MediaStore) -> str:
    """All tasks on one page, which reaches for nothing and runs no script; `facts` stand above them."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    above = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>{above}"
        f"<main>{''.join(_article(task, store) for task in tasks)}</main></html>\n"
    )


def as_sample(task: Task, store: MediaStore) -> WorldSample:
    """A task as a sheet draws it: with its media at hand. Raises `MediaError`."""
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
    choices = f"<p>{escape(' | '.join(task.choices))}</p>" if task.choices else ""
    answer = "not known" if task.answer is None else task.answer
    how = task.grader or f"by type: {task.answer_type.value}"
    return (
        f'<article><img alt="" src="data:image/webp;base64,{data}"><p>{escape(task.question)}</p>{choices}'
        f"<p><b>= {escape(answer)}</b></p><small>{escape(task.id)}<br>grader {escape(how)}<br>"
        f"{escape(', '.join(task.tags))}</small></article>"
    )
