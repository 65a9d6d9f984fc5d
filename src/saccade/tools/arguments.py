"""Arguments of tools: strict pydantic models, and the check that turns any JSON into one of them or a problem.

Types are those of JSON, taken strictly: "3" is no number and 3.5 no integer. Unknown names are refused with the nearest
known one. Nothing is guessed or filled in beyond the defaults that the schema states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from saccade.record.suggest import did_you_mean
from saccade.tools.problem import CallProblem, Problem, ProblemKind

_SHOWN = 4
_VALUE_CHARACTERS = 80


class ToolModel(BaseModel):
    """Base of the arguments and of the results of tools; its JSON Schema is the tool's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


ToolModelT = TypeVar("ToolModelT", bound=ToolModel)


def check_arguments(model: type[ToolModelT], arguments: object) -> ToolModelT:
    """`arguments`, which a model wrote, as an object of `model`.

    Raises:
        CallProblem: they do not follow the schema; lists up to four mistakes.
    """
    read = _read(model, arguments)
    if isinstance(read, ToolModel):
        return read
    lines = [problem.message for problem in read]
    rest = len(lines) - _SHOWN
    more = [f"and {rest} more"] if rest > 0 else []
    raise CallProblem(read[0].kind, "; ".join(lines[:_SHOWN] + more) + f". Arguments are {_names(model)}.")


def mistakes(model: type[ToolModel], arguments: object) -> tuple[Problem, ...]:
    """Every single mistake in `arguments`, which a model wrote; empty if they follow the schema."""
    read = _read(model, arguments)
    return () if isinstance(read, ToolModel) else read


def _read(model: type[ToolModelT], arguments: object) -> ToolModelT | tuple[Problem, ...]:
    if not isinstance(arguments, Mapping):
        message = f"Arguments are a JSON object, not {_json_type(arguments)}"
        return (Problem(ProblemKind.SCHEMA, message),)
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
        return model.model_validate_json(text)
    except ValidationError as error:
        return _problems(model, error.errors(include_url=False, include_context=False))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"Arguments hold something that JSON cannot (use finite numbers, texts and lists): {_cut(str(error))}"
        return (Problem(ProblemKind.ARGUMENT_FORMAT, message),)


def _problems(model: type[ToolModel], errors: Sequence[ErrorDetails]) -> tuple[Problem, ...]:
    order = (ProblemKind.ARGUMENT_NAME, ProblemKind.SCHEMA, ProblemKind.ARGUMENT_FORMAT)
    problems = {Problem(kind := _kind(error), _line(model, kind, error)): None for error in errors}
    # A misspelt name also shows as a missing argument: the name is the cause, so it comes first.
    return tuple(sorted(problems, key=lambda problem: order.index(problem.kind)))


def _kind(error: ErrorDetails) -> ProblemKind:
    if error["type"] == "extra_forbidden":
        return ProblemKind.ARGUMENT_NAME
    # A number for the place: a list that is too short, which is the format of a value and not a missing argument.
    missing = error["type"] == "missing" and not isinstance(error["loc"][-1], int)
    return ProblemKind.SCHEMA if missing else ProblemKind.ARGUMENT_FORMAT


def _line(model: type[ToolModel], kind: ProblemKind, error: ErrorDetails) -> str:
    where = _cut(".".join(str(step) for step in error["loc"]))
    if kind is ProblemKind.ARGUMENT_NAME:
        # The fields of nested objects are not known here; pydantic's place names the object.
        known = model.model_fields if len(error["loc"]) == 1 else ()
        return f"There is no argument {where!r}. {did_you_mean(where, known)}".rstrip(" ?.")
    if kind is ProblemKind.SCHEMA:
        return f"The argument {where!r} is missing"
    if error["type"] == "missing":
        place = _cut(".".join(str(step) for step in error["loc"][:-1]))
        return f"The argument {place!r} is wrong: the list is too short"
    return f"The argument {where!r} is wrong: {_cut(error['msg'])} (got {_cut(json.dumps(error['input']))})"


def _names(model: type[ToolModel]) -> str:
    fields = model.model_fields.items()
    return ", ".join(name if field.is_required() else f"{name} (optional)" for name, field in fields)


def _cut(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= _VALUE_CHARACTERS else clean[:_VALUE_CHARACTERS] + "..."


def _json_type(value: object) -> str:
    names = {str: "a text", list: "a list", bool: "a truth value", type(None): "null"}
    return names.get(cast(type, type(value)), "a number" if isinstance(value, int | float) else type(value).__name__)
