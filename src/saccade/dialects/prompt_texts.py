r"""The texts of a dialect as templates, by the place where they stand, and how a user's own take their place.

Templates use the braces of `str.format`: `{query}`, `{tools}`; a literal brace is doubled. Nothing else of `str.format`
is allowed (no attributes, no indices, no conversions), so a template cannot reach into the program. `as_written`
doubles the braces of a text that was written without that rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from types import MappingProxyType
from typing import Final

from saccade.core.registry import did_you_mean
from saccade.errors import PromptFileError

ANY: Final = "*"
"""Name of a text that serves every case: each question, or the system message if it has no `{query}`."""
SYSTEM, USER, TOOL, CORRECTION, LAST, REMINDER = "system", "user", "tool", "correction", "last", "reminder"
QUESTION_FIELDS: Final = (
    *("query", "width", "height", "image_information", "task_type", "output_format"),
    *("image_info", "video_info"),  # of PyVision-RL's released file
)
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        SYSTEM: ("tools",),
        USER: QUESTION_FIELDS,
        TOOL: ("name", "arguments", "summary", "description", "schema", "function"),
        CORRECTION: ("reason",),
        LAST: (),
        REMINDER: (),
    }
)
"""Where a text stands -> what can be filled in there. Any other name is that of one kind of question, as `user`."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BRACES = re.compile(r"[{}]")


def fields_of(name: str) -> tuple[str, ...]:
    """Return what the text called `name` may have filled in."""
    return SECTIONS.get(name, QUESTION_FIELDS)


def is_question(name: str) -> bool:
    """Return whether the text called `name` is one that asks the question."""
    return name == USER or name not in SECTIONS


