"""Tool calls as models write them in JSON, every known shape read as one `ToolCall`, with its shape.

    {"name": "zoom", "arguments": {...}}                      arguments (DeepEyes, Qwen, verl-tool)
    {"tool": "zoom", "parameters": {...}}                     parameters (VISTA-Gym)
    {"tool": "zoom", "key": value, ...}                       flat (VISTA's prompt)
    {"tool": "zoom", "task": "...", "arguments": {...} | "…"} task_arguments (VISTA's case studies)
    {"action": {"server": "s", "tool": "zoom", ...}}          action (MCP)
    {"server": "s", "tool": "zoom", "arguments": {...}}       server (MCP)

`read_call` is total and evaluates nothing: JSON as RFC 8259 has it, no trailing commas, no NaN. It knows no tools:
an unknown name or a wrong argument is the tool's to refuse. `TOOL_SYNONYMS` and `resolve_name` deal with names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NoReturn

from pydantic import JsonValue, ValidationError

from saccade.dialects.base import Dialect, Fault, FaultKind, ToolList
from saccade.dialects.prompt_texts import SYSTEM, TOOL, Prompts
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec
from saccade.record.content import ToolCall
from saccade.tools.registry import tool_class

TOOL_SYNONYMS: tuple[frozenset[str], ...] = (
    frozenset({"grounding_dino", "groundingdino"}),
    frozenset({"sam", "sam2"}),
    frozenset({"diagram_formalizer", "diagramformalizer"}),
    frozenset({"inter_gps", "intergps"}),
    frozenset({"multimath", "multimath_server"}),
)
"""Spellings of one name in published code. Names under which the arguments differ are aliases that a tool declares."""


class CallShape(StrEnum):
    """How a call was written; see the module's head."""

    ARGUMENTS = "arguments"
    PARAMETERS = "parameters"
    FLAT = "flat"
    TASK_ARGUMENTS = "task_arguments"
    ACTION = "action"
    SERVER = "server"
    MIXED = "mixed"
    """A name and arguments are there, but in a mixture of the shapes above."""


ALL_SHAPES = frozenset(CallShape)


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call, how it was written, and the MCP server that it named."""

    call: ToolCall
    shape: CallShape
    server: str | None = None


def read_call(text: str, shapes: Collection[CallShape] = ALL_SHAPES) -> ReadCall | Fault:
    """Return the call that the JSON `text` writes, or what is wrong with it. `shapes` are those that are allowed."""
    data = _load(text.strip())
    if isinstance(data, Fault):
        return data
    if not isinstance(data, dict):
        return Fault(FaultKind.NOT_AN_OBJECT, f"A tool call is a JSON object, but this is {_kind(data)}.")
    read = _read_object(data)
    if isinstance(read, ReadCall) and read.shape not in shapes:
        allowed = ", ".join(sorted(shapes))
        return Fault(
            FaultKind.OTHER_SHAPE, f"The call is written in the shape {read.shape!s}; allowed here: {allowed}."
        )
    return read


def write_call(call: ToolCall, shape: CallShape) -> str:
    """Return the JSON of `call` on one line in `shape`; tags in its texts are escaped, so that none can end the block.

    Raises `ValueError`: `shape` cannot hold the call (a flat one with a key of the protocol, one with a call id).
    """
    arguments = dict(call.arguments)
    forms: dict[CallShape, dict[str, JsonValue]] = {
        CallShape.ARGUMENTS: {"name": call.name, "arguments": arguments},
        CallShape.PARAMETERS: {"tool": call.name, "parameters": arguments},
        CallShape.FLAT: {"tool": call.name, **arguments},
    }
    if shape not in forms:
        raise ValueError(f"calls are not written in the shape {shape!s}; use one of {', '.join(sorted(forms))}")
    text = dump_json(forms[shape])
    read = read_call(text, {shape})
    if not isinstance(read, ReadCall) or read.call != call:
        raise ValueError(f"the shape {shape!s} cannot hold this call of {call.name!r}; write it in another shape")
    return text


def dump_json(data: object) -> str:
    """Return `data` as JSON on one line, every `<` that could begin a tag written as an escape."""
    return re.sub(r"<(?=[/A-Za-z|])", r"\\u003c", json.dumps(data, ensure_ascii=False, allow_nan=False))


def resolve_name(name: str, offered: Collection[str]) -> str:
    """Return the name among `offered` that `name` is a synonym of; `name` itself if it is offered or nothing fits."""
    if name in offered:
        return name
    names = next((group for group in TOOL_SYNONYMS if name in group), frozenset[str]())
    return min(names & set(offered), default=name)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        return Fault(FaultKind.NOT_JSON, "The JSON of the tool call is nested too deeply.")
    except ValueError as error:
        return Fault(FaultKind.NOT_JSON, f"The tool call is not valid JSON: {error}.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _read_object(data: dict[str, Any]) -> ReadCall | Fault:
    wrapped = isinstance(data.get("action"), dict) and not {"tool", "name"} & data.keys()
    inner: dict[str, Any] = data["action"] if wrapped else data
    key = next((key for key in ("tool", "name") if isinstance(inner.get(key), str) and inner[key]), None)
    if key is None or len(inner[key]) > 200:
        return Fault(FaultKind.NO_TOOL_NAME, 'The tool call names no tool: give its name under "tool" or "name".')
    rest = {other: value for other, value in inner.items() if other != key}
    server = rest.pop("server") if isinstance(rest.get("server"), str) and "arguments" in rest else None
    arguments = _arguments(rest)
    if isinstance(arguments, Fault):
        return arguments
    shape = _shape(wrapped and data.keys() == {"action"}, key, set(rest), server)
    return _record(inner[key], arguments, shape, server)


def _arguments(rest: dict[str, Any]) -> dict[str, Any] | Fault:
    """Return the arguments in what stands next to the name: in `parameters` or `arguments`, next to them, or both."""
    holder = next((key for key in ("parameters", "arguments") if key in rest), None)
    if holder is None:
        return rest
    held = rest[holder]
    if isinstance(held, str):
        inner = _load(held)
        if not isinstance(inner, dict):
            return rest  # a plain text, as in VISTA's case studies, is an argument of that name
        held = inner
    beside = {key: value for key, value in rest.items() if key != holder}
    if held is None:
        held = {}
    if not isinstance(held, dict):
        return Fault(FaultKind.BAD_ARGUMENTS, f'"{holder}" must be a JSON object, but it is {_kind(held)}.')
    twice = sorted(beside.keys() & held.keys())
    if twice:
        return Fault(FaultKind.BAD_ARGUMENTS, f'{", ".join(twice)} stand both beside "{holder}" and in it.')
    return {**beside, **held}


def _shape(wrapped: bool, key: str, rest: set[str], server: str | None) -> CallShape:
    if wrapped and key == "tool" and rest == {"arguments"}:
        return CallShape.ACTION
    if wrapped or key == "name":
        return CallShape.ARGUMENTS if not wrapped and rest == {"arguments"} and server is None else CallShape.MIXED
    if server is not None:
        return CallShape.SERVER if rest == {"arguments"} else CallShape.MIXED
    if rest == {"parameters"}:
        return CallShape.PARAMETERS
    if rest == {"task", "arguments"}:
        return CallShape.TASK_ARGUMENTS
    return CallShape.MIXED if rest & {"parameters", "arguments"} else CallShape.FLAT


def _record(name: str, arguments: dict[str, Any], shape: CallShape, server: str | None) -> ReadCall | Fault:
    try:
        return ReadCall(ToolCall(name=name, arguments=arguments), shape, server)
    except (ValidationError, RecursionError):
        reason = "The tool call holds a number or a text that JSON cannot give back, or is nested too deeply."
        return Fault(FaultKind.NOT_JSON, reason)


def _kind(value: object) -> str:
    kinds = {type(None): "null", bool: "a boolean", str: "a text", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


# How typed tools are described in a prompt: a line each, by a template of the dialect or of the user's prompt file.
#
# `SHORT` has a tool's name, its arguments and the first sentence of its description, as in
# `crop(box, image?, units?=pixels|normalized, scale?): Cut ...`; a question mark follows what may be left out. `SCHEMA`
# has the whole description and the JSON Schema, and is ten times as long.


SHORT: Final = "- {name}({arguments}): {summary}"
SCHEMA: Final = "- {name}: {description} Arguments: {schema}"


def listed(tools: Sequence[ToolSpec], prompts: Prompts) -> str:
    """Return a line for each tool, by the template `tool`; `(none)` without any."""
    return "\n".join(prompts.fill(TOOL, _values(tool)) for tool in tools) or "(none)"


def with_tool_list(dialect: Dialect, form: ToolList) -> Dialect:
    """Return the dialect with its tools listed in that form. Raises `SettingsError` if it lists none in its prompt."""
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
        "arguments": _argument_names(tool.parameters),
        "schema": json.dumps(tool.parameters),
        "function": json.dumps({"type": "function", "function": function}),
    }


def _argument_names(schema: Mapping[str, Any]) -> str:
    """Return the arguments' names, with `?` where one may be left out, and `=` and the words where they are listed."""
    required = schema.get("required", ())
    return ", ".join(
        name + ("" if name in required else "?") + _words(given) for name, given in schema.get("properties", {}).items()
    )


