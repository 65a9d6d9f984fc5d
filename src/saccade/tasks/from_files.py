"""A task made of what a user brings: a question, and pictures and videos of the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from saccade.errors import SettingsError
from saccade.media.settings import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.task import AnswerType, NamedMedia, Task
from saccade.tasks.own_media import OwnMedia, take


@dataclass(frozen=True, slots=True)
class Brought:
    """The task, and what the user should know of how the media were taken."""

    task: Task
    notes: tuple[str, ...] = ()


def task_from_files(question: str, media: Sequence[OwnMedia], store: MediaStore, choices: Sequence[str] = ()) -> Task:
    """A question about pictures and videos of one's own, which are copied into `store`. Raises as `brought`."""
    return brought(question, media, store, choices).task


def brought(
    question: str,
    media: Sequence[OwnMedia],
    store: MediaStore,
    choices: Sequence[str] = (),
    settings: OwnMediaSettings | None = None,
) -> Brought:
    """The task; its media are copied into `store`, and its id depends on nothing but question, choices and media.

    Raises:
        SettingsError: the question is empty, or something is of a type that is not taken.
        MediaError: a file cannot be read, is neither a picture nor a video, or is too large.
        UnavailableError: a file is a video, and what reads videos is not installed.
    """
    question = clean_text(question)
    if not question.strip():
        raise SettingsError("the question is empty. Say what you want to know.")
    settings = settings or OwnMediaSettings()
    store = store.limited(settings.limits)
    parts = [take(item, store, settings) for item in media]
    named = tuple(
        NamedMedia(name=f"{number}-{clean_text(item.name)}", part=item.part) for number, item in enumerate(parts)
    )
    choices = tuple(map(clean_text, choices))
    digest = sha256("\0".join([question, *choices, *(item.part.sha256 for item in named)]).encode()).hexdigest()
    task = Task(
        id=f"ask-{digest[:12]}",
        question=question,
        media=named,
        choices=choices,
        answer_type=AnswerType.CHOICE if choices else AnswerType.TEXT,
        source="ask",
    )
    return Brought(task, tuple(item.note for item in parts if item.note))


def own_name(name: str) -> str:
    """The user's own name of media whose name in a task is `name`: without the number that makes it unique."""
    return re.sub(r"^\d+-", "", name)
