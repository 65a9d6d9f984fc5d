"""The published numbers of every preset: limits of an episode, of the sandbox and of a session, stops and modes."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from saccade.dialects.base import DIALECTS, load_dialect, presets

GOLDEN = Path(__file__).parent / "golden" / "presets.txt"


def settings(at: str, value: Any, default: object = None) -> Iterator[str]:
    """A line for each plain value that is not its class's default, with the way to it.

    Texts of prompts and tools have golden files of their own.
    """
    if isinstance(value, BaseModel):
        for name, model_field in type(value).model_fields.items():
            yield from settings(f"{at}.{name}", getattr(value, name), model_field.get_default())
    elif is_dataclass(value):
        for one in fields(value):
            if one.name not in ("prompts", "tools", "toolbox"):
                yield from settings(f"{at}.{one.name}", getattr(value, one.name))
    elif value != default and isinstance(value, bool | int | float | str | tuple):
        yield f"{at} = {value!r}"


def test_presets_are_those_of_their_papers_and_repositories() -> None:
    names = [f"{name}:{preset}".rstrip(":") for name in DIALECTS.ids() for preset in presets(name) or ("",)]
    lines = [line for name in names for line in settings(name, load_dialect(name))]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
