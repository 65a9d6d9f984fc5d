"""`saccade openenv` in a process of its own, and what an agent says to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.dialects.base import load_dialect
from saccade.record.content import Answer, Code

PYVISION = load_dialect("pyvision")
TOKEN = "0123456789abcdef0123456789abcdef"


def code(text: str) -> str:
    return PYVISION.write(Code(code=text), "I look.")


def answer(text: str) -> str:
    return PYVISION.write(Answer(text=text), "I look.")


@contextmanager
def served(*options: str, token: str | None = None, log: Path | None = None) -> Iterator[str]:
    """The address of a server of the environment."""
    command = [sys.executable, "-m", "saccade", "openenv", "--port", "0", *options]
    environment = dict(os.environ)
    if token is None:
        command.append("--no-token")
    else:
        environment["SACCADE_OPENENV_TOKEN"] = token
    with (log or Path(os.devnull)).open("w") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("saccade openenv: http"), line
            yield line.split()[2]
        finally:
            server.terminate()
            server.wait(120)
