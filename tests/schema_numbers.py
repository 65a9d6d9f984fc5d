"""The numbers in the schemas of models: every bound and every default, a line each."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel


def numbers(at: str, schema: Any) -> Iterator[str]:
    """A line for each number, with the way to it."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield from numbers(f"{at} {key}", value)
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from numbers(f"{at} {index}", value)
    elif isinstance(schema, int | float) and not isinstance(schema, bool):
        yield f"{at} {schema}"


def numbers_of_models(modules: Iterable[str]) -> list[str]:
    """The lines of each public model that is defined in these modules; those of models inside it are theirs."""
    lines: list[str] = []
    for module in modules:
        for name, kind in sorted(vars(importlib.import_module(module)).items()):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.__module__ == module and name[0] != "_":
                for field, schema in kind.model_json_schema().get("properties", {}).items():
                    own = {key: value for key, value in schema.items() if not isinstance(value, dict)}
                    lines += numbers(f"{name} {field}", own)
    return lines
