"""Where log records of a command go: the screen, `-v` and `-vv`, and `--log-file`, the same for every command.

All modules log to standard loggers below `saccade` (docs/logging.md lists what). Without an option warnings are printed
as plain lines. Many workers meet the same outage at once: of a burst, the first lines are printed, and the others are
counted, never dropped silently. With `-v` every line is printed, with its time. Loggers of other packages are left as
they are.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from saccade.cli.output import visible

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
        """Print it, or count it."""
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
        """Run it."""
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

    Commands that hand their arguments on (`ignore_unknown_options`) are left as they are.
    """
    if not command.ignore_unknown_options:
        command.params += _options()
    for part in getattr(command, "commands", {}).values():
        add_log_options(part)
    return command


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
