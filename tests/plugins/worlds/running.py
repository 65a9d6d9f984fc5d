"""Run a world's own program on a sample, in this process: it is our code, not a model's."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from hashlib import sha256
from typing import Any

from PIL import Image

from saccade.tasks.worlds.base import WorldSample


def printed_answer(sample: WorldSample, **bindings: Any) -> str:
    """The last line that the sample's program prints; `bindings` replace media of the same name."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(sample.program, {"__name__": "__main__", **sample.media, **bindings})
    return out.getvalue().rstrip("\n").rpartition("\n")[2]


def pixels_digest(sample: WorldSample) -> str:
    """The first 16 digits of the sha256 of question, answer, and size, mode and raw pixels of every picture."""
    digest = sha256(f"{sample.question}|{sample.answer}".encode())
    for medium in sample.media.values():
        if isinstance(medium, Image.Image):
            digest.update(f"{medium.size}{medium.mode}".encode())
            digest.update(medium.tobytes())
    return digest.hexdigest()[:16]
