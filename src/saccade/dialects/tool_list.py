"""How typed tools are described in a prompt: a line each, by a template of the dialect or of the user's prompt file.

`SHORT` has a tool's name, its arguments and the first sentence of its description, as in
`crop(box, image?, units?=pixels|normalized, scale?): Cut ...`; a question mark follows what may be left out. `SCHEMA`
has the whole description and the JSON Schema, and is ten times as long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_texts import TOOL, Prompts
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec

ToolList = Literal["", "short", "schema"]
"""How tools are listed; empty: as the dialect, or a prompt file, has it."""
SHORT: Final = "- {name}({arguments}): {summary}"
SCHEMA: Final = "- {name}: {description} Arguments: {schema}"


def listed(tools: Sequence[ToolSpec], prompts: Prompts) -> str:
    """A line for each tool, by the template `tool`; `(none)` without any."""
    return "\n".join(prompts.fill(TOOL, _values(tool)) for tool in tools) or "(none)"


def listing(dialect: Dialect, form: ToolList) -> Dialect:
    """Return the dialect with its tools listed in that form.

    Raises:
        SettingsError: it lists none in its prompt.
    """
    if not form:
        return dialect
    if TOOL not in dialect.prompts.templates:
        raise SettingsError(f"dialect {dialect.id} has no list of tools in its prompt. Leave out tool_list.")
    return dialect.with_text(TOOL, SHORT if form == "short" else SCHEMA)


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
