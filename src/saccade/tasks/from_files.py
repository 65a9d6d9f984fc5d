"""A task made of a user's own files: a question, and pictures and videos from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from saccade.errors import DecodeError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.content import ImagePart, VideoPart
from saccade.record.task import AnswerType, NamedMedia, Task

VIDEO_SUFFIXES = frozenset({".mp4", ".webm", ".mkv", ".mov", ".avi", ".m4v", ".mpg", ".mpeg"})


def task_from_files(question: str, paths: Sequence[Path], store: MediaStore, choices: Sequence[str] = ()) -> Task:
    """The task; its media are copied into `store`, and its id depends on nothing but question, choices and media.

    Raises:
        SettingsError: the question is empty.
        MediaError: a file cannot be read, or is neither a picture nor a video.
        UnavailableError: a file is a video, and what reads videos is not installed.
    """
    if not question.strip():
        raise SettingsError("the question is empty. Say what you want to know.")
    media = tuple(
        NamedMedia(name=f"{number}-{clean_text(path.name)}", part=_part(path, store))
        for number, path in enumerate(paths)
    )
    question = clean_text(question)
    choices = tuple(map(clean_text, choices))
    named = "\0".join([question, *choices, *(item.part.sha256 for item in media)])
    return Task(
        id=f"ask-{sha256(named.encode()).hexdigest()[:12]}",
        question=question,
        media=media,
        choices=choices,
        answer_type=AnswerType.CHOICE if choices else AnswerType.TEXT,
        source="ask",
    )


def _part(path: Path, store: MediaStore) -> ImagePart | VideoPart:
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return store.put_video(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DecodeError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    try:
        return store.put_bytes(data)
    except DecodeError as error:
        raise DecodeError(f"{path} is no picture that can be used: {error}") from error
