"""Every command of `saccade` by the words that call it, as the parser has it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from saccade.cli.main import load, verbs


@cache
def commands() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, verb in verbs().items():
        found.update(_below(name, typer.main.get_command(load(name, verb))))
    return found


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    parts = getattr(command, "commands", None)
    if parts is None:
        yield words, command
        return
    for name, part in parts.items():
        yield from _below(f"{words} {name}", part)


def options(command: Any) -> dict[str, Any]:
    return {item.opts[0]: item for item in command.params if item.param_type_name == "option"}


def arguments(command: Any) -> list[Any]:
    return [item for item in command.params if item.param_type_name == "argument"]
