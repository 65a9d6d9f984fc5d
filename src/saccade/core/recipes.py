"""Which file a recipe's name stands for, and which recipes there are.

A recipe is asked for by the name of a bundled one (`codedance`), or by the path of a file. What a file says is read and
checked by the command that it is for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from saccade.core.registry import did_you_mean
from saccade.errors import SettingsError

Kind = Literal["curate", "rl", "sft", "sources"]
"""A folder here: pipelines of filters, settings of two kinds of training, and mixtures of sources."""

FOLDER = Path(__file__).parent.parent / "training" / "recipes"


def recipe_names(kind: Kind) -> tuple[str, ...]:
    """Return the bundled recipes, sorted."""
    return tuple(sorted(path.stem for path in (FOLDER / kind).glob("*.toml")))


def find_recipe(kind: Kind, name: str | os.PathLike[str]) -> Path:
    """Return the file of a bundled recipe, or the file at a path. A bundled name wins over a file of that very name.

    Raises `SettingsError`: there is neither; suggests the nearest bundled one.
    """
    path = Path(name)
    names = recipe_names(kind)
    if str(name) in names:
        return FOLDER / kind / f"{name}.toml"
    if path.is_file():
        return path
    known = did_you_mean(path.stem, names) or f"Known: {', '.join(names)}."
    if path.suffix or path.name != str(name):
        raise SettingsError(f"{path} is no file. Check the path, or name a bundled recipe instead. {known}")
    raise SettingsError(f"there is no recipe {str(name)!r} for this, and no such file. {known}")


def recipe_list(kind: Kind) -> str:
    """Return a line for each bundled recipe: its name, and the first sentence of its file."""
    names = recipe_names(kind)
    width = max(map(len, names))
    return "\n".join(f"{name:<{width}}  {about_recipe(kind, name)}" for name in names)


def about_recipe(kind: Kind, name: str) -> str:
    """Return the first sentence of the comment that a bundled recipe opens with."""
    path = FOLDER / kind / f"{name}.toml"
    comment = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    text = " ".join(comment)
    end = min((at + 1 for mark in ".?" if (at := text.find(f"{mark} ")) >= 0), default=len(text))
    return text[:end]
