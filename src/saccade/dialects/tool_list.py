"""How typed tools are described in a prompt: a line each, by a template of the dialect or of the user's prompt file.

`SHORT` has a tool's name, its arguments and the first sentence of its description, as in
`crop(box, image?, units?=pixels|normalized, scale?): Cut ...`; a question mark follows what may be left out. `SCHEMA`
has the whole description and the JSON Schema, and is ten times as long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

from saccade.dialects.prompt_texts import TOOL, Prompted, Prompts
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec

ToolList = Literal["", "short", "schema"]
"""How tools are listed; empty: as the dialect, or a prompt file, has it."""
SHORT: Final = "- {name}({arguments}): {summary}"
SCHEMA: Final = "- {name}: {description} Arguments: {schema}"

D = TypeVar("D")


def listed(tools: Sequence[ToolSpec], prompts: Prompts) -> str:
    """A line for each tool, by the template `tool`; `(none)` without any."""
    return "\n".join(prompts.fill(TOOL, _values(tool)) for tool in tools) or "(none)"


def listing(dialect: D, form: ToolList) -> D:
    """The dialect with its tools listed in that form.

    Raises:
        SettingsError: it lists none in its prompt.
    """
    if not form:
        return dialect
    if not isinstance(dialect, Prompted) or TOOL not in dialect.prompts.templates:
        name = getattr(dialect, "id", dialect)
        raise SettingsError(f"dialect {name} has no list of tools in its prompt. Leave out tool_list.")
    prompts = dialect.prompts
    template = SHORT if form == "short" else SCHEMA
    made: Any = replace(dialect, prompts=Prompts({**prompts.templates, TOOL: template}, prompts.source))  # type: ignore[type-var]
    return made  # type: ignore[no-any-return]


def _values(tool: ToolSpec) -> dict[str, str]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {
        "name": tool.name,
        "summary": tool.description.partition(". ")[0].removesuffix(".") + ".",
        "description": tool.description,
        "arguments": _arguments(tool.parameters),
        "schema": json.dumps(tool.parameters),
        "function": json.dumps({"type": "function", "function": function}),
    }


def _arguments(schema: Mapping[str, Any]) -> str:
    """The names, those that may be left out with a question mark, and the words that one may be."""
    required = schema.get("required", ())
    return ", ".join(
        name + ("" if name in required else "?") + _words(given) for name, given in schema.get("properties", {}).items()
    )


def _words(given: object) -> str:
    words = given.get("enum", ()) if isinstance(given, Mapping) else ()
    return "=" + "|".join(map(str, words)) if words else ""
