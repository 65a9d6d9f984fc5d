"""Output of commands: `--json`, plain text, bars and spinners.

With `--json` standard output holds only the values, one on a line; what a person reads goes to standard error, as
errors always do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from saccade.core.unseen import spelled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID, TextColumn


AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there.")
]

OpenIt: TypeAlias = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the page in the browser. [default: do not]")
]
PagePort: TypeAlias = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")]


def print_json(value: object) -> None:
    """Print a value on one line: what JSON has, and data classes, records, paths and mappings in it."""
    print(json.dumps(value, ensure_ascii=False, default=_plain))


def print_some(lines: Sequence[object], most: int = 20) -> None:
    """Print the first lines to standard error, as plain text, and how many more there are."""
    for line in lines[:most]:
        print(visible(f"  {line}"), file=sys.stderr)
    if len(lines) > most:
        print(f"  and {len(lines) - most} more", file=sys.stderr)


def teller(as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a line for a person: to standard output, or with JSON to standard error."""

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


# rich takes `[env]` for a style and leaves it out, so every console of the commands is made here.

MOST_LINES: Final = 3
"""Of an error."""
_MARKS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}


def visible(text: str) -> str:
    """Return `text` without anything that a terminal would obey, or that nobody could see."""
    return spelled(text.translate(_MARKS), joined=True)


def plain_console(**options: Any) -> Console:
    """Make a console of rich that prints brackets and `:train:` as they are; `options` are rich's."""
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)


def plain_column(text_format: str) -> TextColumn:
    """Make a column of a progress bar that prints brackets as they are."""
    from rich.progress import TextColumn

    return TextColumn(text_format, markup=False)


def error_text(message: str) -> str:
    """Write an error in at most three lines; further lines are joined to the last one."""
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    head, rest = lines[: MOST_LINES - 1], lines[MOST_LINES - 1 :]
    return "\n".join([*head, "; ".join([*rest[:1], *(line.strip() for line in rest[1:])])] if rest else head)


# Bars and spinners go to standard error, disappear at the end, and are not drawn where there is no terminal.

T = TypeVar("T")


class CountBar:
    """A bar under way."""

    def __init__(self, shown: Progress, row: TaskID) -> None:
        self._shown, self._row = shown, row

    def advance(self) -> None:
        """Count one more."""
        self._shown.advance(self._row)

    def reach(self, done: int, total: int) -> None:
        """Show `done` of `total`."""
        self._shown.update(self._row, completed=done, total=total)


@contextmanager
def count_bar(title: str, total: int | None = None) -> Iterator[CountBar]:
    """Draw a bar of `total` things; None: the number is not known yet."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = plain_console(stderr=True)
    columns = (plain_column("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield CountBar(shown, shown.add_task(title, total=total))


def counted(items: Iterable[T], title: str, total: int | None = None) -> Iterator[T]:
    """Yield `items` with a bar that advances."""
    with count_bar(title, total) as bar:
        for item in items:
            yield item
            bar.advance()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Draw a spinner while the block runs."""
    from rich.text import Text

    console = plain_console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(title)):
        yield


ToolNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="NAME",
        help="A typed tool to offer, for a dialect that calls tools: crop, my_tools.py, http://HOST:PORT (`saccade "
        "tools serve`), 'mcp:COMMAND' or mcp:URL. May be repeated; docs/tools.md.",
    ),
]
