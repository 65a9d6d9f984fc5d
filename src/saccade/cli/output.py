"""Output of commands: `--json`, plain text, bars and spinners.

With `--json` standard output holds only the values, one on a line; what a person reads goes to standard error, as
errors always do.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias, TypeVar

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
        self._shown.advance(self._row)

    def reach(self, done: int, total: int) -> None:
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

# Where log records of a command go: the screen, `-v` and `-vv`, and `--log-file`, the same for every command.
#
# All modules log to standard loggers below `saccade` (docs/logging.md lists what). Without an option warnings are
# printed as plain lines. Many workers meet the same outage at once: of a burst, the first lines are printed, and the
# others are counted, never dropped silently. With `-v` every line is printed, with its time. Loggers of other packages
# are left as they are.

MOST, SECONDS = 6, 10.0
"""So many lines are printed in so many seconds, unless more are asked for."""
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_LINE = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_FILE_LINE = f"%(process)d {_LINE}"


class Notices(logging.Handler):
    """Prints to whatever standard error is at that time, so that a bar on the terminal makes room."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._printed: deque[float] = deque(maxlen=MOST)
        self._unsaid = 0

    def emit(self, record: logging.LogRecord) -> None:
        now = self._now()
        if self.level >= logging.WARNING and len(self._printed) == MOST and now - self._printed[0] < SECONDS:
            self._unsaid += 1
            return
        self._say_unsaid()
        self._printed.append(now)
        print(visible(self.format(record)), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Say how many were not printed."""
        self._say_unsaid()
        super().close()

    def _say_unsaid(self) -> None:
        if self._unsaid:
            print(f"({self._unsaid} more such lines were left out)", file=sys.stderr, flush=True)
            self._unsaid = 0


class _FileLines(logging.Formatter):
    """One line for each record, so that no text in it can look like another record."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record)).replace("\n", "\n    ")


class Logs:
    """The handlers of one command; a context manager."""

    def __init__(self) -> None:
        self.verbosity = 0
        self.file: Path | None = None
        self._logger = logging.getLogger("saccade")
        self._screen = Notices()
        self._kept: logging.FileHandler | None = None
        self._before = logging.NOTSET
        self._token: Token[Logs | None] | None = None

    def __enter__(self) -> Self:
        """Print warnings from now on."""
        self._before = self._logger.level
        self._logger.addHandler(self._screen)
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the loggers as they were."""
        for handler in filter(None, (self._screen, self._kept)):
            self._logger.removeHandler(handler)
            handler.close()
        self._logger.setLevel(self._before)
        if self._token is not None:
            _CURRENT.reset(self._token)

    def print_more(self, verbosity: int) -> None:
        """Print INFO (1) or DEBUG (2) too, each line with its time."""
        self.verbosity = max(self.verbosity, min(verbosity, 2))
        if self.verbosity:
            self._screen.setFormatter(logging.Formatter(_LINE, "%H:%M:%S"))
        self._screen.setLevel(_LEVELS[self.verbosity])
        self._adapt()

    def write_to(self, file: Path) -> None:
        """Append to `file` too, at least INFO. Raises `OSError` if it cannot be written."""
        self._kept = logging.FileHandler(file, encoding="utf-8")
        self._kept.setFormatter(_FileLines(_FILE_LINE, "%Y-%m-%d %H:%M:%S"))
        self._logger.addHandler(self._kept)
        self.file = file
        self._adapt()

    def _adapt(self) -> None:
        """Set levels of the file and of the loggers: whatever a handler wants must be made."""
        least = _LEVELS[max(self.verbosity, self.file is not None)]
        if self._kept is not None:
            self._kept.setLevel(least)
        self._logger.setLevel(least)


_CURRENT: ContextVar[Logs | None] = ContextVar("saccade_logs", default=None)


@dataclass(frozen=True)
class Logged:
    """`program` in a process of its own, which logs as the one that made this does; it can be pickled."""

    program: Callable[..., None]
    verbosity: int
    file: Path | None

    def __call__(self, *arguments: Any) -> None:
        with Logs() as logs:
            logs.print_more(self.verbosity)
            if self.file is not None:
                logs.write_to(self.file)
            self.program(*arguments)


def logged(program: Callable[..., None]) -> Callable[..., None]:
    """Return `program` for processes of its own, with the options of the present command."""
    logs = _CURRENT.get()
    return program if logs is None else Logged(program, logs.verbosity, logs.file)


def add_log_options(command: Any) -> Any:
    """`command`, a command or a group of Typer's, whose parts all take `-v` and `--log-file`; itself.

    A missing argument or option is then named with its help. Commands that hand their arguments on
    (`ignore_unknown_options`) are left as they are.
    """
    if not command.ignore_unknown_options:
        command.params += _options()
    for item in command.params:
        item.get_missing_message = partial(_missing, item)
    for part in getattr(command, "commands", {}).values():
        add_log_options(part)
    return command


def _missing(item: Any, *, ctx: Any) -> str:
    return item.help or ""


@cache
def _options() -> tuple[Any, ...]:
    """Return the options as Typer makes them, from a command that only has these; all commands share them."""
    app = typer.Typer(add_completion=False)
    app.command()(_takes)
    made = tuple(item for item in typer.main.get_command(app).params if item.name in ("verbose", "log_file"))
    for item in made:
        item.expose_value = False  # the callbacks have done everything
    return made


def _louder(verbosity: int) -> None:
    logs = _CURRENT.get()
    if verbosity and logs is not None:
        logs.print_more(verbosity)


def _kept_in(file: Path | None) -> None:
    logs = _CURRENT.get()
    if file is None or logs is None:
        return
    try:
        logs.write_to(file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}. Name another file.") from error


def _takes(
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            show_default=False,
            callback=_louder,
            help="Print what happens: retries, restarts, limits, ends of episodes. -vv: each turn and call too.",
        ),
    ] = 0,
    log_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=_kept_in, help="Append the same to FILE, as with -v at least."),
    ] = None,
) -> None:
    """Give Typer the options by this signature."""
