"""`--json` of every command that has it: values on standard output, one on a line, and nothing else there.

What a person reads goes to standard error then; an error does in any case, and its exit code is the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeAlias

import typer

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]


def print_json(value: object) -> None:
    """Print a value on one line: what JSON has, and data classes, records, paths and mappings in it."""
    print(json.dumps(value, ensure_ascii=False, default=_plain))


def teller(as_json: bool) -> Callable[[str], None]:
    """What prints a line for a person: to standard output, or beside the JSON to standard error."""

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    return say


def _plain(value: Any) -> object:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    return dict(value) if isinstance(value, Mapping) else str(value)
