"""Files of a user's own code that settings name, with their sha256: a run is continued with the same code or not.

Comments of TOML, so that they are no settings. Modules are not noted: an installed package has a version of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from saccade.errors import SettingsError
from saccade.record.own_code import Reference, digest, loaded, reference

_NOTE = "# sha256 "


def code_notes(value: object, before: Mapping[str, str] = MappingProxyType({})) -> str:
    """A comment of TOML for each file of a user's own code that a text in `value`, plain data, names, with its sha256.

    For a file that was not loaded in this process, what was noted `before` (path -> sha256) stays.
    """
    found: dict[str, str] = {}
    for code in filter(None, map(reference, _texts(value))):
        seen = None if loaded(code) else before.get(code.place)
        if sha256 := seen or digest(code):
            found[code.place] = sha256
    return "".join(f"{_NOTE}{found[place]}  {place}\n" for place in sorted(found))


def noted_code(path: str | os.PathLike[str]) -> dict[str, str]:
    """The files of a user's own code that saved settings name, with their sha256; empty if there is no such file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    notes = (line.removeprefix(_NOTE).partition("  ") for line in lines if line.startswith(_NOTE))
    return {place: sha256 for sha256, _, place in notes}


def check_code(path: str | os.PathLike[str]) -> None:
    """Whether the files of a user's own code are still those that saved settings noted.

    Raises:
        SettingsError: one has changed, or is gone.
    """
    for place, sha256 in noted_code(path).items():
        now = digest(Reference(place, ""))
        if now != sha256:
            what = "is not there (relative paths count from the current folder)" if now is None else "has changed"
            raise SettingsError(
                f"{place} {what}, and the run of {path} was begun with it (sha256 {sha256[:12]}…). "
                "Continue the run with the file as it was, or begin another in a new folder."
            )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
