"""Everything that is wrong with settings, said at once: a line for each mistake, with the nearest name there is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError

from saccade.errors import SettingsError
from saccade.record.suggest import did_you_mean


def mistaken(mistakes: Sequence[str], where: str = "") -> SettingsError:
    """The error that names all of them; `where` is the file, or whatever else they are in."""
    head = f"{len(mistakes)} mistake(s)" + (f" in {where}" if where else "")
    return SettingsError(f"{head}:\n" + "\n".join(f"  {line}" for line in mistakes))


def mistakes_of(kind: type[BaseModel], error: ValidationError, under: str = "") -> list[str]:
    """A line for each problem in settings of class `kind`, whose names begin with `under` where it is given."""
    problems = error.errors(include_url=False, include_context=False)
    return [_mistake(kind, p["type"], p["loc"], p["msg"], p["input"], under) for p in problems]


def _mistake(
    kind: type[BaseModel], type_: str, where: tuple[int | str, ...], message: str, given: object, under: str
) -> str:
    name = ".".join(str(step) for step in (*((under,) if under else ()), *where)) or "(all settings)"
    if type_ == "extra_forbidden":
        return f"{name}: no such setting. {_hint(table_in(kind, where[:-1]), where)}".rstrip()
    if type_ == "missing":
        return f"{name}: is needed and has no default"
    if type_ == "value_error":  # a validator's own words, which say what it was given
        said = message.removeprefix("Value error, ")
        return f"{name}: {said}" if where or under else said
    if type_ in ("tuple_type", "list_type"):
        return f"{name}: is a list, and got {given!r}. Write [{json.dumps(given)}], in quotes for the shell"
    return f"{name}: {message[0].lower() + message[1:]}, got {given!r}"


def _hint(table: type[BaseModel] | None, where: tuple[int | str, ...]) -> str:
    """What the unknown setting at `where`, which is in `table`, may be called."""
    if table is None:
        return ""
    unknown = str(where[-1])
    return did_you_mean(unknown, [field.alias or name for name, field in table.model_fields.items()])


def table_in(kind: type[BaseModel], where: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The class of the table at `where`, as far as the annotations tell."""
    for step in where:
        field = kind.model_fields.get(str(step))
        nested = [] if field is None else [a for a in (field.annotation, *get_args(field.annotation)) if _is_model(a)]
        if not nested:
            return None
        kind = nested[0]
    return kind


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
