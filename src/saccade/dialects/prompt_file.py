"""Read a user's own file of prompt texts, in the forms in which the published systems have theirs.

    prompts.json    an object from names to texts, as PyVision has it; `system`, `user`, `tool`, `correction`, `last`
                    and `reminder` are places (see `prompt_texts`), other names are those of kinds of questions
    prompts.txt     "System Prompt:" and "User Prompt:" on lines of their own head their parts, as in VISTA;
                    else the whole is what is asked, or without `{query}` the system message, as Thyme has it
    prompts.py      texts that are assigned to names, as DeepEyes has them; read, and never run

Braces stand for themselves in a part with a heading, in a system message of its own, in a Python file and in all
places of JSON but the questions: only what can be filled in is. In JSON's questions and a text with `{query}` a
literal brace is doubled, as PyVision's are. Nothing is downloaded, and no published file is shipped.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from saccade.dialects.prompt_texts import ANY, SECTIONS, SYSTEM, USER, Prompts, as_written, fields_of, is_question
from saccade.errors import PromptFileError
from saccade.record.content import clean_text

OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"tool_descriptions": "tools", "Question": "query", "question": "query"}
)
"""Fields of published texts -> their names here."""
_HEADING = re.compile(r"^[#*\s]*(system|user)[ _]prompt[*\s]*:?[*\s]*$", re.IGNORECASE | re.MULTILINE)
_LONGEST = 1_000_000


def read_prompt_file(path: Path, names: Mapping[str, str] = MappingProxyType({})) -> Prompts:
    """Return the texts of a file, by the form that its suffix names.

    With `names` (place -> name in the file) those only.

    Raises `PromptFileError`: it cannot be read, is no UTF-8, is longer than a million bytes, or has not the form.
    """
    try:
        data = path.read_bytes()
        if len(data) > _LONGEST:
            raise PromptFileError(f"prompt file {path} has {len(data)} bytes; more than {_LONGEST} is no prompt")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise PromptFileError(f"prompt file {path} cannot be read: {why}. Give a readable UTF-8 file.") from error
    form = path.suffix.lower()
    if form == ".py":
        return _from_python(text, path, names)
    found = _from_json(text, path) if form == ".json" else _from_text(text, path)
    return found.renamed(names)


def _from_json(text: str, path: Path) -> Prompts:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PromptFileError(f"prompt file {path} is no JSON: {error}. Correct it, or name it .txt.") from error
    if not isinstance(found, dict) or not found or not all(isinstance(value, str) for value in found.values()):
        raise PromptFileError(f"prompt file {path} must be one JSON object from template names to texts")
    texts = {clean_text(name): clean_text(value) for name, value in found.items()}
    return Prompts(
        {name: text if is_question(name) else as_written(text, SECTIONS[name]) for name, text in texts.items()},
        str(path),
    )


def _from_text(text: str, path: Path) -> Prompts:
    pieces = _HEADING.split(text)
    if len(pieces) == 1:
        return Prompts({ANY: text}, str(path))
    if pieces[0].strip():
        raise PromptFileError(f"prompt file {path} has text before its first heading. Give it one, or take it out.")
    names = [piece.lower() for piece in pieces[1::2]]
    if len(set(names)) < len(names):
        raise PromptFileError(f"prompt file {path} has two parts under one heading. Leave one.")
    parts = {name: _written(name, part.strip()) for name, part in zip(names, pieces[2::2], strict=True)}
    return Prompts(parts, str(path))


def _from_python(text: str, path: Path, names: Mapping[str, str]) -> Prompts:
    """Return the texts that are assigned to names, anywhere but in functions; the last of a name counts."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PromptFileError(f"prompt file {path} is no Python: {error}. Correct it, or name it .txt.") from error
    found: dict[str, str] = {}
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for node in (node for body in bodies for node in body if isinstance(node, ast.Assign)):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    if not names:
        has = ", ".join(found) or "none"
        raise PromptFileError(
            f"prompt file {path} has these texts: {has}. Say which to use, as prompt_names.{SYSTEM}=NAME and "
            f"prompt_names.{USER}=NAME (or prompt_names.reminder, for what follows every question)."
        )
    chosen = Prompts({name: clean_text(text) for name, text in found.items()}, str(path)).renamed(names)
    return Prompts({place: _written(place, text) for place, text in chosen.templates.items()}, str(path))


def _written(place: str, text: str) -> str:
    fields = fields_of(place)
    return as_written(text, fields, {name: field for name, field in OTHER_NAMES.items() if field in fields})
