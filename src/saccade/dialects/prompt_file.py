r"""Prompt texts as templates, and a user's own file of them in place of ours.

A file is either JSON, an object from template names to texts as PyVision publishes it, or any other text, which is then
the one template for every case. Templates use the braces of `str.format`: `{query}`, `{width}`, `{height}`,
`{image_information}`; a literal brace is doubled. Nothing else of `str.format` is allowed (no attributes, no indices,
no conversions), so a file cannot reach into the program. Nothing is downloaded, and no published file is shipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Protocol, Self, runtime_checkable

from saccade.errors import PromptFileError
from saccade.record.base import clean_text
from saccade.record.suggest import did_you_mean

FIELDS = ("query", "width", "height", "image_information")
ANY = "*"
"""Name of a template that serves every case."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Prompts:
    """Named templates and where they come from."""

    templates: Mapping[str, str]
    source: str

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """The template called `name` with its fields filled in, `query` among them. Raises as `around_query` does."""
        return values["query"].join(self.around_query(name, values))

    def around_query(self, name: str, values: Mapping[str, str]) -> tuple[str, ...]:
        """The template called `name` cut at each `{query}`, all other fields filled in; at least two pieces.

        Raises:
            PromptFileError: there is no such template, or it is broken or asks for what this case does not have.
        """
        pieces = [""]
        for literal, field in self.parse(name):
            pieces[-1] += literal
            if field == "query":
                pieces.append("")
            elif field is not None and field not in values:
                raise PromptFileError(
                    f"template {name!r} of {self.source} asks for {{{field}}}, which this task does not have "
                    f"(it has {', '.join(values)}). Use another template or take the field out."
                )
            elif field is not None:
                pieces[-1] += values[field]
        return tuple(pieces)

    def parse(self, name: str) -> list[tuple[str, str | None]]:
        """The template called `name` as literal texts, each with the field that follows it.

        Raises:
            PromptFileError: there is no such template, or it cannot be used.
        """
        template = self.templates.get(name, self.templates.get(ANY))
        if template is None:
            raise PromptFileError(
                f"{self.source} has no template {name!r}, which this dialect uses. {did_you_mean(name, self.templates)}"
            )
        where = f"template {name!r} of {self.source}"
        broken = _CONTROL.search(template)
        if broken:
            raise PromptFileError(
                f"{where} holds the control character {broken.group()!r} at position {broken.start()}. In JSON a "
                "backslash is written twice (as in \\\\boxed); correct the file."
            )
        try:
            found = [(literal, _field(where, *rest)) for literal, *rest in Formatter().parse(template)]
        except ValueError as error:
            if isinstance(error, PromptFileError):
                raise
            raise PromptFileError(f"{where} cannot be read: {error}. A literal brace is written twice.") from error
        if "query" not in {field for _, field in found}:
            raise PromptFileError(f"{where} has no {{query}}, so the model would never see the question. Add it.")
        return found


@runtime_checkable
class Prompted(Protocol):
    """A dialect whose prompt texts can be replaced."""

    def with_prompts(self, prompts: Prompts) -> Self:
        """The same dialect with other prompt texts. Raises `PromptFileError` if one that it uses is missing."""


def read_prompt_file(path: Path) -> Prompts:
    """The templates of a file: JSON if its name ends in `.json`, else one template for all cases.

    Raises:
        PromptFileError: it cannot be read, is no UTF-8, is longer than a million bytes, or is no object of texts.
    """
    try:
        data = path.read_bytes()
        if len(data) > _LONGEST:
            raise PromptFileError(f"prompt file {path} has {len(data)} bytes; more than {_LONGEST} is no prompt")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise PromptFileError(f"prompt file {path} cannot be read: {why}. Give a readable UTF-8 file.") from error
    if path.suffix.lower() != ".json":
        return Prompts({ANY: text}, str(path))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PromptFileError(f"prompt file {path} is no JSON: {error}. Correct it, or name it .txt.") from error
    if not isinstance(found, dict) or not found or not all(isinstance(value, str) for value in found.values()):
        raise PromptFileError(f"prompt file {path} must be one JSON object from template names to texts")
    return Prompts({clean_text(name): clean_text(value) for name, value in found.items()}, str(path))


def _field(where: str, field: str | None, spec: str | None, conversion: str | None) -> str | None:
    if field is None:
        return None
    if field not in FIELDS or spec or conversion:
        written = field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        raise PromptFileError(
            f"{where} uses {{{written}}}; only {', '.join('{' + name + '}' for name in FIELDS)} can be filled in. "
            "A literal brace is written twice."
        )
    return field
