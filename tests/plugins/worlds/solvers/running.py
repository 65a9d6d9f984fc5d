"""Run a solver's program on a picture, in this process: it is our code, not a model's."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from PIL import Image

from saccade.plugins.worlds.solvers.questions import solver_for


def printed(question: str, picture: Image.Image) -> str:
    """The last line that the program for `question` prints about `picture`."""
    solver = solver_for(question)
    assert solver is not None, question
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(solver.program(), solver.source, "exec"), {"__name__": "__main__", "image_clue_0": picture})
    return out.getvalue().rstrip("\n").rpartition("\n")[2]


def plain(answer: str) -> str:
    """An answer without the form that it was asked for in: its numbers, or its word."""
    return ",".join(re.findall(r"\d+", answer)) or answer.strip(" {}").lower()