def _words(given: object) -> str:
    words = given.get("enum", ()) if isinstance(given, Mapping) else ()
    return "=" + "|".join(map(str, words)) if words else ""


# Which tools suit which questions: knowledge of the choice of tools, said in the prompt (VISTA-Gym's "T&R").
#
# One line for each family of questions, of the tools that are on offer only. The families are those of the paper's
# tools and data; which tools suit them is our wording. The lines are the same for every task, so they give no answer
# away.


FAMILIES: Final = (
    "charts",
    "tables, forms and other print",
    "diagrams of geometry",
    "problems of geometry",
    "counting",
    "colours and coloured maps",
    "small or hidden things",
    "lengths, lines and circles",
    "videos",
)
"""Families of questions in the order of their lines; others that a tool names follow by name."""


def hint_lines(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """Return a line for each family that a registered tool on offer suits, its tools in the order to try them."""
    classes = [kind for tool in tools if (kind := tool_class(tool.name))]
    suits = {kind.name: dict(kind.suits) for kind in classes}
    further = sorted({family for families in suits.values() for family in families} - set(FAMILIES))
    lines = []
    for family in (*FAMILIES, *further):
        names = sorted((places[family], name) for name, places in suits.items() if family in places)
        if names:
            lines.append(f"- {family}: {', '.join(name for _, name in names)}")
    return tuple(lines)


def hinted(dialect: Dialect) -> Dialect:
    """Return the dialect with the lines at the end of its system message. Raises `SettingsError` if it lists no tools
    in its system message, or no registered tool of those says what it suits.
    """
    texts = dialect.prompts.templates
    if not dialect.offers_tools or TOOL not in texts or not texts.get(SYSTEM):
        raise SettingsError(f"dialect {dialect.id} lists no tools in a system message. Leave out tool_hints.")
    lines = hint_lines(dialect.tools)
    if not lines:
        raise SettingsError(f"nothing is known of the tools that {dialect.id} offers. Leave out tool_hints.")
    return dialect.with_text(
        SYSTEM, "\n".join([texts[SYSTEM], "", "Which tools suit which questions, the first ones first:", *lines])
    )
