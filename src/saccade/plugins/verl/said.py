"""Keep Saccade's warnings of verl's processes, which hide them, in a file, and log them again in the command.

OUT/verl/said.jsonl has a line for each, from all processes: `time`, `process`, `level`, `logger`, `message`.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

SAID: Final = "said.jsonl"
_OURS: Final = "saccade"


class _Appending(logging.Handler):
    """Appends warnings to a file that other processes append to as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path

    def emit(self, record: logging.LogRecord) -> None:
        line = {
            "time": record.created,
            "process": os.getpid(),
            "level": record.levelno,
            "logger": record.name,
            "message": record.getMessage(),
        }
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError:
            self.handleError(record)


def keep_warnings(out: Path) -> None:
    """Let this process write our warnings into the run's folder `out`; idempotent."""
    logger, path = logging.getLogger(_OURS), out / "verl" / SAID
    if logger.level == logging.NOTSET:  # in verl's workers the root lets errors alone pass
        logger.setLevel(logging.WARNING)
    if not any(isinstance(handler, _Appending) and handler.path == path for handler in logger.handlers):
        logger.addHandler(_Appending(path))


class SaidAgain:
    """Logs in this process what others add to the file of the run in `out` from now on."""

    def __init__(self, out: Path) -> None:
        self._path = out / "verl" / SAID
        self._read = self._path.stat().st_size if self._path.exists() else 0

    def say(self) -> None:
        """Pass on what is new; a line that is not whole yet is left for the next time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        lines = new[: new.rfind(b"\n") + 1]
        self._read += len(lines)
        for raw in lines.splitlines():
            line = json.loads(raw)
            logging.getLogger(line["logger"]).log(line["level"], "%s", line["message"])