def as_written(text: str, fields: Collection[str], other_names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Let every brace of `text` stand for itself but those around one of `fields` (or of their `other_names`)."""
    pieces = re.split(r"\{(" + "|".join(map(re.escape, [*fields, *other_names]) or ["$^"]) + r")\}", text)
    pieces[0::2] = [_BRACES.sub(lambda brace: brace[0] * 2, piece) for piece in pieces[0::2]]
    pieces[1::2] = [f"{{{other_names.get(name, name)}}}" for name in pieces[1::2]]
    return "".join(pieces)


@lru_cache(maxsize=512)
def _parsed(template: str, name: str, source: str) -> tuple[tuple[str, str | None], ...]:
    """See `Prompts.parse`; every opening fills the same few templates in."""
    where = f"template {name!r} of {source}"
    broken = _CONTROL.search(template)
    if broken:
        raise PromptFileError(
            f"{where} holds the control character {broken.group()!r} at position {broken.start()}. In JSON a "
            "backslash is written twice (as in \\\\boxed); correct the file."
        )
    try:
        found = tuple(
            (literal, _field(where, fields_of(name), *rest)) for literal, *rest in Formatter().parse(template)
        )
    except ValueError as error:
        if isinstance(error, PromptFileError):
            raise
        raise PromptFileError(f"{where} cannot be read: {error}. A literal brace is written twice.") from error
    if is_question(name) and "query" not in {field for _, field in found}:
        raise PromptFileError(f"{where} has no {{query}}, so the model would never see the question. Add it.")
    return found


@dataclass(frozen=True, slots=True)
class Prompts:
    """Named templates and where they come from."""

    templates: Mapping[str, str]
    source: str

    def fill(self, name: str, values: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the template called `name` with its fields filled in.

        Raises as `parse`, and for a field without a value.
        """
        text = ""
        for literal, field in self.parse(name):
            text += literal + ("" if field is None else self._value(name, field, values))
        return text

    def around_query(self, name: str, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the template called `name` cut at each `{query}`, all other fields filled in; at least two pieces.
        Raises `PromptFileError` if there is no such template, or it is broken or asks for what this case does not have.
        """
        pieces = [""]
        for literal, field in self.parse(name):
            pieces[-1] += literal
            if field == "query":
                pieces.append("")
            elif field is not None:
                pieces[-1] += self._value(name, field, values)
        return tuple(pieces)

    def parse(self, name: str) -> tuple[tuple[str, str | None], ...]:
        """Return the template called `name` as literal texts, each with the field that follows it. Raises
        `PromptFileError` if there is no such template, or it cannot be used.
        """
        template = self.templates.get(name, self.templates.get(ANY) if is_question(name) else None)
        if template is None:
            raise PromptFileError(
                f"{self.source} has no template {name!r}, which this dialect uses. "
                f"{did_you_mean(name, self.templates)}".rstrip()
            )
        return _parsed(template, name, self.source)

    def has_field(self, name: str, field: str) -> bool:
        return any(found == field for _, found in self.parse(name))

    def replaced_by(self, given: Prompts, questions: tuple[str, ...] = (USER,)) -> Prompts:
        """Return these with what `given` has of them in their place; `questions` are those that must be there if one
        is.

        `user` of `given` serves all `questions`. What `given` does not have stays as it is.

        Raises `PromptFileError`: `given` has nothing that is used, lacks one of `questions`, has a text that this
        dialect has no place for, or one that cannot be used.
        """
        found = {name: text for name, text in given.templates.items() if name in SECTIONS and name != USER}
        for name in found:
            if name not in self.templates:
                here = ", ".join(name for name in SECTIONS if name in self.templates or name == USER)
                raise PromptFileError(
                    f"{given.source} has a text {name!r}, and this dialect has no place for it: it has {here}."
                )
        template = given.templates.get(ANY)
        if template is not None and "{query" not in template and self.templates.get(SYSTEM):
            found[SYSTEM] = as_written(template, SECTIONS[SYSTEM])
        elif template is not None or USER in given.templates:
            asked = given.templates[USER] if template is None else template
            found |= dict.fromkeys([*questions, *filter(is_question, self.templates)], asked)
        elif not found or given.templates.keys() & {*questions}:
            found |= {name: text for name, text in given.templates.items() if is_question(name)}
            for name in questions:
                if name not in found:
                    raise PromptFileError(
                        f"{given.source} has no template {name!r}, which this dialect uses. "
                        f"{did_you_mean(name, given.templates)} It has {', '.join(given.templates)}; "
                        f"prompt_names.{USER}=NAME uses one of them."
                    )
        asks = any(map(is_question, found))
        kept = {name: text for name, text in self.templates.items() if not (asks and is_question(name))}
        made = Prompts({**kept, **found}, given.source)
        for name in (*questions, *SECTIONS):
            if name in found:
                made.parse(name)
        return made

    def renamed(self, names: Mapping[str, str]) -> Prompts:
        """Return these with the text of each of `names` (place -> name here) in its place, and no other. Raises
        `PromptFileError` if there is no such place, or no such text.
        """
        if not names:
            return self
        for place, name in names.items():
            if place not in SECTIONS:
                raise PromptFileError(f"prompt_names.{place}: there is no such place. {did_you_mean(place, SECTIONS)}")
            if name not in self.templates:
                has = ", ".join(self.templates)
                raise PromptFileError(f"prompt_names.{place}: {self.source} has no text {name!r}. It has {has}.")
        return Prompts({place: self.templates[name] for place, name in names.items()}, self.source)

    def _value(self, name: str, field: str, values: Mapping[str, str]) -> str:
        if field not in values:
            raise PromptFileError(
                f"template {name!r} of {self.source} asks for {{{field}}}, which this task does not have "
                f"(it has {', '.join(values)}). Use another template or take the field out."
            )
        return values[field]


NO_PROMPTS: Final = Prompts({}, "no prompts")


def _field(
    where: str, known: tuple[str, ...], field: str | None, spec: str | None, conversion: str | None
) -> str | None:
    if field is None:
        return None
    if field not in known or spec or conversion:
        written = field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        filled = f"only {', '.join('{' + name + '}' for name in known)} can" if known else "nothing can"
        raise PromptFileError(f"{where} uses {{{written}}}; {filled} be filled in. A literal brace is written twice.")
    return field
