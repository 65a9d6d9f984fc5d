"""How far a command is, on the terminal's error stream: a bar where it counts, a spinner where it cannot.

Both are gone at the end, and nothing is printed where there is no terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from saccade.cli.plain import plain_column, plain_console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")


class CountBar:
    """A bar under way."""

    def __init__(self, shown: Progress, row: TaskID) -> None:
        self._shown, self._row = shown, row

    def advance(self) -> None:
        """One more is done."""
        self._shown.advance(self._row)

    def reach(self, done: int, total: int) -> None:
        """`done` of `total` are done."""
        self._shown.update(self._row, completed=done, total=total)


@contextmanager
def count_bar(title: str, total: int | None = None) -> Iterator[CountBar]:
    """A bar of `total` things; of a number that is not known yet if None."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = plain_console(stderr=True)
    columns = (plain_column("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield CountBar(shown, shown.add_task(title, total=total))


def counted(items: Iterable[T], title: str, total: int | None = None) -> Iterator[T]:
    """`items`, with a bar that advances as they are taken."""
    with count_bar(title, total) as bar:
        for item in items:
            yield item
            bar.advance()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """A spinner for as long as the block runs."""
    from rich.text import Text

    console = plain_console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(title)):
        yield
