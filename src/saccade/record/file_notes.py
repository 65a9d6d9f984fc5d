"""Files that settings name, with their sha256: a run is continued with the same ones or not.

They are files of a user's own code, wherever a setting names one, and prompt files: the settings called `prompt_file`.
Notes are comments of TOML, so that they are no settings. Modules are not noted: an installed package has a version of
its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from saccade.errors import SettingsError
from saccade.record.own_code import Reference, digest, loaded, reference

_NOTE = "# sha256 "
_PROMPTS = "prompt_file"


def file_notes(value: object, before: Mapping[str, str] = MappingProxyType({})) -> str:
    """A comment of TOML for each file of own code and of prompts that `value`, plain data, names, with its sha256.

    For code that was not loaded in this process, what was noted `before` (path -> sha256) stays.
    """
    notes: dict[str, str] = {}
    for name, text in _texts("", value):
        code = reference(text)
        if code is not None:
            seen = None if loaded(code) else before.get(code.place)
            now = seen or digest(code)
        else:
            now = _digest(text) if name == _PROMPTS and text else None
        if now:
            notes[text if code is None else code.place] = now
    return "".join(f"{_NOTE}{notes[place]}  {place}\n" for place in sorted(notes))


def noted_files(path: str | os.PathLike[str]) -> dict[str, str]:
    """The files that saved settings noted, with their sha256; empty if there are no such settings."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    notes = (line.removeprefix(_NOTE).partition("  ") for line in lines if line.startswith(_NOTE))
    return {place: sha256 for sha256, _, place in notes}


def check_files(path: str | os.PathLike[str]) -> None:
    """Whether the files that saved settings noted are still as they were.

    Raises:
        SettingsError: one has changed, or is gone.
    """
    for place, before in noted_files(path).items():
        code = Reference(place, "")
        now = digest(code) if code.is_file else _digest(place)
        if now != before:
            what = "is not there (relative paths count from the current folder)" if now is None else "has changed"
            raise SettingsError(
                f"{place} {what}, and the run of {path} was begun with it (sha256 {before[:12]}…). "
                "Continue the run with the file as it was, or begin another in a new folder."
            )


def _digest(place: str) -> str | None:
    try:
        return sha256(Path(place).read_bytes()).hexdigest()
    except OSError:
        return None


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Every text in `value`, with the name of its setting."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(str(key), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(name, inner)
