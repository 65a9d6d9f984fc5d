"""IconQA, whose choices can be pictures: `problems.json` with a row for each key, or a folder for each question.

A choice that is a picture becomes `<image N>`, and its picture the Nth of the task, after the one of the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.tasks.benchmarks.loaders.folders import FolderLoader, read_object
from saccade.tasks.benchmarks.loaders.rows import RowLoader
from saccade.tasks.benchmarks.problem import FieldError
from saccade.tasks.benchmarks.values import as_text

_PICTURES = (".png", ".jpg", ".jpeg")


def from_problems(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of `problems.json`; its pictures lie in `iconqa/<split>/<type>/<key>/`."""
    place = [as_text(row.get(name) or "", name) for name in ("split", "ques_type", "_key")]
    if not all(place):
        raise FieldError(
            "images", "the row does not say its split, type and key, which name the folder of its pictures"
        )
    return {**row, **_pictures(row, "/".join(place))}


def beside(file: Path) -> Mapping[str, Any]:
    """Further fields of the question whose `data.json` this is."""
    steps = [file.parents[2].name, file.parents[1].name, file.parents[0].name]
    row = read_object(file)
    return {"split": steps[0], "ques_type": steps[1], "_key": steps[2], **_pictures(row, "/".join(steps))}


def _pictures(row: Mapping[str, Any], folder: str) -> dict[str, Any]:
    own = f"{folder}/{row.get('image') or 'image.png'}"
    choices = row.get("choices") or []
    if not isinstance(choices, list):
        raise FieldError("choices", "it is no list")
    if not choices or not all(isinstance(choice, str) and choice.endswith(_PICTURES) for choice in choices):
        return {"images": [own]}
    images = [own, *(f"{folder}/{choice}" for choice in choices)]
    return {"images": images, "choices": [f"<image {number}>" for number in range(2, len(images) + 1)]}


PROBLEMS = RowLoader(from_problems)
FOLDERS = FolderLoader(beside)
