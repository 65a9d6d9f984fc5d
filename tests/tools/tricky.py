"""A tool that does what its caller wants: sleep, crash, be killed, print, look. It also counts batches."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from PIL import Image

from saccade.errors import UnavailableError
from saccade.tools.base import Cost, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolModel

HERE = f"{Path(__file__).resolve()}:Tricky"


class TrickyArguments(ToolModel):
    do: Literal["answer", "sleep", "crash", "die", "die-once", "print", "raise", "look"] = "answer"
    seconds: float = 0.0
    mark: str = ""
    """Of `die-once`: the file that says that it died already."""


class TrickyResult(ToolModel):
    pid: int
    loads: int
    """How often this process loaded the tool."""
    together: int
    """Calls of the same batch."""
    size: tuple[int, int] = (0, 0)
    threads: str = ""


class Tricky(Tool[TrickyArguments, TrickyResult]):
    """See the module's head."""

    name = "tricky"
    description = "Do as told."
    arguments = TrickyArguments
    result = TrickyResult
    cost = Cost.LIGHT
    batch = 4

    def __init__(self, weights: str = "here") -> None:
        self._weights = weights
        self._loads = 0

    def load(self) -> None:
        if self._weights == "torn":
            raise EOFError("the file ends in the middle")
        if self._weights != "here":
            raise UnavailableError(f"there are no weights at {self._weights}")
        self._loads += 1

    def run(self, arguments: TrickyArguments, context: ToolContext) -> ToolOutcome[TrickyResult]:
        return self._one(arguments, context, 1)

    def run_batch(self, calls: Sequence[tuple[TrickyArguments, ToolContext]]) -> list[ToolOutcome[TrickyResult]]:
        return [self._one(arguments, context, len(calls)) for arguments, context in calls]

    def _one(self, arguments: TrickyArguments, context: ToolContext, together: int) -> ToolOutcome[TrickyResult]:
        if self._weights != "here":
            raise UnavailableError(f"there are no weights at {self._weights}")
        time.sleep(arguments.seconds)
        if arguments.do == "crash":
            os.abort()
        if arguments.do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if arguments.do == "die-once" and not Path(arguments.mark).exists():
            Path(arguments.mark).touch()
            os.abort()
        if arguments.do == "raise":
            raise ValueError("as told")
        if arguments.do == "print":
            print("a tool prints")
        size = context.image(None).size if arguments.do == "look" else (0, 0)
        pictures = (("seen", Image.new("RGB", size, "red")),) if arguments.do == "look" else ()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        value = TrickyResult(pid=os.getpid(), loads=self._loads, together=together, size=size, threads=threads)
        return ToolOutcome(value, pictures)


class Alone(Tricky):
    """The same, one call at a time."""

    batch = 1
